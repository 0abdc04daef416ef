package decide

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/view"
)

// memberChange is what spec.sites asks for, as a change of the members of a plain view.
type memberChange struct {
	stay  []view.Member
	leave []view.Member // lost, at another place than asked for, or more than asked for
	join  []view.Member // newcomers: those that wait already, and those that are to be made
}

func (m memberChange) none() bool { return len(m.leave)+len(m.join) == 0 }

// size is how many members there are after it.
func (m memberChange) size() int { return len(m.stay) + len(m.join) }

// compare works out the membership that is asked for. At each site those that vote stay before others, and the longest
// there before the younger ones. Members that are lost or elsewhere are replaced.
func (s *situation) compare() (asked memberChange) {
	if s.doubt != nil || s.view.Joint() {
		return asked
	}
	members := slices.Clone(s.view.Members)
	slices.SortStableFunc(members, func(a, b view.Member) int {
		return cmp.Or(cmp.Compare(rank(s.serves(a.ID)), rank(s.serves(b.ID))), cmp.Compare(a.ID, b.ID))
	})
	there := map[string]int{}
	for _, m := range members {
		site := s.siteOf(m)
		if site == nil || there[m.Site] == site.MemberCount() || s.lost(m) != "" || s.elsewhere(m) != "" {
			asked.leave = append(asked.leave, m)
			continue
		}
		there[m.Site]++
		asked.stay = append(asked.stay, m)
	}
	asked.join = s.newcomers(there)
	return asked
}

func rank(first bool) int {
	if first {
		return 0
	}
	return 1
}

// newcomers are the members that join where fewer are there than asked for: those that wait at the site already, then
// new ones, under ids that nobody has or had.
func (s *situation) newcomers(there map[string]int) (all []view.Member) {
	taken := map[view.MemberID]bool{}
	next := s.view.LastIssued()
	for _, site := range s.Cluster.Spec.Sites {
		missing := site.MemberCount() - there[site.Name]
		for i := range s.Members {
			if m := (view.Member{ID: s.Members[i].ID, Site: s.Members[i].Site}); missing > 0 && m.Site == site.Name && s.waits(m) {
				taken[m.ID] = true
				all = append(all, m)
				missing--
			}
		}
		for ; missing > 0; missing-- {
			for next = build.NextID(s.Cluster, next); s.Member(next) != nil || taken[next]; next = build.NextID(s.Cluster, next) {
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
func (s *situation) waits(m view.Member) bool {
	seen := s.Member(m.ID)
	there := seen.StatefulSet != nil && seen.StatefulSet.DeletionTimestamp == nil ||
		seen.StatefulSet == nil && seen.Volume != nil && seen.Volume.DeletionTimestamp == nil
	if s.view.Epoch == 0 { // a volume that is lost before the cluster is founded is made again
		return s.elsewhere(m) == ""
	}
	fresh := seen.Report == nil || seen.Report.Role == world.Waiting && seen.Report.View.Epoch == 0
	return m.ID > s.view.LastIssued() && there && fresh && s.lost(m) == "" && s.elsewhere(m) == ""
}

// siteOf is what the spec asks for at a member's site, or nil.
func (s *situation) siteOf(m view.Member) *v1alpha1.Site {
	for i := range s.Cluster.Spec.Sites {
		if s.Cluster.Spec.Sites[i].Name == m.Site {
			return &s.Cluster.Spec.Sites[i]
		}
	}
	return nil
}

// elsewhere says where a member is, to be read after its name, if its site's node pool is another one; else it is
// empty. Where its pod was made for another pool but its node is in the one that is asked for, it is in its place.
func (s *situation) elsewhere(m view.Member) string {
	return s.offPool(s.Member(m.ID))
}

// offPool is elsewhere for what was seen of a member or a witness, which may be nil.
func (s *situation) offPool(seen *world.Member) string {
	if seen == nil || seen.StatefulSet == nil {
		return ""
	}
	set, wanted := seen.StatefulSet, build.NodeSelector(s.Cluster, seen.Site)
	node := ""
	if seen.Pod != nil && seen.Pod.Spec.NodeName != "" {
		node = seen.Pod.Spec.NodeName
	} else {
		node = seen.VolumeNode
	}
	for key, value := range wanted { // order is irrelevant: a site's pool has one label
		if set.Spec.Template.Spec.NodeSelector[key] != value && (node == "" || s.Zones[node].Labels[key] != value) {
			return fmt.Sprintf("is not on the nodes with %s=%s", key, value)
		}
	}
	return ""
}

// obstacle says what is in the way of any change to the asked memberChange, or is nil. Newcomers are made only without
// one, but for those that were made already.
func (s *situation) obstacle() *cause {
	if s.asked.none() {
		return nil
	}
	protocol, err := capability.Find(s.Cluster.Spec.Protocol)
	if err == nil {
		err = protocol.CheckMembers(s.asked.size())
	}
	if err != nil {
		return &cause{"NumberOfMembers", fmt.Sprintf("%v; correct spec.sites", err)}
	}
	for _, m := range s.asked.leave {
		if s.lost(m) == "" {
			continue
		}
		if why := s.suspected(m); why != "" {
			return &cause{"TooFewSuspectIt", fmt.Sprintf("as for %s, %s", name(m), why)}
		}
	}
	for _, m := range s.view.Members {
		if r := s.report(m.ID); r != nil && r.Role == world.Learner && slices.Contains(s.asked.stay, m) {
			return &cause{"AnotherMemberJoins", fmt.Sprintf("%s %s", name(m), doing(r, s.view))}
		}
	}
	for _, m := range s.asked.stay {
		if !s.serves(m.ID) {
			return &cause{"AnotherMemberDoesNotVote", fmt.Sprintf("%s %s", name(m), s.silence(m))}
		}
	}
	if !s.view.Quorum(func(id view.MemberID) bool { return s.serves(id) && s.report(id).Quorum }) {
		return &cause{"NoQuorum", fmt.Sprintf("%d members vote and reach a majority, and %s must", s.quorate(), s.quorum())}
	}
	if m, found := s.nextToUpdate(); found && !s.goesFirst() {
		return &cause{"UpdateGoesFirst", fmt.Sprintf("%s is to be restarted with the changed spec first", name(m))}
	}
	return nil
}

// repairs reports whether the asked change does without members that do not vote.
func (s *situation) repairs() bool {
	return slices.ContainsFunc(s.asked.leave, func(m view.Member) bool { return !s.serves(m.ID) })
}

// goesFirst reports whether the asked change goes before updates. These wait for everybody to vote, and for a majority
// without the one that restarts, which a member that a recovery left alone has only after the change.
func (s *situation) goesFirst() bool {
	return s.repairs() || !s.asked.none() && s.view.Faults() == 0
}
