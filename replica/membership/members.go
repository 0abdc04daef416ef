package membership

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// decideMembers decides on the view that follows the recorded one as far as it is about who is in it, where there are
// partitions: witnesses of newcomers come, lost ones go that are replaced and that nobody needs, and the change of a
// joint view is finished, or abandoned if the snapshot asks for that. One step at a time; if there is none,
// decidePartitions has its turn, which moves the parts of those who leave to others. So a change of members, also one
// that replaces a member that is lost with its disk or its machine, is:
//
//  1. Newcomers and their witnesses start on empty disks, under new IDs (PairedIDs, WitnessOf), and name them.
//  2. Once the recorded view is committed (Committed), Change makes the joint one of it.
//  3. As long as that is joint, and after, in each round: record d.Next of Decide(s), and send it to the members, with
//     the newcomers' witnesses in s.Named and s.Placement as it is to be after the change.
//  4. When the view is plain, those who left may be stopped.
//
// Who leaves is drained: its roles go to others, by learners that fetch the state from the master. No state moves by
// quorums, so what members say of having settled and fetched count for nothing here. While too few are
// there to take the parts of those who leave, the joint view stays, and decidePartitions says what it waits for.
//
// Abandoned, it is the newcomers that are drained. A change whose newcomers have not come up has no other end, nor
// has one that lost a majority of the members after it.
func (s *Snapshot) decideMembers(d *Decision) {
	come, gone := s.coming(), s.going()
	switch waits := s.stays(); {
	case len(come)+len(gone) > 0:
		next, err := ChangeWitnesses(s.View, come, gone)
		if err != nil {
			d.Waits = append(d.Waits, err.Error())
			return
		}
		d.Next = next
		for _, w := range come {
			d.change(WitnessesChanged, "witness %d comes", w.ID)
		}
		for _, id := range gone {
			d.change(WitnessesChanged, "witness %d goes", id)
		}
	case !s.View.Joint():
	case len(waits) > 0:
		d.Waits = waits
	case s.Abandon:
		d.endDrained(s, Abandoned, "abandoned")
	default:
		d.endDrained(s, Finished, "finished")
	}
}

// giveBack abandons a joint view that no quorum holds, if that is asked for and a majority of the members before
// the change does hold it: they can go on, and the members after it may be lost for good. Otherwise it waits as it
// was said.
func (s *Snapshot) giveBack(waiting Decision) Decision {
	if !s.Abandon || !s.View.Joint() || waiting.Rebuild || !s.View.Before().Quorum(s.intact) {
		return waiting
	}
	d := Decision{}
	if d.endDrained(s, Abandoned, "abandoned"); !d.Changed() { // newcomers have parts, and are to be drained first
		d.Waits = append(waiting.Waits, d.Waits...)
	}
	return d
}

// coming are the witnesses that can be entered: on disks that they have named, beside members that stay.
func (s *Snapshot) coming() (come []view.Witness) {
	for _, w := range s.Named {
		i := s.View.Index(w.Beside)
		if _, known := s.View.Witness(w.ID); known || w.Disk == "" ||
			w.Beside != 0 && (i < 0 || s.departs(s.View.Members[i])) {
			continue
		}
		if w.ID > s.View.LastIssued() || paired(s.View) && w.ID == WitnessOf(w.Beside) {
			come = append(come, w)
		}
	}
	return come
}

// going are the witnesses that nobody needs, and that retire, or are lost with another one in their place. One that is
// paired with a member goes with that.
func (s *Snapshot) going() []view.MemberID {
	return slices.DeleteFunc(Idle(s.View), func(id view.MemberID) bool {
		w, _ := s.View.Witness(id)
		if w.Beside == 0 && slices.Contains(s.Retiring, id) {
			return false
		}
		replaced := slices.ContainsFunc(s.View.Witnesses, func(o view.Witness) bool {
			return o.ID > id && o.Beside == w.Beside && o.Site == w.Site
		})
		return !s.lost(id) || w.ID == WitnessOf(w.Beside) || !replaced
	})
}

// stays says what keeps a joint view from becoming a plain one.
func (s *Snapshot) stays() (waits []string) {
	for _, m := range s.View.Members {
		if parts := Parts(s.View, m.ID); s.departs(m) && len(parts) > 0 {
			waits = append(waits, fmt.Sprintf("member %d is to leave, and has parts, or the witness beside it, in "+
				"partitions %v", m.ID, parts))
		}
		_, known := s.View.Witness(WitnessOf(m.ID))
		beside := !s.Placement.Dedicated && paired(s.View) // a view without witnesses tells nothing
		if m.Joining && !s.Abandon && beside && !known && !s.lost(m.ID) && !s.Suspected(m.ID) {
			waits = append(waits, fmt.Sprintf("witness %d, beside the newcomer %d, has not named its disk yet",
				WitnessOf(m.ID), m.ID))
		}
	}
	return waits
}
