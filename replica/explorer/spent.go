package explorer

import (
	"iter"
	"math/bits"
	"slices"
)

// A message is spent when its member does nothing with it, now or later, such as an answer that comes after enough
// others, or nothing but answer what is spent itself, such as a question that was asked twice. Whether it is on its way
// makes no difference, so it is dropped, and with it half of the global states.
//
// That it does no more now is worked out; that it will not do more later is assumed at first, and examined once the
// local states are known that come later. If it does more in one of them, the message is kept from then on, and the
// exploration goes on from where it was dropped (late.go). No order is left out by that: take the first delivery of a
// dropped message that would have done something. All that came before it was explored, so its local state was
// examined; and if it was answered, what it was dropped with was, too.

// spending is what a message that is spent may still do.
type spending int

const (
	silent    spending = iota // nothing
	answered                  // it has its answers sent
	spendings                 // how many there are
)

// maxAnswers is how many messages that do nothing but follow from each other are taken to be spent with the first.
const maxAnswers = 3

// spent reports whether a message is taken to be spent in a global state. It follows from so many others.
func (w *world) spent(s *state, m uint32, follows int) bool {
	at := s.locals[w.messages[m].to]
	switch {
	case w.messages[m].learns: // it never arrives
		return true
	case w.again:
		return false
	case w.states[at].stored != nil:
		return false
	}
	t := *w.step(at, chosen(deliver, m))
	if t.nothing(at) && (!w.kept[silent].has(m) || !w.never.has(m) && w.over(at, m)) {
		w.drops(at, m, silent)
		return true
	}
	if follows == maxAnswers || w.kept[answered].has(m) || !t.answers(at) {
		return false
	}
	if w.messages[m].answers == nil {
		w.messages[m].answers = slices.Clone(t.sent)
	}
	all := w.messages[m].answers
	if len(all) == 0 || len(t.sent) > 0 && !slices.Equal(t.sent, all) {
		return false
	}
	for _, answer := range all {
		if !w.spent(s, answer, follows+1) {
			return false
		}
	}
	w.drops(at, m, answered)
	return true
}

// drops notes that a message is taken to be spent in a local state.
func (w *world) drops(at, m uint32, how spending) {
	w.states[at].dropped[how].set(m)
	w.dropped = append(w.dropped, m)
}

// over reports whether a message that does nothing in a local state did something before it, as far as is known: what
// is kept because it does nothing yet is taken to be spent then.
func (l *locals) over(state, m uint32) bool {
	if l.states[state].undone.has(m) {
		return false
	}
	for n := state; l.states[n].stored == nil; n = l.states[n].parent {
		if at, known := l.table[uint64(n)<<32|uint64(chosen(deliver, m))]; known && !l.transitions[at].nothing(n) {
			return true
		}
	}
	l.states[state].undone.set(m)
	return false
}

// concerns reports whether it depends on the local state of a process whether a message is spent, which follows from so
// many others.
func (l *locals) concerns(process int, m uint32, follows int) bool {
	return l.messages[m].to == process || follows < maxAnswers && slices.ContainsFunc(l.messages[m].answers,
		func(answer uint32) bool { return l.concerns(process, answer, follows+1) })
}

// unspent examines all messages that were dropped, and returns those that must be kept.
func (l *locals) unspent() (all []uint32) {
	for how := range spendings {
		all = append(all, l.unspentAs(how)...)
	}
	return all
}

func (l *locals) unspentAs(how spending) (all []uint32) {
	known := len(l.states)
	var found bitSet
	gone := make([]bitSet, known) // what was dropped in a local state or before it
	waits := make([]bool, known)
	for n := range known {
		gone[n] = l.states[n].dropped[how].without(l.kept[how])
		if how == silent {
			gone[n] = l.states[n].dropped[how].without(l.never)
		}
		waits[n] = !gone[n].empty()
	}
	// Most local states have higher numbers than those before them: one time through all is nearly enough, and each is
	// made once for all that was dropped before it.
	for n := slices.Index(waits, true); n >= 0; n = slices.Index(waits, true) {
		for ; n < known; n++ {
			if !waits[n] {
				continue
			}
			waits[n] = false
			for m := range gone[n].all() {
				if l.states[n].stored != nil || l.allowed(uint32(n), m, how) || found.has(m) {
					continue
				}
				found.set(m)
				all = append(all, m)
				if how == silent && l.kept[silent].has(m) {
					l.never.set(m)
				}
				l.kept[how].set(m)
			}
			for _, e := range l.states[n].next {
				if !gone[n].within(gone[e.to]) {
					gone[e.to].add(gone[n])
					waits[e.to] = true
				}
			}
		}
	}
	return all
}

// allowed reports whether a message that was dropped does no more in a local state than it may.
func (l *locals) allowed(state, m uint32, how spending) bool {
	t := l.step(state, chosen(deliver, m))
	return t.nothing(state) || how == answered && t.answers(state) && slices.Equal(t.sent, l.messages[m].answers)
}

// bitSet is a set of small numbers.
type bitSet []uint64

func (b bitSet) has(n uint32) bool { return int(n/64) < len(b) && b[n/64]>>(n%64)&1 == 1 }

func (b *bitSet) set(n uint32) {
	for int(n/64) >= len(*b) {
		*b = append(*b, 0)
	}
	(*b)[n/64] |= 1 << (n % 64)
}

// add puts what is in another set into b.
func (b *bitSet) add(other bitSet) {
	for len(*b) < len(other) {
		*b = append(*b, 0)
	}
	for i, word := range other {
		(*b)[i] |= word
	}
}

// without is what is in b and not in another set.
func (b bitSet) without(other bitSet) bitSet {
	rest := slices.Clone(b)
	for i := range min(len(b), len(other)) {
		rest[i] &^= other[i]
	}
	return rest
}

// within reports whether another set has all that is in b.
func (b bitSet) within(other bitSet) bool {
	for i, word := range b {
		if word != 0 && (i >= len(other) || word&^other[i] != 0) {
			return false
		}
	}
	return true
}

func (b bitSet) empty() bool { return !slices.ContainsFunc(b, func(w uint64) bool { return w != 0 }) }

// all yields the numbers in the set, ascending.
func (b bitSet) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		for i, word := range b {
			for ; word != 0; word &= word - 1 {
				if !yield(uint32(64*i + bits.TrailingZeros64(word))) {
					return
				}
			}
		}
	}
}
