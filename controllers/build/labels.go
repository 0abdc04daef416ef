package build

import (
	"strconv"

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
	return joined(Labels(cluster), map[string]string{SiteLabel: site})
}

// MemberLabels are those of an object that belongs to one member.
func MemberLabels(cluster string, m view.Member) map[string]string {
	return joined(SiteLabels(cluster, m.Site), map[string]string{MemberLabel: number(m.ID)})
}

// number is an id as labels and arguments have it.
func number(id view.MemberID) string { return strconv.FormatUint(uint64(id), 10) }

// selected are the labels that selectors of a cluster's pods ask for. They are few because a StatefulSet's
// selector can't be changed later.
func selected(cluster string) map[string]string {
	return map[string]string{NameLabel: Application, ClusterLabel: cluster}
}
