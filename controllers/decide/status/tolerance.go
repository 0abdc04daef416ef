package status

import (
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/replica/view"
)

// spare is how many more of the voters that reach a quorum may be lost, whoever they are; in a joint view its sides are
// counted apart. Where the manifest promises less than a minority, it is what is left of that: who does not vote
// may be lost already.
func (s *Projection) spare() int {
	spare := s.View.Size()
	for _, side := range []view.View{s.View.Before(), s.View.After()} {
		n := s.CountQuorate(side.Members)
		spare = min(spare, n-side.Majority(), n-(side.Size()-s.tolerated(side))-s.witnessesAway())
	}
	return max(spare, 0)
}

// tolerated is how many members of a side may be lost: as the manifest has it, or fewer, where a partition has fewer
// backups or witnesses than it should.
func (s *Projection) tolerated(side view.View) int {
	most := s.Cluster.Spec.Tolerated(side)
	for _, p := range s.View.Partitions {
		most = min(most, len(p.Backups), len(p.Witnesses))
	}
	return most
}

// bound says how many members may be missing, where that is fewer than a minority.
func (s *Projection) bound() string {
	for _, side := range []view.View{s.View.Before(), s.View.After()} {
		if most := s.tolerated(side); most < side.Faults() {
			return fmt.Sprintf("no more than %d may be missing (spec.faultTolerance)", most)
		}
	}
	return fmt.Sprintf("a majority is %d", s.least())
}

// witnessesAway is how many witnesses with pods of their own do not answer, or are lost with what they saved.
func (s *Projection) witnessesAway() (n int) {
	for _, w := range s.DedicatedWitnesses() {
		if s.WitnessLost(w) != "" || s.WitnessState(w) != "" {
			n++
		}
	}
	return n
}

// bearable reports whether no more members of each side are missing than may be lost.
func (s *Projection) bearable(there func(view.MemberID) bool) bool {
	for _, side := range []view.View{s.View.Before(), s.View.After()} {
		missing := facts.Where(side.Members, func(m view.Member) bool { return !there(m.ID) })
		if len(missing) > s.tolerated(side) {
			return false
		}
	}
	return true
}

// toleratesZoneLoss asks of every zone whether the voters outside it are a majority of the view, and whether no
// more are missing without it than the manifest promises that may be lost. Members that do not vote now help
// no one, wherever they are.
func (s *Projection) toleratesZoneLoss() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return message.Condition(v1alpha1.ConditionToleratesZoneLoss, status, reason, format, args...)
	}
	switch {
	case s.View.Epoch == 0:
		return say(metav1.ConditionUnknown, "ViewUnknown", "Which members vote is not known yet")
	case !s.ZonesKnown:
		return say(metav1.ConditionUnknown, "NodesNotReadable",
			"The operator may not read nodes, so it does not know their zones; allow it to get, list and watch nodes")
	}
	count := map[string]int{}
	for _, m := range s.Voters() {
		zone := s.Zone(m.ID)
		if zone == "" {
			return say(metav1.ConditionUnknown, "ZoneUnknown", "The zone of %s is not known; label its node with "+
				"topology.kubernetes.io/zone", message.Member(m))
		}
		count[zone]++
	}
	zones := slices.Sorted(maps.Keys(count))
	tooMany := "" // a zone whose loss leaves a majority, and is more than may be lost
	for _, zone := range zones {
		outside := func(id view.MemberID) bool { return s.Votes(id) && s.Zone(id) != zone }
		if !s.View.Quorum(outside) {
			return say(metav1.ConditionFalse, "ZoneHoldsMajority", "Without zone %s, %d of %d members vote, and a "+
				"majority is %d",
				zone, len(s.Voters())-count[zone], s.View.Size(), s.least())
		}
		if tooMany == "" && !s.bearable(outside) {
			tooMany = zone
		}
	}
	if why := s.partitionInOneZone(); why != "" {
		return say(metav1.ConditionFalse, "ZoneHoldsPartition", "%s", why)
	}
	if tooMany != "" {
		return say(metav1.ConditionFalse, "ZoneHoldsTooMany", "Without zone %s, %d of %d members vote, and %s",
			tooMany, len(s.Voters())-count[tooMany], s.View.Size(), s.bound())
	}
	if !s.View.Quorum(s.Votes) {
		return say(metav1.ConditionFalse, "QuorumLost", "There is no majority even with every zone")
	}
	return say(metav1.ConditionTrue, "ZonesSpread", "The loss of any one of %d zones leaves a majority of %d",
		len(zones), s.least())
}

// partitionInOneZone names a partition that would be lost with the zone of its master, or is empty: another backup has
// to be left, and a witness to recover from.
func (s *Projection) partitionInOneZone() string {
	if !s.Partitioned() {
		return ""
	}
	for i, p := range s.View.Partitions {
		zone := s.Zone(p.Master)
		outside := func(id view.MemberID) bool {
			w, known := s.View.Witness(id)
			if known && w.Beside == 0 {
				return s.WitnessLost(w) == "" && s.WitnessState(w) == "" && s.Zone(id) != "" && s.Zone(id) != zone
			}
			if known {
				id = w.Beside
			}
			return s.Votes(id) && s.Zone(id) != zone
		}
		switch {
		case !slices.ContainsFunc(p.Backups, outside):
			return fmt.Sprintf("Without zone %s, partition %d has no backup", zone, i)
		case !slices.ContainsFunc(p.Witnesses, outside):
			return fmt.Sprintf("Without zone %s, partition %d has no witness to recover from", zone, i)
		}
		if why := s.sharedZone(p); why != "" {
			return fmt.Sprintf("Partition %d %s", i, why)
		}
	}
	return ""
}

// sharedZone names two of those who keep a partition that would be lost together, where dedicated witnesses are to keep
// them apart; or is empty.
func (s *Projection) sharedZone(p view.Partition) string {
	if !s.HasDedicated() {
		return ""
	}
	in := map[string]view.MemberID{}
	for _, id := range slices.Concat([]view.MemberID{p.Master}, p.Backups, p.Witnesses) {
		zone := s.Zone(id)
		if zone == "" {
			return fmt.Sprintf("is kept by %d, of which the zone is not known", id)
		}
		if other, taken := in[zone]; taken {
			return fmt.Sprintf("is kept by %d and %d in one zone, %s; with dedicated witnesses all of its keepers "+
				"are to be in zones of their own", other, id, zone)
		}
		in[zone] = id
	}
	return ""
}
