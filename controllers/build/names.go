package build

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Every object that the operator makes is named here: by the cluster and a site or a kind of object, or by both. Names
// of clusters and sites have no two hyphens in a row and none at an end, and no site has the name of a kind of Service
// (api/v1alpha1): a name can be read in one way only, so no two objects of a kind share one, of whatever clusters they
// are.
const (
	separator = "--"
	// cutMark is between what is left of a cluster's name that was cut and the hash that stands for the whole: no name
	// that was not cut has three hyphens in a row.
	cutMark = "---"
	// hashLength is how many characters the hash has, 5 bits each.
	hashLength = 10

	// maxLabel bounds Services, hostnames, and values of labels.
	maxLabel = 63
	// maxSet bounds StatefulSets: the label controller-revision-hash of their pods has the name, a hyphen and up to 10
	// characters.
	maxSet = maxLabel - 11
	// maxChaos bounds objects of Chaos Mesh.
	maxChaos = 57
)

// join makes a name of at most so many characters. One that would be longer keeps all parts but the first, which is the
// cluster's, as they are.
func join(limit int, cluster string, parts ...string) string {
	rest := separator + strings.Join(parts, separator)
	whole := cluster + rest
	if len(whole) <= limit {
		return whole
	}
	sum := sha256.Sum256([]byte(whole))
	hash := strings.ToLower(base32.HexEncoding.EncodeToString(sum[:])[:hashLength])
	left := limit - len(cutMark) - len(hash) - len(rest)
	return strings.TrimRight(cluster[:left], "-") + cutMark + hash + rest
}

// StatefulSetName names the StatefulSet of a member: NAME--SITE--ID.
func StatefulSetName(cluster string, m view.Member) string {
	return join(maxSet, cluster, m.Site, fmt.Sprint(m.ID))
}

// PodName names the only pod of a member's StatefulSet.
func PodName(cluster string, m view.Member) string { return OnlyPod(StatefulSetName(cluster, m)) }

// VolumeName names the PersistentVolumeClaim of a member.
func VolumeName(cluster string, m view.Member) string { return OnlyVolume(StatefulSetName(cluster, m)) }

// OnlyPod names the only pod of a StatefulSet, of a member or a dedicated witness.
func OnlyPod(set string) string { return set + "-0" }

// OnlyVolume names the PersistentVolumeClaim of the pod of a StatefulSet.
func OnlyVolume(set string) string { return "data-" + set }

// DedicatedName names the StatefulSet of a dedicated witness: NAME--SITE--witness-ID.
func DedicatedName(cluster string, w view.Witness) string {
	return join(maxSet, cluster, w.Site, fmt.Sprintf("witness-%d", w.ID))
}

// DedicatedPodName names the only pod of a dedicated witness's StatefulSet.
func DedicatedPodName(cluster string, w view.Witness) string {
	return OnlyPod(DedicatedName(cluster, w))
}

// DedicatedVolumeName names the PersistentVolumeClaim of a dedicated witness.
func DedicatedVolumeName(cluster string, w view.Witness) string {
	return OnlyVolume(DedicatedName(cluster, w))
}

// PeersName names the headless Service that gives members their names in the DNS, ready or not. It is why no site can
// be called "peers".
func PeersName(cluster string) string { return join(maxLabel, cluster, "peers") }

// SiteName names the headless Service for the clients of a site: NAME--SITE, which is never cut.
func SiteName(cluster, site string) string { return join(maxLabel, cluster, site) }

// ClientsName names the Service for clients that do not care where they are: NAME--clients. It is why no site can be
// called "clients".
func ClientsName(cluster string) string { return join(maxLabel, cluster, "clients") }

// MembersName names what the members' pods share: their PodDisruptionBudget, their NetworkPolicy, and their
// ServiceAccount, which may do nothing and is that of dedicated witnesses, too.
func MembersName(cluster string) string { return join(maxLabel, cluster, "members") }

// WitnessesName names the PodDisruptionBudget and the NetworkPolicy of dedicated witnesses.
func WitnessesName(cluster string) string { return join(maxLabel, cluster, "witnesses") }

// MonitoringName names the PodMonitor and the PrometheusRule.
func MonitoringName(cluster string) string { return join(maxLabel, cluster, "monitoring") }

// BootName names the ConfigMap that members are started with.
func BootName(cluster string) string { return join(maxLabel, cluster, "boot") }

// RecordName names the ConfigMap that holds the view.
func RecordName(cluster string) string { return join(maxLabel, cluster, "view") }

// SecretName names the Secret with the keys that prove what sessions depend on.
func SecretName(cluster string) string { return join(maxLabel, cluster, "token-keys") }

// NetworkName names what emulates the network from one site to another. A hash, of 10 characters, tells it from all
// others.
func NetworkName(cluster, from, to, hash string) string {
	whole := strings.Join([]string{cluster, from, to}, separator)
	return strings.TrimRight(whole[:min(len(whole), maxChaos-len(cutMark)-len(hash))], "-") + cutMark + hash
}

// Address is where a member's peers reach it, host:port. It depends on nothing but names, so it outlives pods.
func Address(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, m view.Member) string {
	// A name: never an IPv6 address, which would need brackets.
	return fmt.Sprintf("%s:%d", host(cluster, settings, m), PeerPort)
}

func host(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, m view.Member) string {
	return fmt.Sprintf("%s.%s.%s.svc.%s",
		PodName(cluster.Name, m), PeersName(cluster.Name), cluster.Namespace, settings.ClusterDomain)
}

// DedicatedAddress is where members reach a dedicated witness, host:port.
func DedicatedAddress(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, w view.Witness) string {
	return fmt.Sprintf("%s.%s.%s.svc.%s:%d",
		DedicatedPodName(cluster.Name, w), PeersName(cluster.Name), cluster.Namespace,
		settings.ClusterDomain, WitnessPort)
}

// Endpoint is where the clients of a site find its members by name; the port says the protocol (RedisPort,
// GRPCPort).
func Endpoint(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, site string) string {
	return fmt.Sprintf("%s.%s.svc.%s", SiteName(cluster.Name, site), cluster.Namespace, settings.ClusterDomain)
}
