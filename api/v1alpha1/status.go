package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of conditions.
const (
	// ConditionAvailable says whether clients are served.
	ConditionAvailable = "Available"
	// ConditionProgressing says what is being changed, and what that waits for.
	ConditionProgressing = "Progressing"
	// ConditionDegraded names what is not as it should be.
	ConditionDegraded = "Degraded"
	// ConditionQuorumHealthy says whether the members reach a majority of each other.
	ConditionQuorumHealthy = "QuorumHealthy"
	// ConditionViewKnown says whether the operator knows who the members are.
	ConditionViewKnown = "ViewKnown"
	// ConditionToleratesZoneLoss says whether a quorum is left when any one zone is lost.
	ConditionToleratesZoneLoss = "ToleratesZoneLoss"
	// ConditionPaused says whether the operator keeps its hands off.
	ConditionPaused = "Paused"
	// ConditionMonitoringReady says whether the objects of the Prometheus operator are there.
	ConditionMonitoringReady = "MonitoringReady"
)

// GeoRegisterClusterStatus is a projection of what the operator saw last: it may be lost without harm.
type GeoRegisterClusterStatus struct {
	// ObservedGeneration is the generation of the spec that the status speaks of.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// Conditions in words.
	// +optional
	// +listType=map
	// +listMapKey=type
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// SiteCount is the number of sites.
	// +optional
	SiteCount int32 `json:"siteCount,omitempty"`

	// Ready is how many members serve, of how many: 3/3.
	// +optional
	Ready string `json:"ready,omitempty"`

	// Quorum is how many voters reach a majority, and how many are needed: 3/2.
	// +optional
	Quorum string `json:"quorum,omitempty"`

	// View is the membership that the operator has recorded.
	// +optional
	View *ViewStatus `json:"view,omitempty"`

	// Sites tells where clients find each site.
	// +optional
	// +listType=map
	// +listMapKey=name
	Sites []SiteStatus `json:"sites,omitempty"`

	// Members are the members of the view, and those that leave it.
	// +optional
	// +listType=map
	// +listMapKey=id
	Members []MemberStatus `json:"members,omitempty"`
}

// ViewStatus is the membership that the operator has recorded.
type ViewStatus struct {
	// ClusterID is the identity of the stored data.
	ClusterID string `json:"clusterID"`
	// Epoch grows with every change of membership.
	Epoch int64 `json:"epoch"`
	// Digest tells views of the same epoch apart.
	Digest string `json:"digest"`
	// Members is how many there are.
	Members int32 `json:"members"`
	// Majority is how many of them make a quorum.
	Majority int32 `json:"majority"`
	// FastQuorum is how many of them must agree for an rmw in one round trip; 0 where the protocol has none.
	// +optional
	FastQuorum int32 `json:"fastQuorum,omitempty"`
}

// SiteStatus tells where clients find a site.
type SiteStatus struct {
	Name string `json:"name"`
	// Ready is how many of the site's members serve, of how many: 1/1.
	Ready string `json:"ready"`
	// Redis is the address of the Redis port.
	Redis string `json:"redis"`
	// GRPC is the address of the gRPC port.
	GRPC string `json:"grpc"`
}

// MemberStatus is what the operator saw of a member.
type MemberStatus struct {
	ID   int64  `json:"id"`
	Site string `json:"site"`
	// Pod is the name of the member's pod.
	Pod string `json:"pod"`
	// Node is where the pod runs.
	// +optional
	Node string `json:"node,omitempty"`
	// Incarnation counts the disks that the member has had.
	// +optional
	Incarnation int64 `json:"incarnation,omitempty"`
	// Role is Waiting, Learner, Voter or Removed; empty while the member is silent.
	// +optional
	Role string `json:"role,omitempty"`
	// State says in words how the member is.
	State string `json:"state"`
	// Version of the binary that it runs.
	// +optional
	Version string `json:"version,omitempty"`
}
