// Package facts is what is known of one cluster, and how far it can be trusted. Nothing here decides what to do.
package facts

import (
	"cmp"
	"slices"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Facts is what was seen of a cluster, with the doubt about its record and what its manifest asks for.
type Facts struct {
	Seen
	// Doubt says why the recorded view can't be acted on, or is nil.
	Doubt *message.Cause
	// Asked is how the members that spec.sites asks for differ from those of the view, if that is plain and known.
	Asked MemberChange
	// First are the members to found the cluster with, where there is no record.
	First []view.Member
	// Coming are the dedicated witnesses that the view is to take on.
	Coming []view.Witness
}

// Of works out the facts of a snapshot.
func Of(snapshot world.Snapshot) Facts {
	slices.SortFunc(snapshot.Members, func(a, b world.Member) int { return cmp.Compare(a.ID, b.ID) })
	s := Facts{Seen: Seen{Snapshot: snapshot}}
	if s.Unclear() {
		s.Doubt = s.doubtOrigin()
		return s // without a view: none of what is seen is this resource's
	}
	s.First = s.firstMembers()
	s.Doubt = s.doubtRecord()
	s.View = s.Record.View
	if s.Doubt != nil {
		if held := s.HighestHeld(); held.Epoch > 0 {
			s.View = held
		}
	}
	s.Digest = s.View.Digest()
	s.Asked = s.compare()
	s.Coming = s.comingWitnesses()
	return s
}

// MembersToKeep are the members to keep objects of: those of the view and the newcomers that are to join it; with the
// view in doubt, those of whom something is there; before anything is there, the first ones.
func (s *Facts) MembersToKeep() []view.Member {
	if s.Doubt == nil {
		starts := s.Committed() && !s.QuorumGone() && s.Obstacle() == nil
		join := Where(s.Asked.Join, func(m view.Member) bool { return starts || s.Member(m.ID) != nil })
		return slices.Concat(s.View.Members, join)
	}
	if s.MayBeNew() {
		return s.First
	}
	var seen []view.Member
	for _, m := range s.Members {
		if m.StatefulSet == nil && m.Volume == nil && m.Pod == nil {
			continue
		}
		known := view.Member{ID: m.ID, Site: m.Site}
		known.Address = build.Address(s.Cluster, s.Settings, known)
		seen = append(seen, known)
	}
	return seen
}

// MayBeNew reports whether nothing that is seen contradicts that the cluster was never founded: no record, no view in
// the status, no one holds a view, and no one but the first members and such as were never used is there. The status
// may have been wiped, so what it lacks proves nothing; but where all disks and the record are gone, it is all that is
// left to tell.
func (s *Facts) MayBeNew() bool {
	if s.Record.Exists || s.Cluster.Status.View != nil {
		return false
	}
	for i := range s.Members {
		m := &s.Members[i]
		first := slices.Contains(IDs(s.First), m.ID)
		if m.Report != nil && m.Report.View.Epoch > 0 || !first && !s.Unused(m) {
			return false
		}
	}
	return true
}

// AllWait reports whether every first member of whom something is there says that its disk is empty.
func (s *Facts) AllWait() bool {
	return !slices.ContainsFunc(s.First, func(m view.Member) bool {
		seen := s.Member(m.ID)
		return seen != nil && (seen.Report == nil || !s.Unused(seen))
	})
}

// firstMembers are the members to found the cluster with: those that are there and in their place, which may be others
// than the first if the sites were edited meanwhile, and others under ids that no one has, from 1 in the order of the
// sites.
func (s *Facts) firstMembers() []view.Member {
	if s.Record.Exists {
		return nil
	}
	return s.newcomers(map[string]int{})
}

// Unclear reports whether none of what is seen may be taken for this resource's.
func (s *Facts) Unclear() bool { return len(s.Former)+len(s.Stored) > 0 }

// Leftover are the members of whom something is there to remove: no view names them any more, or they wait for one and
// are not asked for now.
func (s *Facts) Leftover() (all []*world.Member) {
	for i := range s.Members {
		m := &s.Members[i]
		if s.View.Index(m.ID) < 0 && !slices.Contains(IDs(slices.Concat(s.Asked.Join, s.First)), m.ID) {
			all = append(all, m)
		}
	}
	return all
}

// LeftRunning are members whom the view left out, and who are not removed yet.
func (s *Facts) LeftRunning() (all []view.MemberID) {
	for _, m := range s.Leftover() {
		if m.ID <= s.View.LastIssued() && (m.Pod != nil || m.StatefulSet != nil) {
			all = append(all, m.ID)
		}
	}
	return all
}
