// Package views presents what is known of a cluster to the package membership, which decides on its next view, and says
// in words why it decides as it does.
package views

import (
	"slices"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Views is what is known of a cluster, with what the package membership decides from it.
type Views struct {
	facts.Facts
	// snapshot and decision are kept once they were asked for.
	snapshot *membership.Snapshot
	decision *membership.Decision
}

// Of works out what is known of the cluster of a snapshot.
func Of(snapshot world.Snapshot) *Views { return &Views{Facts: facts.Of(snapshot)} }

// Decision decides on who keeps each shard, and in a joint view on its end: the step to the next view, if there is one,
// and what can't be done yet.
func (s *Views) Decision() membership.Decision {
	if s.decision == nil {
		s.decision = &membership.Decision{}
		if s.Partitioned() && s.Doubt == nil {
			*s.decision = membership.Decide(s.MembershipSnapshot())
		}
	}
	return *s.decision
}

// MembershipSnapshot is what is known, as the package membership wants it. Its lists are shared.
func (s *Views) MembershipSnapshot() membership.Snapshot {
	if s.snapshot == nil {
		to := s.snapshotOf()
		s.snapshot = &to
	}
	return *s.snapshot
}

func (s *Views) snapshotOf() membership.Snapshot {
	to := membership.Snapshot{View: s.View, Fragments: s.Cluster.Spec.Fragments()}
	for _, m := range s.Members {
		if r := m.Report; r != nil && r.ClusterID == s.ClusterID {
			to.Members = append(to.Members, wordOf(m.ID, r))
		}
	}
	if s.View.Joint() {
		to.Unwanted = s.NotWanted() != ""
		to.Hopeless = facts.IDs(facts.Where(s.View.Members, func(m view.Member) bool { return s.Hopeless(m) != "" }))
		to.Lost = facts.IDs(facts.Where(s.View.Members, func(m view.Member) bool {
			return s.GivenUp(m) != "" && s.Hopeless(m) == ""
		}))
	}
	if s.Partitioned() {
		s.addPartitions(&to)
	}
	return to
}

// addPartitions adds to a snapshot what decisions on partitions are made from.
func (s *Views) addPartitions(to *membership.Snapshot) {
	to.Abandon = s.View.Joint() && to.Pointless(false) != membership.NoCause
	to.Placement = s.Placement(s.Cluster.Spec.ShardCount(), s.faultsOf(to.Abandon))
	for _, m := range s.Everybody() {
		if m.Witness != nil {
			to.Witnesses = append(to.Witnesses, *m.Witness)
		}
	}
	for _, m := range s.View.Members {
		if s.Of(m.ID).Witness != nil {
			to.Named = append(to.Named, s.WitnessBeside(m))
		}
	}
	to.Named, to.Retiring = append(to.Named, s.NamedWitnesses()...), s.Retiring()
	if m, drained := s.drained(); drained {
		to.Drained = []view.MemberID{m.ID}
	}
}

// wordOf is what a member said, as the package membership wants it.
func wordOf(id view.MemberID, r *world.Report) membership.MemberReport {
	said := membership.MemberReport{Member: id, Disk: r.Disk, Digest: r.Digest, Epoch: r.View.Epoch,
		Settled: r.Change.Settled, Fetched: r.Change.Fetched}
	for _, p := range slices.Concat(r.Peers, r.Witnesses) {
		if p.Reachable {
			said.Hears = append(said.Hears, p.ID)
		}
	}
	for _, p := range r.Partitions {
		said.Partitions = append(said.Partitions, p.Part)
	}
	return said
}

// InForce is what is known read against the view that members serve clients in: while the recorded one is not
// committed, that is an earlier one, if a quorum of it holds it still.
func (s *Views) InForce() *Views {
	if s.Doubt != nil || s.Committed() {
		return s
	}
	force := s
	for _, m := range s.Members {
		if m.Report == nil || m.Report.View.Epoch >= s.View.Epoch {
			continue
		}
		earlier := *s
		earlier.View, earlier.Digest, earlier.snapshot, earlier.decision = m.Report.View, m.Report.Digest, nil, nil
		if earlier.Committed() && (force == s || earlier.View.Epoch > force.View.Epoch) {
			force = &earlier
		}
	}
	return force
}
