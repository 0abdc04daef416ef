package explorer

import (
	"iter"
	"math/bits"
	"slices"
)

// A message is spent when its member does nothing with it, now or later, such as an answer that comes after enough
// others. Whether it is on its way makes no difference, so it is dropped, and with it half of the global states.
//
// That it does nothing now is worked out; that it will not do anything later is assumed at first, and examined once
// the local states are known that come later. If it does something in one of them, the message is kept, and everything
// is explored again. No order is left out by that: take the first delivery of a dropped message that would have done
// something. All that came before it was explored, so its local state was examined.

// spent reports whether a message is taken to be spent in a local state of the member that it is for.
func (l *locals) spent(state, m uint32) bool {
	if l.states[state].stored != nil || l.kept.has(m) || !l.step(state, chosen(deliver, m)).nothing(state) {
		return false
	}
	l.states[state].dropped.set(m)
	return true
}

// unspent examines all messages that were dropped, and reports whether some must be kept.
func (l *locals) unspent() (some bool) {
	known := uint32(len(l.states))
	gone := make([]bitSet, known) // what was dropped in a local state or before it
	var waiting []uint32
	for n := range known {
		if gone[n] = l.states[n].dropped.without(l.kept); !gone[n].empty() {
			waiting = append(waiting, n)
		}
	}
	for len(waiting) > 0 {
		n := waiting[0]
		waiting = waiting[1:]
		for _, e := range l.states[n].next {
			to := e.to
			more := gone[n].without(gone[to])
			if more.empty() {
				continue
			}
			for m := range more.all() {
				gone[to].set(m)
				if l.states[to].stored == nil && !l.step(to, chosen(deliver, m)).nothing(to) {
					l.kept.set(m)
					some = true
				}
			}
			waiting = append(waiting, to)
		}
	}
	return some
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

// without is what is in b and not in another set.
func (b bitSet) without(other bitSet) bitSet {
	rest := slices.Clone(b)
	for i := range min(len(b), len(other)) {
		rest[i] &^= other[i]
	}
	return rest
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
