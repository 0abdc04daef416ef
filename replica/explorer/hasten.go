package explorer

import (
	"cmp"
	"slices"

	"github.com/georegister/georegister/replica/protocol/digest"
)

// Once there can't be another crash, it often makes no difference when a batch becomes durable: its member does the
// same whether that comes before or after whatever else befalls it. Then the batch becomes durable at once, and what
// waited for it, if it is late, are the messages. The operations that it ends are the earlier over, which is all the
// more that a history must respect.
//
// That a member does the same is assumed of each local state at first, and examined once the local states are known
// that come later: each input that the exploration has there is given to the one whose batch is late, which must lead
// to what is late behind the next one by that batch, and what leaves must be the same in the end. Where that does not
// hold, such as at a coordinator that counts others until its own disk counts, a batch lingers, and the exploration
// goes on from where it became durable at once (late.go).

// hastens reports whether the oldest batch of a member becomes durable at once.
func (w *world) hastens(s *state, member int) bool {
	l := &w.states[s.locals[member]]
	if w.settles || w.ordered || s.used.of(usedCrashes) < w.scope.Faults.Crashes || l.batches == 0 ||
		w.lingers(l) {
		return false
	}
	l.hastened = l.hastened || !w.again
	w.hastened = append(w.hastened, s.locals[member])
	return true
}

// lingers reports whether the oldest batch of a member must not become durable at once, as far as was known in the
// present pass.
func (l *locals) lingers(s *local) bool {
	since, lingers := l.lingering[s.mind]
	return lingers && since <= l.pass
}

// unhastened examines all that was hastened, and returns the local states in which it makes a difference. Their batches
// linger from the next pass on.
func (l *locals) unhastened() (all []uint32) {
	var late []uint32 // local states whose oldest batch is late
	var from [][]int  // those before each, of late
	at := map[digest.State]int{}
	lags := func(n uint32) int {
		mind := l.states[n].mind
		if _, known := at[mind]; !known {
			at[mind] = len(late)
			late, from = append(late, n), append(from, nil)
		}
		return at[mind]
	}
	for n := range l.states {
		if l.states[n].hastened {
			lags(uint32(n))
		}
	}
	var differs []int
	for i := 0; i < len(late); i++ {
		to, same := l.commutes(late[i])
		if !same {
			differs = append(differs, i)
			continue
		}
		for _, n := range to {
			next := lags(n)
			from[next] = append(from[next], i)
		}
	}
	for ; len(differs) > 0; differs = differs[1:] {
		if s := &l.states[late[differs[0]]]; !l.known(s) {
			l.lingering[s.mind] = l.pass + 1
			differs = append(differs, from[differs[0]]...)
		}
	}
	for n := range l.states {
		if s := &l.states[n]; s.hastened && l.known(s) {
			s.hastened = false
			all = append(all, uint32(n))
		}
	}
	return all
}

// known reports whether it is known by now that a batch lingers.
func (l *locals) known(s *local) bool {
	_, lingers := l.lingering[s.mind]
	return lingers
}

// commutes reports whether all inputs do the same before the oldest batch of a member becomes durable as afterwards,
// and the local states that they lead to, before that.
func (l *locals) commutes(late uint32) (to []uint32, all bool) {
	if l.known(&l.states[late]) {
		return nil, false
	}
	durable := chosen(persist, uint32(l.states[late].member))
	before := *l.step(late, durable)
	for _, in := range l.inputs(before.to) {
		input, inputLate := *l.step(before.to, in), *l.step(late, in)
		if input.fault != nil || inputLate.fault != nil {
			return nil, false
		}
		if inputLate.to == input.to { // it has made the batch durable
			if !same(before.sent, input.sent, inputLate.sent, nil, cmp.Compare) ||
				!same(before.ended, input.ended, inputLate.ended, nil, compareEndings) {
				return nil, false
			}
			continue
		}
		if l.states[inputLate.to].batches == 0 {
			return nil, false
		}
		after := *l.step(inputLate.to, durable)
		if after.to != input.to || !same(before.sent, input.sent, inputLate.sent, after.sent, cmp.Compare) ||
			!same(before.ended, input.ended, inputLate.ended, after.ended, compareEndings) {
			return nil, false
		}
		to = append(to, inputLate.to)
	}
	return to, true
}

// inputs are those that the exploration has in a local state of a member that runs, but for what becomes durable.
func (l *locals) inputs(n uint32) (all []choice) {
	for _, e := range l.states[n].next {
		if e.by.kind() != persist && e.by.kind() != crash {
			all = append(all, e.by)
		}
	}
	for m := range l.states[n].same.all() {
		all = append(all, chosen(deliver, m))
	}
	return all
}

// same reports whether two lists have what other two have, in any order.
func same[T comparable](a, b, c, d []T, compare func(T, T) int) bool {
	one, other := slices.Concat(a, b), slices.Concat(c, d)
	slices.SortFunc(one, compare)
	slices.SortFunc(other, compare)
	return slices.Equal(one, other)
}

func compareEndings(a, b ending) int {
	return cmp.Or(cmp.Compare(a.operation, b.operation), cmp.Compare(a.result, b.result))
}
