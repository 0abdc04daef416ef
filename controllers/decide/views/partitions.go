package views

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Faults is how many losses a partition can survive with the members that there are: at most what the manifest asks
// for.
func (s *Views) Faults() int { return s.faultsOf(s.MembershipSnapshot().Abandon) }

func (s *Views) faultsOf(abandoned bool) int {
	most := membership.Faults(s.View, abandoned)
	if asked := s.Cluster.Spec.FaultTolerance; asked != nil {
		most = min(most, int(*asked))
	}
	return most
}

// Placement is how so many partitions are to be kept: as the manifest says, and apart by zones where these are known.
// There may be more than the manifest asks for, if another resource took them up: none goes away.
func (s *Views) Placement(partitions, faults int) membership.Placement {
	p := membership.Placement{
		Partitions: max(partitions,
			len(s.View.Partitions)), Faults: faults, Dedicated: s.HasDedicated(), Domains: map[view.MemberID]string{},
		Distances: s.Cluster.Spec.Distances(),
	}
	for i := range p.Partitions {
		p.Homes = append(p.Homes, s.Cluster.Spec.Home(i))
	}
	for _, m := range s.Everybody() {
		if zone := s.Zone(m.ID); zone != "" {
			p.Domains[m.ID] = "zone " + zone
		}
	}
	return p
}

// drained is the member that hands over what it is master or backup of, since its pod is about to end or ends already:
// that of a former spec, or one whose node is to be emptied. One at a time, and as long as it takes the same one: the
// others need somebody to hand over to.
func (s *Views) drained() (view.Member, bool) {
	if s.View.Joint() || s.Cluster.Spec.Paused {
		return view.Member{}, false
	}
	ends := facts.Where(s.View.Members, func(m view.Member) bool {
		pod := s.Pod(m.ID)
		return pod != nil && pod.DeletionTimestamp != nil
	})
	if m, found := s.NextToUpdate(); found && len(ends) == 0 {
		return m, !s.GoesFirst()
	}
	if len(ends) == 0 {
		ends = facts.Where(s.View.Members, func(m view.Member) bool {
			pod := s.Pod(m.ID)
			return pod != nil && s.Zones[pod.Spec.NodeName].Closed
		})
	}
	if len(ends) == 0 {
		return view.Member{}, false
	}
	// Who has begun to hand over goes on.
	return slices.MinFunc(ends, func(a, b view.Member) int { return len(s.Roles(a.ID)) - len(s.Roles(b.ID)) }), true
}

// Lack says what a partition lacks, or is empty.
func (s *Views) Lack(number int) string {
	p, faults := s.View.Partitions[number], s.Faults()
	switch part := s.Part(number); {
	case part == nil:
		i := s.View.Index(p.Master)
		return fmt.Sprintf("its master, %s, %s", message.Member(s.View.Members[i]), s.Silence(s.View.Members[i]))
	case part.Lost:
		return fmt.Sprintf("its master, member %d, lost what it held", p.Master)
	case !part.Serving && part.Waits != "":
		return fmt.Sprintf("its master, member %d, does not serve yet: %s", p.Master, part.Waits)
	case !part.Serving:
		return fmt.Sprintf("its master, member %d, does not serve yet", p.Master)
	case len(p.Formers) > 0:
		return fmt.Sprintf("member %d recovered it, and that is to be recorded", p.Master)
	case len(s.Suspected(p.Backups)) > 0:
		return fmt.Sprintf("its backups %s are not heard: what has to be synced waits for them, or for others in "+
			"their place", message.Numbers(s.Suspected(p.Backups)))
	case len(p.Backups) < faults || len(p.Witnesses) < faults:
		return fmt.Sprintf("it has %d backups and %d witnesses, and should have %d of each", len(p.Backups),
			len(p.Witnesses), faults)
	}
	return ""
}

// Suspected are those whom a quorum of members does not hear.
func (s *Views) Suspected(ids []view.MemberID) []view.MemberID {
	snapshot := s.MembershipSnapshot()
	return slices.DeleteFunc(slices.Clone(ids), func(id view.MemberID) bool { return !snapshot.Suspected(id) })
}
