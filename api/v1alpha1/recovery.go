package v1alpha1

// Recovery consents to go on with what is left after a majority of the members was lost for good. Writes that were
// acknowledged may be lost, and reads may go back to an older value: give it only when the lost volumes can't be
// brought back. It does nothing while so many members have their volumes that a majority may come back. The other
// members are stopped and given up, the volumes that they had are kept, and as many new ones join as spec.sites asks
// for.
//
// One member is trusted, and what it does not hold is lost. With protocol CURP all members that are left go on instead:
// a shard goes on from its master, or from the backup with the longest log and what a witness that is left saved; what
// only lost ones saved is lost, and status.recovered names such shards. Of a shard whose master and backups are all
// lost there is only what other members followed, for which no write waited, and nothing is recovered before
// emptyShards names it.
type Recovery struct {
	// TrustMember is the number of the member whose state is kept, of those in status.members. With protocol CURP there
	// is none.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=65535
	TrustMember int32 `json:"trustMember,omitempty"`

	// Epoch is the epoch of the view that is given up, which is status.view.epoch. The recovery happens in that epoch
	// alone, and makes the next one: a manifest that is applied again does not repeat it.
	// +kubebuilder:validation:Minimum=1
	Epoch int64 `json:"epoch"`

	// EmptyShards are the numbers of the shards that may lose what was acknowledged, with protocol CURP: the condition
	// QuorumLost names those that no member which is left is certain to hold, and all of them have to be here. Such a
	// shard goes on from the member that followed it furthest, without the latest writes, acknowledged ones too, that
	// this member had not heard of; only if nobody has a whole copy does it begin again empty. Others that are named go
	// on with what is held.
	// +optional
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=255
	// +listType=set
	EmptyShards []int32 `json:"emptyShards,omitempty"`
}
