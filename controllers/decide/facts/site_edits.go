package facts

import (
	"cmp"
	"slices"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// MemberChange is what spec.sites asks for, as a change of the members of a plain view.
type MemberChange struct {
	Stay  []view.Member
	Leave []view.Member // lost, at another place than asked for, or more than asked for
	Join  []view.Member // newcomers: those that wait already, and those that are to be made
}

// None reports whether no one joins or leaves.
func (m MemberChange) None() bool { return len(m.Leave)+len(m.Join) == 0 }

// size is how many members there are after it.
func (m MemberChange) size() int { return len(m.Stay) + len(m.Join) }

// compare works out the membership that is asked for. At each site those that vote stay before others, and the longest
// there before the younger ones. Members that are lost or elsewhere are replaced.
func (s *Facts) compare() (asked MemberChange) {
	if s.Doubt != nil || s.View.Joint() {
		return asked
	}
	members := slices.Clone(s.View.Members)
	slices.SortStableFunc(members, func(a, b view.Member) int {
		return cmp.Or(cmp.Compare(Rank(s.Votes(a.ID)), Rank(s.Votes(b.ID))), cmp.Compare(a.ID, b.ID))
	})
	there := map[string]int{}
	for _, m := range members {
		site := s.SiteOf(m)
		if site == nil || there[m.Site] == site.MemberCount() || s.Lost(m) != "" || s.Misplaced(m) != "" {
			asked.Leave = append(asked.Leave, m)
			continue
		}
		there[m.Site]++
		asked.Stay = append(asked.Stay, m)
	}
	asked.Join = s.newcomers(there)
	return asked
}

// Rank sorts what comes first before the rest.
func Rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// newcomers are the members that join where fewer are there than asked for: those that wait at the site already, then
// new ones, under ids that no one has or had.
func (s *Facts) newcomers(there map[string]int) (all []view.Member) {
	taken := map[view.MemberID]bool{}
	next := s.View.LastIssued()
	for _, site := range s.Cluster.Spec.Sites {
		missing := site.MemberCount() - there[site.Name]
		for i := range s.Members {
			if m := &s.Members[i]; missing > 0 && m.Site == site.Name && s.waits(m) {
				taken[m.ID] = true
				all = append(all, view.Member{ID: m.ID, Site: m.Site})
				missing--
			}
		}
		for ; missing > 0; missing-- {
			next = build.NextID(s.Cluster, next)
			for s.Member(next) != nil || taken[next] {
				next = build.NextID(s.Cluster, next)
			}
			taken[next] = true
			all = append(all, view.Member{ID: next, Site: site.Name})
		}
	}
	for i := range all {
		all[i].Address = build.Address(s.Cluster, s.Settings, all[i])
	}
	slices.SortFunc(all, func(a, b view.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// waits reports whether a member was made as a newcomer, or a first member, and can still join as one.
func (s *Facts) waits(seen *world.Member) bool {
	if s.View.Epoch == 0 { // a volume that is lost before the cluster is founded is made again
		return s.OffPool(seen) == ""
	}
	fresh := seen.Report == nil || seen.Report.Role == world.Waiting && seen.Report.View.Epoch == 0
	return s.unnamed(seen) && fresh && s.Lost(view.Member{ID: seen.ID, Site: seen.Site}) == "" && s.OffPool(seen) == ""
}

// unnamed reports whether objects of a member or a dedicated witness are there to stay that no view has named.
func (s *Seen) unnamed(seen *world.Member) bool {
	return seen.ID > s.View.LastIssued() && (seen.StatefulSet != nil && seen.StatefulSet.DeletionTimestamp == nil ||
		seen.StatefulSet == nil && seen.Volume != nil && seen.Volume.DeletionTimestamp == nil)
}

// Obstacle says what is in the way of any change to the asked memberChange, or is nil. Newcomers are made only without
// one, but for those that were made already.
func (s *Facts) Obstacle() *message.Cause {
	if s.Asked.None() {
		return nil
	}
	protocol, err := capability.Find(s.Cluster.Spec.Protocol)
	if err == nil {
		err = protocol.CheckMembers(s.Asked.size())
	}
	if err != nil {
		return message.Because("NumberOfMembers", "%v; correct spec.sites", err)
	}
	for _, m := range s.Asked.Leave {
		if s.Lost(m) == "" {
			continue
		}
		if why := s.Unsuspected(m); why != "" {
			return message.Because("TooFewSuspectIt", "as for %s, %s", message.Member(m), why)
		}
	}
	for _, m := range s.View.Members {
		if r := s.Report(m.ID); r != nil && r.Role == world.Learner && slices.Contains(s.Asked.Stay, m) {
			return message.Because("AnotherMemberJoins", "%s %s", message.Member(m), Doing(r, s.View))
		}
	}
	for _, m := range s.Asked.Stay {
		if !s.Votes(m.ID) {
			return message.Because("AnotherMemberDoesNotVote", "%s %s", message.Member(m), s.Silence(m))
		}
	}
	if !s.HasQuorum() {
		return message.Because("NoQuorum", "%d members vote and reach a majority, and %s must",
			s.CountQuorate(s.View.Members), s.Quorum())
	}
	if m, found := s.NextToUpdate(); found && !s.GoesFirst() {
		return message.Because("UpdateGoesFirst", "%s is to be restarted with the changed spec first",
			message.Member(m))
	}
	return nil
}

// Repairs reports whether the asked change does without members that do not vote.
func (s *Facts) Repairs() bool {
	return slices.ContainsFunc(s.Asked.Leave, func(m view.Member) bool { return !s.Votes(m.ID) })
}

// GoesFirst reports whether the asked change goes before updates. These wait for everybody to vote, and for a majority
// without the one that restarts, which a member that a recovery left alone has only after the change.
func (s *Facts) GoesFirst() bool {
	return s.Repairs() || !s.Asked.None() && s.View.Faults() == 0
}

// NextToUpdate is the member whose pod is to be ended next since it was made for another spec, if there is one.
func (s *Seen) NextToUpdate() (next view.Member, found bool) {
	for _, m := range s.View.Members {
		if s.Outdated(m.ID) && (!found || s.earlier(m, next)) {
			next, found = m, true
		}
	}
	return next, found
}

// earlier reports whether a member is to be updated before another one: who does not serve; where there are partitions,
// who says nothing, and then who has begun to hand over. While it does, others take on views, and don't serve for a
// moment.
func (s *Seen) earlier(m, than view.Member) bool {
	if !s.Partitioned() {
		return s.Votes(than.ID) && !s.Votes(m.ID)
	}
	if a, b := s.Report(m.ID) == nil, s.Report(than.ID) == nil; a != b {
		return a
	}
	return len(s.Roles(m.ID)) < len(s.Roles(than.ID))
}
