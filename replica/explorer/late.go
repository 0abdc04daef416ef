package explorer

import (
	"encoding/binary"
	"slices"
)

// A message that was dropped, or a batch that became durable at once, and turns out to make a difference, is kept, or
// lingers, from then on: the states are missing in which the message is under way, or the batch is late. The others are
// right, but for operations that do not end because a message is missing, and stay. So the exploration goes on from
// each state in which a choice left that out: its choices are taken again. Each time that this happens a pass begins.

// late are the states in which choices left something out.
type late struct {
	batches  noted // by the local state whose batch became durable at once
	messages noted // by the message that was dropped
}

// noted are states by what they were noted for. It is never ranged over.
type noted map[uint32]*numbers

func (n noted) add(key, state uint32) {
	all, some := n[key]
	if !some {
		all = &numbers{}
		n[key] = all
	}
	all.add(state)
}

// take takes the states out that were noted for some keys, and appends them to a list.
func (n noted) take(keys, all []uint32) []uint32 {
	for _, key := range keys {
		if states, some := n[key]; some {
			all = states.appendTo(all)
			delete(n, key)
		}
	}
	return all
}

// numbers is a list of states, each as its difference from the one before: most are small.
type numbers struct {
	last        uint32
	differences []byte
}

func (n *numbers) add(state uint32) {
	if len(n.differences) == 0 || n.last != state {
		n.differences = binary.AppendVarint(n.differences, int64(state)-int64(n.last))
		n.last = state
	}
}

// appendTo appends the numbers to a list.
func (n *numbers) appendTo(all []uint32) []uint32 {
	last := int64(0)
	for rest := n.differences; len(rest) > 0; {
		difference, size := binary.Varint(rest)
		last, rest = last+difference, rest[size:]
		all = append(all, uint32(last))
	}
	return all
}

// note notes what a choice of a state left out.
func (l *late) note(w *world, state uint32) {
	if l.batches == nil {
		l.batches, l.messages = noted{}, noted{}
	}
	for _, local := range w.hastened {
		l.batches.add(local, state)
	}
	for _, m := range w.dropped {
		l.messages.add(m, state)
	}
}

// examined is what came of examining what was left out.
type examined int

const (
	complete  examined = iota // it makes no difference
	resumes                   // the exploration goes on from where it was left out
	startOver                 // that is where nearly everything is
)

// examine examines all that was left out, and goes on from where that makes a difference.
func (s *search) examine() examined {
	messages, batches := s.unspent(), s.unhastened()
	s.examined = 2 * len(s.states)
	if len(messages)+len(batches) == 0 {
		return complete
	}
	if s.ordered && len(messages) > 0 { // the plain order is another one with them
		return startOver
	}
	again := s.late.messages.take(messages, s.late.batches.take(batches, nil))
	slices.Sort(again)
	again = slices.Compact(again)
	if 2*len(again) > len(s.visited.found) {
		return startOver
	}
	s.locals.pass++
	for _, state := range again {
		s.restore(state)
		s.hastened = s.hastened[:0]
		s.late.note(s.world, state)
		s.words = s.from.encode(s.words[:0])
		s.waiting[s.levels[state]].add(state, s.words)
	}
	s.next()
	return resumes
}

// restore has the field from be a state that was found, with all that is under way by what is known now.
func (s *search) restore(number uint32) {
	s.from.copyFrom(s.initial)
	s.repeat(s.path(number), func(c choice) { s.world.do(&s.from, c) })
	s.dropped = s.dropped[:0]
	s.world.drop(&s.from)
}

// repeat has do take the steps of a path. Each is taken as it was in its pass; where messages have a plain order, what
// was dropped is again.
func (s *search) repeat(path []uint32, do func(choice)) {
	pass := s.locals.pass
	s.again = !s.ordered
	for _, at := range path {
		s.locals.pass = s.passes[at]
		do(s.by[at])
	}
	s.again, s.locals.pass = false, pass
}

// settleWhole is what is wrong with where a state leads to with all that is under way.
func (s *search) settleWhole(number uint32) *Failure {
	s.restore(number)
	s.settler.visited = visited{} // of the state without
	f := s.settle(s.ctx, &s.from)
	s.last, s.settled = nil, s.steps
	return f
}

// restart has all batches that linger do so from the first pass on.
func (l *locals) restart() {
	for mind := range l.lingering { // order is irrelevant: all become alike
		l.lingering[mind] = 0
	}
	l.pass = 0
}
