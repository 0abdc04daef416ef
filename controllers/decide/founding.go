package decide

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// mayBeNew reports whether nothing that is seen contradicts that the cluster was never founded: no record, no view in
// the status, nobody holds a view, and nobody but the first members and such as were never used is there. The status
// may have been wiped, so what it lacks proves nothing; but where all disks and the record are gone, it is all that is
// left to tell.
func (s *situation) mayBeNew() bool {
	if s.Record.Exists || s.Cluster.Status.View != nil {
		return false
	}
	for i := range s.Members {
		m := &s.Members[i]
		first := slices.ContainsFunc(s.first, func(o view.Member) bool { return o.ID == m.ID })
		if m.Report != nil && m.Report.View.Epoch > 0 || !first && !s.unused(m) {
			return false
		}
	}
	return true
}

// unused reports whether a member surely holds nothing.
func (s *situation) unused(m *world.Member) bool {
	switch {
	case m.Report != nil:
		return m.Report.Role == world.Waiting && m.Report.View.Epoch == 0
	case build.OnDisk(s.Cluster):
		return m.Volume != nil && m.Volume.Status.Phase == corev1.ClaimPending
	}
	return m.Pod != nil && m.Pod.Spec.NodeName == ""
}

// allWait reports whether every first member of whom something is there says that its disk is empty.
func (s *situation) allWait() bool {
	return !slices.ContainsFunc(s.first, func(m view.Member) bool {
		seen := s.Member(m.ID)
		return seen != nil && (seen.Report == nil || !s.unused(seen))
	})
}

// firstMembers are the members to found the cluster with. If the sites were edited meanwhile, they are those that are
// there and in their place, and others under ids that nobody has.
func (s *situation) firstMembers() []view.Member {
	if s.Record.Exists {
		return nil
	}
	first := view.View{Members: build.FirstMembers(s.Cluster, s.Settings)}
	for _, m := range s.Members {
		known := view.Member{ID: m.ID, Site: m.Site}
		if i := first.Index(m.ID); i < 0 || first.Members[i].Site != m.Site || s.elsewhere(known) != "" {
			return s.newcomers(map[string]int{})
		}
	}
	return first.Members
}

// foundCluster makes the first view out of the disks of the first members, once every one of them says that its disk
// is empty. One that is silent may hold the cluster's view: a majority of empty disks proves nothing.
func foundCluster(s *situation) *outcome {
	if !s.mayBeNew() || s.Record.Taken != "" {
		return nil
	}
	var founders []membership.Founder
	var missing []string
	if o := s.discardMember(); o != nil && s.allWait() { // of a spec that was edited before this
		return o
	}
	if o := s.discardWitness(); o != nil {
		return o
	}
	if o := s.remake(); o != nil {
		return o
	}
	for _, m := range s.first {
		r := s.report(m.ID)
		if r == nil || r.Role != world.Waiting || r.Disk == "" {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
			continue
		}
		if s.Cluster.Spec.Partitioned() && s.witnessSilence(m) != "" {
			missing = append(missing, fmt.Sprintf("the witness beside %s %s", name(m), s.witnessSilence(m)))
			continue
		}
		if want := s.input().Founded(); s.Cluster.Spec.Partitioned() && r.Shards != want {
			missing = append(missing, fmt.Sprintf("%s was started with %d shards, where the cluster is to have %d at first; delete its claim and its pod", name(m), r.Shards, want))
			continue
		}
		m.Disk = r.Disk
		founders = append(founders, membership.Founder{ID: m.ID, Site: m.Site, Address: m.Address, Disk: m.Disk})
	}
	missing = append(missing, s.unfounded()...)
	if len(missing) > 0 {
		return waitFor("WaitingForMembers", "The cluster is founded once every first member tells what its disk holds; "+
			"missing: %s", list(missing))
	}
	if owned := s.owned(); len(owned) > 0 {
		s.founding = true
		return waitFor("KeepingVolumes", "The cluster is founded once its volumes outlive the resource, as spec.storage.retention asks for: %s", list(owned))
	}
	first, err := membership.Found(s.ClusterID, founders)
	if err == nil && s.Cluster.Spec.Partitioned() {
		first, err = s.place(first)
	}
	if err != nil {
		return waitFor("CannotFound", "%s", sentence(err.Error()))
	}
	return act(FoundCluster{View: first}, Normal("Founded", "Found", fmt.Sprintf(
		"Founded the cluster %s with %d members", s.ClusterID, first.Size())))
}

// sendView gives the recorded view to the members that hold an older one or none. Of a plain view that did not take
// hold nothing else happens until it does; a joint one may be abandoned before.
func sendView(s *situation) *outcome {
	var old []view.MemberID
	for _, m := range s.view.Members {
		if r := s.report(m.ID); r != nil && r.View.Epoch < s.view.Epoch {
			old = append(old, m.ID)
		}
	}
	if len(old) > 0 {
		return act(SendView{View: s.view, Members: old})
	}
	if s.settled() || s.view.Joint() {
		return nil
	}
	if s.quorumGone() {
		return blockWithoutQuorum(s)
	}
	return waitFor("ViewNotConfirmed", "View %d counts once %d members say that they hold it, and %d do; missing: %s",
		s.view.Epoch, s.view.Majority(), s.view.Size()-len(s.lacking()), list(s.lacking()))
}
