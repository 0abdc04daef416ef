// Package quorum counts answers by quorums: whom to ask a question, who answered it, when
// to ask again, and which answers no longer count because the disk that gave them is lost.
package quorum

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// Incarnations are the newest that this member knows of each member of the view. Answers of older
// ones are void: the disk that they spoke for is gone (docs/design.md, lost disks).
type Incarnations struct {
	view  view.View
	known []view.Incarnation // by position in the view
	sides []side             // one of a plain view, two of a joint one
}

// FirstDisks are those of a view in which every member has its first disk.
func FirstDisks(v view.View) *Incarnations {
	return &Incarnations{view: v, known: slices.Repeat([]view.Incarnation{1}, v.Size()), sides: sidesOf(v)}
}

// SizeFast makes fast quorums of a plain view of so many members, the coordinator included. Without it, they are all
// but one (view.View.FastQuorum).
func (r *Incarnations) SizeFast(members int) {
	if !r.view.Joint() {
		r.sides[0].fast = members
	}
}

// View is the view of the members.
func (r *Incarnations) View() view.View { return r.view }

// Of returns the newest known incarnation of a member.
func (r *Incarnations) Of(id view.MemberID) view.Incarnation {
	if i := r.view.Index(id); i >= 0 {
		return r.known[i]
	}
	return 0
}

// Learn notes that a member has (at least) that incarnation.
func (r *Incarnations) Learn(id view.MemberID, incarnation view.Incarnation) {
	if i := r.view.Index(id); i >= 0 {
		r.known[i] = max(r.known[i], incarnation)
	}
}

// Vector lists the known incarnations by position in the view, or nil while all are first ones.
func (r *Incarnations) Vector() []uint32 {
	if !slices.ContainsFunc(r.known, func(k view.Incarnation) bool { return k > 1 }) {
		return nil
	}
	vector := make([]uint32, len(r.known))
	for i, k := range r.known {
		vector[i] = uint32(k)
	}
	return vector
}

// KnownTo reports whether who sent a vector, as Vector makes it, knows the present disk of a member.
func (r *Incarnations) KnownTo(vector []uint32, id view.MemberID) bool {
	known := view.Incarnation(1) // all are, while the vector is left out
	if i := r.view.Index(id); i < len(vector) {
		known = view.Incarnation(vector[i])
	}
	return known == r.Of(id)
}

// Merge learns a vector of another member.
func (r *Incarnations) Merge(vector []uint32) {
	for i, k := range vector[:min(len(vector), len(r.known))] {
		r.Learn(r.view.Members[i].ID, view.Incarnation(k))
	}
}

// Tally counts the answers to one question by the sides of the view. The zero Tally has none.
type Tally struct {
	answered []answer
	wide     bool             // everyone was asked, not just the nearest quorum
	due      protocol.Instant // when to ask again
}

type answer struct {
	from        view.MemberID
	incarnation view.Incarnation
}

// Restart forgets all answers, for the next question.
func (t *Tally) Restart() { *t = Tally{answered: t.answered[:0]} }

// Copy makes t one of a question that is yet to be asked, with the answers of q.
func (t *Tally) Copy(q *Tally) { *t = Tally{answered: append(t.answered[:0], q.answered...)} }

// Answer notes that a member answered, for the disk that it has now, and reports whether it was the first
// time for that disk.
func (t *Tally) Answer(r *Incarnations, from view.MemberID) bool {
	incarnation := r.Of(from)
	for i := range t.answered {
		if t.answered[i].from == from {
			news := t.answered[i].incarnation != incarnation
			t.answered[i].incarnation = incarnation
			return news
		}
	}
	if t.answered == nil { // one allocation for all answers
		t.answered = make([]answer, 0, len(r.known))
	}
	t.answered = append(t.answered, answer{from, incarnation})
	return true
}

// Answered reports whether a member's present disk has answered.
func (t *Tally) Answered(r *Incarnations, id view.MemberID) bool {
	return slices.Contains(t.answered, answer{id, r.Of(id)})
}

// Count is the number of members whose present disk has answered.
func (t *Tally) Count(r *Incarnations) int {
	n := 0
	for _, a := range t.answered {
		if a.incarnation == r.Of(a.from) {
			n++
		}
	}
	return n
}

// Ask returns whom to send the question to at first: the nearest want members, oneself not counted (thrifty
// sending). It sets when to ask again.
func (t *Tally) Ask(c *protocol.Config, now protocol.Instant, want int) []view.MemberID {
	t.due = now.Add(c.Retry)
	if want >= len(c.Nearest) {
		t.wide = true
		return c.Nearest
	}
	return c.Nearest[:want]
}

// Again returns whom to ask again now, if it is time: everyone who has not answered.
func (t *Tally) Again(c *protocol.Config, r *Incarnations, now protocol.Instant) []view.MemberID {
	if now < t.due {
		return nil
	}
	t.due = now.Add(c.Retry)
	t.wide = true
	var missing []view.MemberID
	for _, id := range c.Nearest {
		if !t.Answered(r, id) {
			missing = append(missing, id)
		}
	}
	return missing
}

// Wide reports whether everyone has been asked.
func (t *Tally) Wide() bool { return t.wide }
