package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// The types of conditions.
const (
	// ConditionReady is True while the cluster serves as its manifest asks for: it is Available, not Degraded, not
	// Progressing, not Stalled and not Paused, and what spec.wan asks for is in place. Unknown means that no operator
	// has looked at it.
	ConditionReady = "Ready"
	// ConditionStalled is True while the operator can't go on before somebody does what the message says.
	ConditionStalled = "Stalled"
	// ConditionAvailable is True while the cluster serves: a majority of the view's members vote and reach each other.
	ConditionAvailable = "Available"
	// ConditionProgressing is True while the operator has work under way or waits to begin it; the reason names the
	// step.
	ConditionProgressing = "Progressing"
	// ConditionDegraded is True while something is less than asked for: a member that does not serve, for example.
	ConditionDegraded = "Degraded"
	// ConditionQuorumHealthy is True while every member of the view votes and reaches the others. False says how many
	// more may be lost, or that quorum is lost. Where spec.faultTolerance is less than a minority, no more than that
	// are said to.
	ConditionQuorumHealthy = "QuorumHealthy"
	// ConditionQuorumLost is True while so many members are lost for good that no majority can come back: nothing can
	// be read or written, and only spec.recovery goes on with what is left.
	ConditionQuorumLost = "QuorumLost"
	// ConditionViewKnown is False while neither the record nor a majority of members tell the view: nothing that needs
	// it is done then.
	ConditionViewKnown = "ViewKnown"
	// ConditionToleratesZoneLoss is True when the loss of any one zone leaves a majority, and is no more than may be
	// lost (spec.faultTolerance). False names the zone; Unknown
	// means that the operator may not read nodes.
	ConditionToleratesZoneLoss = "ToleratesZoneLoss"
	// ConditionPaused is True while spec.paused keeps the operator from changing anything.
	ConditionPaused = "Paused"
	// ConditionWANInjected is True while Chaos Mesh says that the network of spec.wan is in place between the pods
	// there are now. False names the pair of sites that it waits for.
	ConditionWANInjected = "WANInjected"
	// ConditionWANWithinTolerance is True while the shortest round trips that members measure are as spec.wan declares
	// them. False names the pair of sites that is furthest from it.
	ConditionWANWithinTolerance = "WANWithinTolerance"
	// ConditionPartitionsServing is True while every shard of protocol CURP has a master that serves, and all the
	// backups and witnesses that it should have. False names the shard and what it waits for.
	ConditionPartitionsServing = "PartitionsServing"
	// ConditionMonitoringReady says whether the objects that spec.monitoring asks for are there.
	ConditionMonitoringReady = "MonitoringReady"
)

// State is in one word how a cluster is.
type State string

// The states.
const (
	// StateUnknown: no operator has looked at the resource, or the one that tried could not see how the cluster is.
	StateUnknown State = "Unknown"
	// StateStarting: the cluster was never founded; its first members start.
	StateStarting State = "Starting"
	// StateReady: it serves as its manifest asks for.
	StateReady State = "Ready"
	// StateChanging: it serves, and the operator changes it, or has yet to.
	StateChanging State = "Changing"
	// StateDegraded: it serves, and something is less than asked for.
	StateDegraded State = "Degraded"
	// StateUnavailable: it was founded, and does not serve.
	StateUnavailable State = "Unavailable"
	// StateStalled: somebody has to do what the condition Stalled says; it may serve.
	StateStalled State = "Stalled"
	// StatePaused: it serves, and spec.paused keeps the operator's hands off it.
	StatePaused State = "Paused"
)

// GeoRegisterClusterStatus is what the operator saw last.
type GeoRegisterClusterStatus struct {
	// ObservedGeneration is the metadata.generation that the rest of the status is about.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// State is in one word how the cluster is: Unknown, Starting, Ready, Changing, Degraded, Unavailable, Stalled or
	// Paused. The conditions say more.
	// +optional
	State State `json:"state,omitempty"`

	// Conditions are Ready, Stalled, Available, Progressing, Degraded, QuorumHealthy, QuorumLost, ViewKnown,
	// ToleratesZoneLoss, Paused, PartitionsServing, MonitoringReady, WANInjected and WANWithinTolerance.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// SitesReady is the number of sites all of whose members serve, of the sites there are, such as 3/3.
	// +optional
	SitesReady string `json:"sitesReady,omitempty"`

	// Ready is the number of members that serve, of those asked for, such as 3/3.
	// +optional
	Ready string `json:"ready,omitempty"`

	// Quorum is the number of voters that answer, and how many make a majority of the view, such as 3/2. With
	// fewer than a majority nothing can be read or written.
	// +optional
	Quorum string `json:"quorum,omitempty"`

	// View is the membership that is in force. It is absent while it isn't known.
	// +optional
	View *ViewStatus `json:"view,omitempty"`

	// Change is the change of members that is under way. It is absent while there is none.
	// +optional
	Change *ChangeStatus `json:"change,omitempty"`

	// Recovered is the last recovery by spec.recovery.
	// +optional
	Recovered *RecoveredStatus `json:"recovered,omitempty"`

	// Members are the members of the view, and those that are about to join or to leave it, by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=32
	Members []MemberStatus `json:"members,omitempty"`

	// Partitions are the shards of protocol CURP, with who keeps them. Other protocols have none.
	// +optional
	// +listType=map
	// +listMapKey=number
	// +kubebuilder:validation:MaxItems=256
	Partitions []PartitionStatus `json:"partitions,omitempty"`

	// Sites are where clients reach the members of each site.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=7
	Sites []SiteStatus `json:"sites,omitempty"`

	// Links are the pairs of sites with the round trips that spec.wan declares and that members measure. They are there
	// while a provider emulates the network.
	// +optional
	// +listType=map
	// +listMapKey=between
	// +kubebuilder:validation:MaxItems=21
	Links []LinkStatus `json:"links,omitempty"`
}

// LinkStatus is the network between two sites as it is.
type LinkStatus struct {
	// Between names the two sites, such as ca-va.
	Between string `json:"between"`

	// Declared is the round trip that spec.wan asks for.
	Declared Duration `json:"declared"`

	// Measured is the shortest round trip that members of the two sites measured lately, when the link came to be
	// within tolerance, or ceased to be; the metrics have it as it is now. It is absent while nobody measured it.
	// +optional
	Measured Duration `json:"measured,omitempty"`

	// WithinTolerance is whether the two agree.
	WithinTolerance bool `json:"withinTolerance"`

	// LastTransitionTime is since when withinTolerance is what it is.
	// +optional
	LastTransitionTime metav1.Time `json:"lastTransitionTime,omitempty"`
}

// ViewStatus is the membership that is in force.
type ViewStatus struct {
	// ClusterID is the identity of the stored data, made once and kept for as long as its volumes are.
	ClusterID string `json:"clusterID"`

	// Epoch counts the changes of membership, from 1.
	Epoch int64 `json:"epoch"`

	// Digest is the fingerprint of the view: members with the same digest hold the same view.
	// +optional
	Digest string `json:"digest,omitempty"`

	// Members is the number of members.
	Members int32 `json:"members"`

	// Majority is how many of them must answer an operation.
	Majority int32 `json:"majority"`

	// FastQuorum is how many of them must agree for an rmw to commit in one round trip. It is absent with
	// protocols that have no rmws.
	// +optional
	FastQuorum *int32 `json:"fastQuorum,omitempty"`
}

// ChangeStatus is a change of members that is under way. First the newcomers start and wait; then a joint view has the
// members of both sides, and operations need a majority of each; and when the state is where it is needed, the next
// view has the members after the change alone.
type ChangeStatus struct {
	// Epoch is that of the joint view. It is absent until there is one.
	// +optional
	Epoch int64 `json:"epoch,omitempty"`

	// Step is what the change is at: StartingMembers, CatchingUp, RemovingMembers or Abandoning.
	Step ChangeStep `json:"step"`

	// Joining are the numbers of the members that join.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Joining []int32 `json:"joining,omitempty"`

	// Leaving are the numbers of the members that leave.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	Leaving []int32 `json:"leaving,omitempty"`

	// Settled is the number of members, of those after the change, that have ended what was under way before it, such
	// as 4/5.
	// +optional
	Settled string `json:"settled,omitempty"`

	// Fetched is the number of members that hold the state that they must fetch, such as 1/2.
	// +optional
	Fetched string `json:"fetched,omitempty"`

	// Percent is how much of that state is there, from 0 to 100. It is absent while its size isn't known.
	// +optional
	Percent *int32 `json:"percent,omitempty"`

	// Bytes is how much of it was fetched over the network. What is equal on both ends isn't sent.
	// +optional
	Bytes int64 `json:"bytes,omitempty"`

	// RemainingBytes is about how much is left to fetch.
	// +optional
	RemainingBytes int64 `json:"remainingBytes,omitempty"`

	// Since is when the change began.
	Since metav1.Time `json:"since"`

	// Message says in words what the change does or waits for.
	// +optional
	Message string `json:"message,omitempty"`
}

// ChangeStep is what a change of members is at.
type ChangeStep string

// The steps of a change of members.
const (
	// StartingMembers starts the newcomers, which then wait. Nothing has changed for the others.
	StartingMembers ChangeStep = "StartingMembers"
	// CatchingUp has a joint view, in which the newcomers fetch the state.
	CatchingUp ChangeStep = "CatchingUp"
	// RemovingMembers has the view after the change, or the one before it again: members that are not in it are
	// removed.
	RemovingMembers ChangeStep = "RemovingMembers"
	// Abandoning goes back to the members before the change.
	Abandoning ChangeStep = "Abandoning"
)

// RecoveredStatus is a recovery that happened.
type RecoveredStatus struct {
	// Epoch is that of the view that was given up.
	Epoch int64 `json:"epoch"`

	// TrustedMember is the number of the member whose state was kept. With protocol CURP there is none: all that were
	// left went on.
	// +optional
	TrustedMember int32 `json:"trustedMember,omitempty"`

	// GivenUp are the numbers of the members of that view that did not go on.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	GivenUp []int32 `json:"givenUp,omitempty"`

	// EmptyShards are the shards that began again empty: nobody who was left had a whole copy.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=256
	EmptyShards []int32 `json:"emptyShards,omitempty"`

	// Time is when it happened.
	Time metav1.Time `json:"time"`

	// Message says what may have been lost.
	// +optional
	Message string `json:"message,omitempty"`
}

// MemberStatus is one member. A field is absent while it isn't known.
type MemberStatus struct {
	// ID is the member's number in the view. The number of a lost member is never given again.
	ID int64 `json:"id"`

	// Site is where it lives.
	Site string `json:"site"`

	// Pod is the name of its pod.
	Pod string `json:"pod"`

	// Node is where the pod runs.
	// +optional
	Node string `json:"node,omitempty"`

	// Incarnation counts the starts of the member's disk that could have forgotten something.
	// +optional
	Incarnation int64 `json:"incarnation,omitempty"`

	// Role is Waiting, Learner, Voter or Removed.
	// +optional
	Role string `json:"role,omitempty"`

	// State says in words what the member does or waits for.
	// +optional
	State string `json:"state,omitempty"`

	// Version is the version that it runs.
	// +optional
	Version string `json:"version,omitempty"`

	// Ready is whether it serves.
	Ready bool `json:"ready"`
}

// PartitionStatus is a shard of protocol CURP, and who keeps it by the view.
type PartitionStatus struct {
	// Number is that of the shard, from 0.
	Number int32 `json:"number"`

	// Term is the epoch of the view in which the shard came to be kept by these.
	Term int64 `json:"term"`

	// Master is the number of the member that orders and executes its operations.
	Master int64 `json:"master"`

	// Backups are the numbers of the members that updates are synced to. The other members follow the master too, and
	// nobody waits for them.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Backups []int32 `json:"backups,omitempty"`

	// Witnesses are the numbers of the witnesses that save what the backups don't have yet. That of one in a member's
	// pod is the member's own number and one; those of dedicated ones are even too, and members' are odd.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=8
	Witnesses []int32 `json:"witnesses,omitempty"`

	// Serving is whether its master serves clients.
	Serving bool `json:"serving"`

	// Message says why it does not serve, or what it lacks.
	// +optional
	Message string `json:"message,omitempty"`

	// Unsynced is about how many operations the backups didn't have, when something else of this was last written; the
	// metrics have it as it is now. Absent: unknown.
	// +optional
	Unsynced *int64 `json:"unsynced,omitempty"`

	// FastPathPercent is the share of the updates that completed in one round trip, since the members started: written
	// when it has changed by ten or more. Absent: there were none.
	// +optional
	FastPathPercent *int32 `json:"fastPathPercent,omitempty"`
}

// SiteStatus is one site.
type SiteStatus struct {
	// Name is the site's name.
	Name string `json:"name"`

	// Redis is the address of the Redis port, as host:port.
	Redis string `json:"redis"`

	// GRPC is the address of the gRPC port, as host:port.
	GRPC string `json:"grpc"`

	// Ready is the number of the site's members that serve, of those asked for, such as 1/1.
	Ready string `json:"ready"`
}
