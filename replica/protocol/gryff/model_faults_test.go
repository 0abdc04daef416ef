package gryff_test

import "math/bits"

// What befalls the members of the model: a disk that is lost, and a change of the view.

// lose has a member lose its disk, and come back: so many others as survive f losses know of that first, and have it
// copy what they have.
func (m *model) lose(s *modelState, yield func(choice, modelState)) {
	if s.lost < 0 {
		for member := range modelMembers - 1 {
			if m.faults.losses == 0 || s.members[member].values == [modelKeys]stamp{} {
				continue // nothing is lost with it
			}
			n := *s
			n.lost = int8(member)
			n.members[member] = memberState{epoch: s.members[member].epoch, votes: m.rules.unread, told: true}
			for i, o := range m.program {
				st := &n.ops[i]
				st.dead = st.answers.has(member)
				if o.home == member && st.phase != notBegun && st.phase != over {
					st.unknown = st.unknown || !st.returned
					st.forget() // what it has sent is not modelled
				}
			}
			yield(choice{"a disk is lost", -1, member}, n)
		}
		return
	}
	joins := int(s.lost)
	if s.members[joins].votes {
		return
	}
	adopted := 0
	for i := range s.members {
		if i != joins && s.members[i].told {
			adopted++
		}
	}
	for i := range s.members {
		switch o := &s.members[i]; {
		case i == joins || !o.votes || o.epoch != s.members[joins].epoch:
		case !o.told && adopted < 3:
			n := *s
			n.members[i].told = true
			m.recount(&n)
			yield(choice{"knows of the loss", -1, i}, n)
		case o.told && adopted == 3 && !s.members[joins].copied.has(i):
			n := *s
			n.copy(joins, i)
			if bits.OnesCount8(uint8(n.members[joins].copied)) == 3 {
				n.members[joins].votes = true
				n.members[joins].copied = 0
			}
			yield(choice{"is copied by who has lost its disk", -1, i}, n)
		}
	}
}

func (s *modelState) copy(to, from int) {
	for key, v := range s.members[from].values {
		s.apply(to, key, v)
	}
	s.members[to].copied.add(from)
}

// recount looks at all counts again.
func (m *model) recount(s *modelState) {
	for i, o := range m.program {
		if st := &s.ops[i]; st.phase != notBegun && st.phase != over && s.members[o.home].votes {
			m.count(s, i)
		}
	}
}

// change replaces the fifth member by the sixth: a joint view, in which the sixth copies what a majority has, and the
// one after it.
func (m *model) change(s *modelState, yield func(choice, modelState)) {
	if m.faults.changes == 0 {
		return
	}
	const joins = modelMembers - 1
	var old, ready set
	for i, o := range s.members {
		if o.epoch == 1 && o.votes && oldView.has(i) {
			old.add(i)
		}
		if o.epoch == 1 && newView.has(i) && (i != joins || o.copied == 0b111111 || m.rules.unread) {
			ready.add(i)
		}
	}
	enough := func(of set) bool { return bits.OnesCount8(uint8(of)) >= 3 }
	if s.epoch == 0 || s.epoch == 1 && enough(old) && enough(ready) && ready.has(joins) {
		n := *s
		n.epoch++
		yield(choice{"the next view is made", -1, -1}, n)
	}
	for i := range s.members {
		if s.members[i].epoch < s.epoch {
			n := *s
			n.members[i].epoch = s.epoch
			if i == joins {
				n.members[i].votes = true // with the others' quorum beside it
			}
			for op, o := range m.program {
				if p := n.ops[op].phase; o.home == i && p != notBegun && p != over {
					m.ask(&n, op) // again, in this view
				}
			}
			yield(choice{"takes on the view", -1, i}, n)
		}
		c := s.members[joins].copied
		if s.epoch == 1 && s.members[joins].epoch == 1 && old.has(i) && !c.has(i) && c != 0b111111 {
			n := *s
			n.copy(joins, i)
			if enough(n.members[joins].copied) {
				n.members[joins].copied = 0b111111 // all that it needs
			}
			yield(choice{"is copied by who joins", -1, i}, n)
		}
	}
}
