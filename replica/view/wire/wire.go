// Package wire writes views as the admin port speaks of them, and reads them.
package wire

import (
	"fmt"
	"slices"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// ToProto is the view as a message; nil if its epoch is 0, which stands for no view.
func ToProto(v view.View) *adminv1.View {
	if v.Epoch == 0 {
		return nil
	}
	message := &adminv1.View{
		Cluster: v.Cluster, Epoch: v.Epoch, Issued: uint32(v.LastIssued()), Since: v.Since,
		Founded: uint32(v.Founded), Level: v.Level,
	}
	members := &message.Members
	if v.Joint() {
		members = &message.Changing
	}
	for _, m := range v.Members {
		*members = append(*members, &adminv1.Member{
			Id: uint32(m.ID), Site: m.Site, Address: m.Address, Disk: m.Disk,
			Joining: m.Joining, Leaving: m.Leaving,
		})
	}
	for _, p := range v.Partitions {
		message.Partitions = append(message.Partitions, partitionToProto(p))
	}
	for _, w := range v.Witnesses {
		message.Witnesses = append(message.Witnesses, &adminv1.Witness{
			Id: uint32(w.ID), Site: w.Site, Address: w.Address, Disk: w.Disk, Beside: uint32(w.Beside),
		})
	}
	return message
}

// FromProto is the view that a message tells, as it is: whether it is valid is asked of the view. A missing message
// makes a view of epoch 0.
func FromProto(message *adminv1.View) view.View {
	v := view.View{
		Cluster: message.GetCluster(), Epoch: message.GetEpoch(), Issued: view.MemberID(message.GetIssued()),
		Since: message.GetSince(), Founded: int(message.GetFounded()), Level: message.GetLevel(),
	}
	for _, m := range slices.Concat(message.GetMembers(), message.GetChanging()) {
		v.Members = append(v.Members, view.Member{
			ID: view.MemberID(m.GetId()), Site: m.GetSite(), Address: m.GetAddress(), Disk: m.GetDisk(),
			Joining: m.GetJoining(), Leaving: m.GetLeaving(),
		})
	}
	for _, p := range message.GetPartitions() {
		v.Partitions = append(v.Partitions, partitionFromProto(p))
	}
	for _, w := range message.GetWitnesses() {
		v.Witnesses = append(v.Witnesses, view.Witness{
			ID: view.MemberID(w.GetId()), Site: w.GetSite(), Address: w.GetAddress(), Disk: w.GetDisk(),
			Beside: view.MemberID(w.GetBeside()),
		})
	}
	return v
}

// Marshal is the view as bytes, which Unmarshal reads.
func Marshal(v view.View) ([]byte, error) { return ToProto(v).MarshalVT() }

// Unmarshal reads a view and refuses one that is not valid.
func Unmarshal(data []byte) (view.View, error) {
	message := &adminv1.View{}
	if err := message.UnmarshalVT(data); err != nil {
		return view.View{}, fmt.Errorf("decode the view: %w", err)
	}
	v := FromProto(message)
	return v, v.Validate()
}
