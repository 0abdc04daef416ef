package membership

import "github.com/georegister/georegister/replica/view"

// Standing is what a member said of itself in a change: the digest of the view that it holds, and in a joint view
// whether it has settled what it voted on before, and fetched the state that it has to (view.View.Transfers).
type Standing struct {
	Digest           string
	Settled, Fetched bool
}

// Finishable reports whether the change of a joint view may be finished (Finish), as far as members told, and which of
// those after the change are not done with their part. A change that may be finished is worth waiting for the
// rest of them, unless they are lost. Where large values are stored as fragments, more have to be done than a
// majority: each member has a fragment of its own, and those of the members that leave go with them.
func Finishable(
	joint view.View, fragments view.Fragments, standings map[view.MemberID]Standing,
) (safe bool, rest []view.MemberID) {
	digest := joint.Digest()
	holds := func(id view.MemberID) bool { return standings[id].Digest == digest }
	settled := func(id view.MemberID) bool { return holds(id) && standings[id].Settled }
	fetched := func(id view.MemberID) bool {
		return settled(id) && joint.Transfers(id) && standings[id].Fetched
	}
	for _, m := range joint.After().Members {
		if !settled(m.ID) || joint.Transfers(m.ID) && !fetched(m.ID) {
			rest = append(rest, m.ID)
		}
	}
	safe = joint.Joint() && joint.Quorum(holds) && joint.Covered(fetched, settled) && fragments.Restorable(joint, fetched)
	return safe, rest
}
