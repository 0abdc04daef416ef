package quorum

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// side is one electorate: the members of a plain view, or those before or after the change of a joint one.
type side struct {
	has      []bool // by position in the view
	size     int
	majority int
	fast     int // 0: there is no fast path
}

func sidesOf(v view.View) []side {
	if !v.Joint() {
		return []side{sideOf(v, v, v.FastQuorum(0))}
	}
	// What a fast quorum of a joint view would have to be, recovery would have to find again after the change,
	// with the members of one side alone. The slow path needs no such care.
	return []side{sideOf(v, v.Before(), 0), sideOf(v, v.After(), 0)}
}

func sideOf(v, plain view.View, fast int) side {
	s := side{has: make([]bool, v.Size()), size: plain.Size(), majority: plain.Majority(), fast: fast}
	for i, m := range v.Members {
		s.has[i] = plain.Index(m.ID) >= 0
	}
	return s
}

// count is how many of the side's members, of their present disks, are in answered or are the member also (0: nobody).
func (s *side) count(r *Incarnations, answered []answer, also view.MemberID) int {
	n := 0
	for _, a := range answered {
		if i := r.view.Index(a.from); i >= 0 && s.has[i] && a.incarnation == r.known[i] && a.from != also {
			n++
		}
	}
	if i := r.view.Index(also); i >= 0 && s.has[i] {
		n++
	}
	return n
}

// HasFast reports whether the view has fast quorums: a joint one has none.
func (r *Incarnations) HasFast() bool { return r.sides[0].fast > 0 }

func (r *Incarnations) each(t *Tally, also view.MemberID, enough func(s *side, n int) bool) bool {
	for i := range r.sides {
		if s := &r.sides[i]; !enough(s, s.count(r, t.answered, also)) {
			return false
		}
	}
	return true
}

// Quorum reports whether the members whose present disks have answered, and the member also (0: nobody), are a
// majority, in a joint view one of each side.
func (t *Tally) Quorum(r *Incarnations, also view.MemberID) bool {
	return r.each(t, also, func(s *side, n int) bool { return n >= s.majority })
}

// QuorumBefore is Quorum, in a joint view of the members before the change alone.
func (t *Tally) QuorumBefore(r *Incarnations, also view.MemberID) bool {
	s := &r.sides[0]
	return s.count(r, t.answered, also) >= s.majority
}

// Fast reports whether they are a fast quorum. A joint view has none: what is decided there is accepted by a quorum.
func (t *Tally) Fast(r *Incarnations, also view.MemberID) bool {
	return r.each(t, also, func(s *side, n int) bool { return s.fast > 0 && n >= s.fast })
}

// Meets reports whether they have a member in common with every quorum that some other member was not in: with every
// majority of each side.
func (t *Tally) Meets(r *Incarnations, also view.MemberID) bool {
	return r.each(t, also, func(s *side, n int) bool { return n >= s.size-s.majority+1 })
}

// AskQuorum returns whom to send the question to at first: the fewest of the nearest members that are a quorum with
// oneself (thrifty sending). It sets when to ask again.
func (t *Tally) AskQuorum(c *protocol.Config, r *Incarnations, now protocol.Instant) []view.MemberID {
	return t.ask(c, r, now, func(s *side) int { return s.majority })
}

// AskRest is AskQuorum of a question that some have answered already: the nearest of the others that are a quorum with
// those and oneself.
func (t *Tally) AskRest(c *protocol.Config, r *Incarnations, now protocol.Instant) (rest []view.MemberID) {
	var then Tally
	then.Copy(t)
	for _, id := range c.Nearest {
		if then.Quorum(r, c.Self) {
			break
		}
		if then.Answer(r, id) {
			rest = append(rest, id)
		}
	}
	t.due = now.Add(c.Retry)
	return rest
}

// AskFast is AskQuorum for a fast quorum, or a plain one in a view that has none.
func (t *Tally) AskFast(c *protocol.Config, r *Incarnations, now protocol.Instant) []view.MemberID {
	return t.ask(c, r, now, func(s *side) int { return max(s.fast, s.majority) })
}

// ask returns the shortest prefix of the nearest that has, with oneself, as many members of each side as it needs: the
// nearest are all other members of the view.
func (t *Tally) ask(c *protocol.Config, r *Incarnations, now protocol.Instant, needs func(*side) int) []view.MemberID {
	want := 0
	for i := range r.sides {
		s := &r.sides[i]
		missing := needs(s) - s.count(r, nil, c.Self)
		for k := 0; missing > 0; k++ {
			if s.has[r.view.Index(c.Nearest[k])] {
				missing--
				want = max(want, k+1)
			}
		}
	}
	return t.Ask(c, now, want)
}
