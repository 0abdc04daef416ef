package base

import (
	"iter"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Operation is one that a member coordinates, or one question for several of them. Protocols embed it in what they know
// of an operation.
type Operation struct {
	Request protocol.Request // zero if there are several
	Key     []byte
	Number  uint64 // of its questions, which answers repeat; 0: none is open
	Trips   int    // round trips that the answer waits for; in Gryff, of those before the first phase
	Over    bool   // it has ended
}

// NewOperation is the operation of a request, under the next number.
func (b *Base) NewOperation(r protocol.Request) Operation {
	return Operation{Request: r, Key: b.Keys.Of(r.Operation.Key), Number: b.Op()}
}

// Kind is what the request asks for.
func (o *Operation) Kind() register.Kind { return o.Request.Operation.Kind }

// Ended reports that it is over: the next Sweep takes it from the list, and nothing else in later steps looks at it, so
// that it does not count in a digest.
func (o *Operation) Ended() bool { return o.Over }

func (o *Operation) operation() *Operation { return o }

// Operations are those in progress, by number and in the order in which they began.
type Operations[O interface{ operation() *Operation }] struct {
	byNumber map[uint64]O
	ordered  []O // those that are over among them, until the next Sweep
	live     int // in progress
}

// Begin adds an operation.
func (all *Operations[O]) Begin(o O) {
	all.live++
	all.ordered = append(all.ordered, o)
	all.Renumber(o, o.operation().Number)
}

// Renumber has an operation in progress ask from now on under another number, or under none (0): answers to its
// questions before are stale.
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

// End takes an operation out that has begun: it is over. To end it again changes nothing.
func (all *Operations[O]) End(o O) {
	if !o.operation().Over {
		all.live--
	}
	o.operation().Over = true
	delete(all.byNumber, o.operation().Number)
}

// Len is how many are in progress.
func (all *Operations[O]) Len() int { return all.live }

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

// Tick tells the time: operations expire whose deadline has passed, and the others retransmit.
func (all *Operations[O]) Tick(b *Base, now protocol.Instant, expire, retransmit func(O)) {
	b.Now = now
	all.Sweep(nil)
	for o := range all.InProgress() {
		if b.Late(&o.operation().Request) {
			expire(o)
		} else {
			retransmit(o)
		}
	}
}

// Sweep drops those that are over, and hands each to recycle unless that is nil. It is for the beginning of a Tick: in
// the step in which an operation ends, others may look at it still.
func (all *Operations[O]) Sweep(recycle func(O)) {
	all.ordered = slices.DeleteFunc(all.ordered, func(o O) bool {
		over := o.operation().Over
		if over && recycle != nil {
			recycle(o)
		}
		return over
	})
}

// Unfinished takes out all, and lists their requests, each with what was done for it.
func (all *Operations[O]) Unfinished(resume func(O) protocol.Resume) []protocol.Request {
	var unfinished []protocol.Request
	for o := range all.InProgress() {
		r := o.operation().Request
		r.Resume = resume(o)
		unfinished = append(unfinished, r)
	}
	*all = Operations[O]{}
	return unfinished
}
