package base

import "iter"

// Operation is one that a member coordinates, or one question for several of them. Protocols embed it in what they know
// of an operation.
type Operation struct {
	Number uint64 // of its questions, which answers repeat; 0: it has asked none yet
	Over   bool   // it has ended
}

func (o *Operation) operation() *Operation { return o }

// Operations are those in progress, by number and in the order in which they began.
type Operations[O interface{ operation() *Operation }] struct {
	byNumber map[uint64]O
	ordered  []O // those that are over among them, until the next Sweep
}

// Begin adds an operation.
func (all *Operations[O]) Begin(o O) {
	all.ordered = append(all.ordered, o)
	all.Renumber(o, o.operation().Number)
}

// Renumber has an operation in progress ask from now on under another number: answers to its questions before are
// stale.
func (all *Operations[O]) Renumber(o O, number uint64) {
	if all.byNumber == nil {
		all.byNumber = map[uint64]O{}
	}
	delete(all.byNumber, o.operation().Number)
	if o.operation().Number = number; number != 0 {
		all.byNumber[number] = o
	}
}

// Find returns the operation in progress of a number, or nil.
func (all *Operations[O]) Find(number uint64) O { return all.byNumber[number] }

// End takes an operation out: it is over.
func (all *Operations[O]) End(o O) {
	o.operation().Over = true
	delete(all.byNumber, o.operation().Number)
}

// Len is how many have asked and are in progress.
func (all *Operations[O]) Len() int { return len(all.byNumber) }

// InProgress lists operations in the order in which they began, without those that begin or end meanwhile.
func (all *Operations[O]) InProgress() iter.Seq[O] {
	return func(yield func(O) bool) {
		for _, o := range all.ordered {
			if !o.operation().Over && !yield(o) {
				return
			}
		}
	}
}

// Sweep drops those that are over, and hands each to recycle unless that is nil. It is for the beginning of a Tick: in
// the step in which an operation ends, others may look at it still.
func (all *Operations[O]) Sweep(recycle func(O)) {
	kept := all.ordered[:0]
	for _, o := range all.ordered {
		switch {
		case !o.operation().Over:
			kept = append(kept, o)
		case recycle != nil:
			recycle(o)
		}
	}
	clear(all.ordered[len(kept):])
	all.ordered = kept
}

// Clear forgets all.
func (all *Operations[O]) Clear() { clear(all.byNumber); all.ordered = nil }
