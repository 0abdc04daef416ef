package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// Change makes the joint view that follows the plain view v: the newcomers join, those named as leaving leave. Each
// newcomer waits on an empty disk that it has named, under an ID that no view had before. v has to have taken hold
// (Committed), so that its record can be made again from what members say (Rebuild).
func Change(v view.View, newcomers []Founder, leaving []view.MemberID) (view.View, error) {
	fail := func(format string, args ...any) (view.View, error) {
		return view.View{}, fmt.Errorf("change the view of epoch %d: %w", v.Epoch, fmt.Errorf(format, args...))
	}
	if v.Joint() {
		return fail("a change is going on; finish or abandon it first")
	}
	if len(newcomers)+len(leaving) == 0 {
		return fail("nobody joins or leaves")
	}
	next := v
	next.Members = slices.Clone(v.Members)
	for _, id := range leaving {
		i := next.Index(id)
		if i < 0 {
			return fail("member %d is to leave, and is not in it", id)
		}
		next.Members[i].Leaving = true
	}
	for _, n := range newcomers {
		switch {
		case n.ID <= v.LastIssued():
			return fail("member %d is to join, and IDs up to %d were given before", n.ID, v.LastIssued())
		case n.Disk == "":
			return fail("member %d is to join, and has not named its disk yet", n.ID)
		}
		m := n.member()
		m.Joining = true
		next.Members = append(next.Members, m)
	}
	next.Epoch++
	next.Issued = next.LastIssued()
	if err := next.Validate(); err != nil {
		return fail("%w", err)
	}
	return next, nil
}

// Finish makes the plain view after the change of a joint one. The joint one has to have taken hold (Committed), and
// what ended before it to be where it is needed (view.View.Covered, of members that hold it). Where there are
// partitions, those who leave must have no part in any (Parts), and the witnesses beside them leave with them.
func Finish(joint view.View) (view.View, error) {
	next := joint.After()
	next.Since = joint.Epoch + 1
	return end(joint, next, "finish")
}

// Abandon makes the plain view that has the members before the change of a joint one again. It may be made at any time:
// quorums of the joint view are quorums of the one before it; but where there are partitions, only while the newcomers
// have no part in any (Parts): they are to be drained first. The witnesses beside them leave with them.
func Abandon(joint view.View) (view.View, error) { return end(joint, joint.Before(), "abandon") }

// end makes the plain view that follows a joint one, with the members of next, and without the witnesses beside those
// that are not in it. It is an error if a partition would miss one of them.
func end(joint, next view.View, how string) (view.View, error) {
	fail := func(format string, args ...any) (view.View, error) {
		return view.View{}, fmt.Errorf("%s the change of epoch %d: %w", how, joint.Epoch, fmt.Errorf(format, args...))
	}
	if !joint.Joint() {
		return fail("members don't change in it")
	}
	next.Issued = joint.LastIssued()
	next.Epoch++
	next.Witnesses = slices.DeleteFunc(slices.Clone(joint.Witnesses), func(w view.Witness) bool {
		return w.Beside != 0 && next.Index(w.Beside) < 0
	})
	for _, m := range joint.Members {
		if next.Index(m.ID) >= 0 {
			continue
		}
		if parts := Parts(joint, m.ID); len(parts) > 0 {
			return fail("member %d would not be in the view, and partition %d needs it or the witness beside it; "+
				"drain it first",
				m.ID, parts[0])
		}
	}
	if err := next.Validate(); err != nil {
		return fail("%w", err)
	}
	return next, nil
}

// Parts lists the partitions that need a member, or a witness beside it: it has a role there, or the master has to
// recover from a term in which it had one. A member without parts can leave a view.
func Parts(v view.View, member view.MemberID) (parts []int) {
	with := func(id view.MemberID) bool {
		w, known := v.Witness(id)
		return id == member || known && w.Beside == member
	}
	for i, p := range v.Partitions {
		ids := slices.Concat([]view.MemberID{p.Master}, p.Backups, p.Witnesses)
		for _, f := range p.Formers {
			ids = slices.Concat(ids, []view.MemberID{f.Master}, f.Backups, f.Witnesses)
		}
		if slices.ContainsFunc(ids, with) {
			parts = append(parts, i)
		}
	}
	return parts
}

// Recover makes the view of the one member that is trusted after a quorum was lost for good. What only others knew is
// lost, and if they live on somewhere they may serve what this view does not know: they must have been stopped.
func Recover(v view.View, trust view.MemberID) (view.View, error) {
	i := v.Index(trust)
	if i < 0 {
		return view.View{}, fmt.Errorf("recover from the loss of a quorum: member %d is not in the view of epoch %d",
			trust, v.Epoch)
	}
	m := v.Members[i]
	m.Joining, m.Leaving = false, false
	next := view.View{Cluster: v.Cluster, Epoch: v.Epoch + 1, Members: []view.Member{m}, Issued: v.LastIssued(),
		Founded: v.Founded, Level: v.Level}
	next.Since = next.Epoch
	return next, nil
}
