package build

import (
	"fmt"
	"strconv"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Labels of every object, and of the pods of members.
const (
	NameLabel      = "app.kubernetes.io/name"
	InstanceLabel  = "app.kubernetes.io/instance"
	ManagedByLabel = "app.kubernetes.io/managed-by"
	// ClusterLabel has the resource's name. Every selector includes it: several clusters share a namespace.
	ClusterLabel = "georegister.io/cluster"
	SiteLabel    = "georegister.io/site"
	MemberLabel  = "georegister.io/member" // the id

	// Application is the value of NameLabel and ManagedByLabel.
	Application = "georegister"
	// OperatorName is the value of NameLabel on the operator's pods, which may reach the admin port.
	OperatorName = "georegister-operator"
)

// Annotations.
const (
	// ClusterIDAnnotation tells whose data a volume or a record holds, beyond the life of the resource.
	ClusterIDAnnotation = "georegister.io/cluster-id"
	// SpecHashAnnotation, on pods and their template, is SpecHash when the pod was made.
	SpecHashAnnotation = "georegister.io/spec-hash"
)

// Ports of a member.
const (
	PeerPort  = 7000
	GRPCPort  = 7001
	AdminPort = 7002
	RedisPort = 6379
	HTTPPort  = 8080 // health and metrics

	// Of the witness in its pod.
	WitnessPort     = 7003 // for members and the operator
	WitnessHTTPPort = 8081 // health and metrics

	PeerPortName  = "peer"
	GRPCPortName  = "grpc"
	AdminPortName = "admin"
	RedisPortName = "redis"
	HTTPPortName  = "http"

	WitnessPortName     = "witness"
	WitnessHTTPPortName = "witness-http"
)

// Names of the containers in a member's pod: its own, and with protocol CURP a witness's.
const (
	Container        = "georegister"
	WitnessContainer = "witness"
)

// Keys of ConfigMaps.
const (
	BootKey = "boot.yaml"
	// WitnessKey is beside BootKey.
	WitnessKey = "witness.yaml"
	ViewKey    = "view.yaml"
	DigestKey  = "digest"
)

// Labels are those of an object that the whole cluster shares. The map is the caller's.
func Labels(cluster string) map[string]string {
	return map[string]string{
		NameLabel: Application, InstanceLabel: cluster, ManagedByLabel: Application, ClusterLabel: cluster,
	}
}

// SiteLabels are those of an object that belongs to one site.
func SiteLabels(cluster, site string) map[string]string {
	labels := Labels(cluster)
	labels[SiteLabel] = site
	return labels
}

// MemberLabels are those of an object that belongs to one member.
func MemberLabels(cluster string, m view.Member) map[string]string {
	labels := SiteLabels(cluster, m.Site)
	labels[MemberLabel] = strconv.FormatUint(uint64(m.ID), 10)
	return labels
}

// selected are the labels that selectors of a cluster's pods ask for. They are few because a StatefulSet's
// selector can't be changed later.
func selected(cluster string) map[string]string {
	return map[string]string{NameLabel: Application, ClusterLabel: cluster}
}

// StatefulSetName names the StatefulSet of a member: at most 42 characters.
func StatefulSetName(cluster string, m view.Member) string {
	return fmt.Sprintf("%s-%s-%d", cluster, m.Site, m.ID)
}

// PodName names the only pod of a member's StatefulSet.
func PodName(cluster string, m view.Member) string { return StatefulSetName(cluster, m) + "-0" }

// VolumeName names the PersistentVolumeClaim of a member.
func VolumeName(cluster string, m view.Member) string { return "data-" + StatefulSetName(cluster, m) }

// PeersName names the headless Service that gives members their names in the DNS, ready or not. It is why no
// site can be called "peers".
func PeersName(cluster string) string { return cluster + "-peers" }

// SiteName names the headless Service for the clients of a site.
func SiteName(cluster, site string) string { return cluster + "-" + site }

// ClientsName names the cluster-wide Service, and what else there is one of: the PodDisruptionBudget, the
// NetworkPolicy, the PodMonitor and the PrometheusRule.
func ClientsName(cluster string) string { return cluster }

// BootName names the ConfigMap that members are started with.
func BootName(cluster string) string { return cluster + "-boot" }

// RecordName names the ConfigMap that holds the view.
func RecordName(cluster string) string { return cluster + "-view" }

// ServiceAccountName names the identity of the cluster's pods, which may do nothing.
func ServiceAccountName(cluster string) string { return cluster + "-member" }

// Address is where a member's peers reach it, host:port. It depends on nothing but names, so it outlives pods.
func Address(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, m view.Member) string {
	return fmt.Sprintf("%s:%d", host(cluster, settings, m), PeerPort) // a name: never an IPv6 address, which would need brackets
}

func host(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, m view.Member) string {
	return fmt.Sprintf("%s.%s.%s.svc.%s",
		PodName(cluster.Name, m), PeersName(cluster.Name), cluster.Namespace, settings.ClusterDomain)
}

// Endpoint is where the clients of a site find its members by name; the port says the protocol (RedisPort,
// GRPCPort).
func Endpoint(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings, site string) string {
	return fmt.Sprintf("%s.%s.svc.%s", SiteName(cluster.Name, site), cluster.Namespace, settings.ClusterDomain)
}
