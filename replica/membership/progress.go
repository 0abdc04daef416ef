package membership

import "github.com/georegister/georegister/replica/view"

// finishable reports whether the change of a joint view may be finished (Finish), as far as members told, and which of
// those after the change are not done with their part. A change that may be finished is worth waiting for the
// rest of them, unless they are lost. Where large values are stored as fragments, more have to be done than a
// majority: each member has a fragment of its own, and those of the members that leave go with them.
func (s *Snapshot) finishable() (safe bool, rest []view.MemberID) {
	settled := func(id view.MemberID) bool { return s.holds(id) && s.report(id).Settled }
	fetched := func(id view.MemberID) bool {
		return settled(id) && s.View.Transfers(id) && s.report(id).Fetched
	}
	for _, m := range s.View.After().Members {
		if !settled(m.ID) || s.View.Transfers(m.ID) && !fetched(m.ID) {
			rest = append(rest, m.ID)
		}
	}
	safe = s.View.Joint() && s.View.Quorum(s.holds) && s.View.Covered(fetched, settled) &&
		s.Fragments.Restorable(s.View, fetched)
	return safe, rest
}
