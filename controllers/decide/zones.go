package decide

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// toleratesZoneLoss asks of every zone whether the voters outside it are a majority of the view, and whether no
// more are missing without it than the manifest promises that may be lost. Members that do not vote now help
// nobody, wherever they are.
func (s *situation) toleratesZoneLoss() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return condition(v1alpha1.ConditionToleratesZoneLoss, status, reason, format, args...)
	}
	switch {
	case s.view.Epoch == 0:
		return say(metav1.ConditionUnknown, "ViewUnknown", "Which members vote is not known yet")
	case !s.ZonesKnown:
		return say(metav1.ConditionUnknown, "NodesNotReadable",
			"The operator may not read nodes, so it does not know their zones; allow it to get, list and watch nodes")
	}
	count := map[string]int{}
	var zones []string
	for _, m := range s.voters() {
		node := s.pod(m.ID)
		if node == nil || s.Zones[node.Spec.NodeName].Name == "" {
			return say(metav1.ConditionUnknown, "ZoneUnknown", "The zone of %s is not known; label its node with "+
				"topology.kubernetes.io/zone", name(m))
		}
		zone := s.Zones[node.Spec.NodeName].Name
		if count[zone]++; count[zone] == 1 {
			zones = append(zones, zone)
		}
	}
	slices.Sort(zones)
	tooMany := "" // a zone whose loss leaves a majority, and is more than may be lost
	for _, zone := range zones {
		outside := func(id view.MemberID) bool { return s.serves(id) && s.Zones[s.pod(id).Spec.NodeName].Name != zone }
		if !s.view.Quorum(outside) {
			return say(metav1.ConditionFalse, "ZoneHoldsMajority", "Without zone %s, %d of %d members vote, and a majority is %d",
				zone, len(s.voters())-count[zone], s.view.Size(), s.least())
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
			tooMany, len(s.voters())-count[tooMany], s.view.Size(), s.bound())
	}
	if !s.view.Quorum(s.serves) {
		return say(metav1.ConditionFalse, "QuorumLost", "There is no majority even with every zone")
	}
	return say(metav1.ConditionTrue, "ZonesSpread", "The loss of any one of %d zones leaves a majority of %d",
		len(zones), s.least())
}

// bearable reports whether no more members of each side are missing than may be lost.
func (s *situation) bearable(there func(view.MemberID) bool) bool {
	for _, side := range []view.View{s.view.Before(), s.view.After()} {
		missing := 0
		for _, m := range side.Members {
			if !there(m.ID) {
				missing++
			}
		}
		if missing > s.tolerated(side) {
			return false
		}
	}
	return true
}

// partitionInOneZone names a partition that would be lost with the zone of its master, or is empty: another backup has
// to be left, and a witness to recover from.
func (s *situation) partitionInOneZone() string {
	if !s.partitioned() {
		return ""
	}
	for i, p := range s.view.Partitions {
		zone := s.zone(p.Master)
		outside := func(id view.MemberID) bool {
			w, known := s.view.Witness(id)
			if known && w.Beside == 0 {
				return s.witnessLost(w) == "" && s.witnessState(w) == "" && s.zone(id) != "" && s.zone(id) != zone
			}
			if known {
				id = w.Beside
			}
			return s.serves(id) && s.zone(id) != zone
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
func (s *situation) sharedZone(p view.Partition) string {
	if !s.dedicated() {
		return ""
	}
	in := map[string]view.MemberID{}
	for _, id := range slices.Concat([]view.MemberID{p.Master}, p.Backups, p.Witnesses) {
		zone := s.zone(id)
		if zone == "" {
			return fmt.Sprintf("is kept by %d, of which the zone is not known", id)
		}
		if other, taken := in[zone]; taken {
			return fmt.Sprintf("is kept by %d and %d in one zone, %s; with dedicated witnesses all of its keepers are to be in zones of their own", other, id, zone)
		}
		in[zone] = id
	}
	return ""
}
