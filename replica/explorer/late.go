package explorer

import (
	"slices"
	"sort"
)

// A batch that became durable at once, and turns out to make a difference, lingers from then on: the states are missing
// in which it is late. The others are right, and stay. So the exploration goes on from each state in which a choice had
// that batch become durable at once: its choices are taken again. Each time that this happens a pass begins.

// late are the states in which choices had batches become durable at once, and where passes begin.
type late struct {
	states map[uint32][]uint32 // by the local state whose batch it was, ascending in each pass
	passes []uint32            // how many states there were when each began, but for the first
}

func (l *late) note(local, state uint32) {
	if l.states == nil {
		l.states = map[uint32][]uint32{}
	}
	if all := l.states[local]; len(all) == 0 || all[len(all)-1] != state {
		l.states[local] = append(all, state)
	}
}

// pass is that in which a state was found.
func (l *late) pass(state uint32) uint32 {
	return uint32(sort.Search(len(l.passes), func(i int) bool { return l.passes[i] > state }))
}

// resume begins a pass in which the batches of some local states linger, and reports whether there are any.
func (s *search) resume(locals []uint32) bool {
	if len(locals) == 0 {
		return false
	}
	s.late.passes = append(s.late.passes, uint32(len(s.visited.found)))
	s.locals.pass++
	var again []uint32
	for _, n := range locals {
		again = append(again, s.late.states[n]...)
		delete(s.late.states, n)
	}
	slices.Sort(again)
	for _, state := range slices.Compact(again) {
		s.restore(state)
		s.words = s.from.encode(s.words[:0])
		s.waiting[s.levels[state]].add(state, s.words)
	}
	return s.next()
}

// restore makes from a state that was found. Messages that are spent are dropped at the end alone, as more of them may
// be known to be by now.
func (s *search) restore(number uint32) {
	s.from.copyFrom(s.initial)
	s.repeat(s.path(number), func(c choice) { s.world.do(&s.from, c) })
	s.world.drop(&s.from)
}

// repeat has do take the steps of a path. Each is taken as it was in its pass; where messages have a plain order, there
// is one pass, and what was dropped is again.
func (s *search) repeat(path []uint32, do func(choice)) {
	pass := s.locals.pass
	s.again = !s.ordered
	for _, at := range path {
		s.locals.pass = s.late.pass(at)
		do(s.by[at])
	}
	s.again, s.locals.pass = false, pass
}

// restart has all batches that linger do so from the first pass on.
func (l *locals) restart() {
	for mind := range l.lingering { // order is irrelevant: all become alike
		l.lingering[mind] = 0
	}
	l.pass = 0
}
