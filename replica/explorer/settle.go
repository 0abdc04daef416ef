package explorer

import (
	"context"
	"fmt"
)

// Bounds of what members do once nothing else happens. What takes longer goes on for ever.
const (
	maxRounds    = 60    // of timeouts
	maxExchanged = 10000 // steps without a timeout in between
	takeoverEach = 4     // rounds: the others retransmit
)

// settler has everything happen that is left: members start again, batches become durable, messages arrive in the
// order in which they were sent, and clocks move on. What comes of a state is worked out once.
type settler struct {
	*judge
	visited visited
	scratch []uint32
	steps   []choice // of the present run
	begun   bool     // the operations before have ended
}

// do has a choice happen, and notes it.
func (t *settler) do(s *state, c choice) (did, *Failure) {
	t.steps = append(t.steps, c)
	d := t.world.do(s, c)
	if d.fault != nil {
		return d, &Failure{Class: Broken, Why: d.fault.Error()}
	}
	return d, nil
}

// plain has a world settle while do runs, and the messages of a state be in an order.
func (w *world) plain(s *state, do func() *Failure) *Failure {
	ordered := w.ordered
	w.ordered, w.settles = true, true
	s.queue, s.held, s.slow = append(s.queue, s.held...), s.held[:0], 0
	f := do()
	w.ordered, w.settles = ordered, false
	return f
}

// begin starts the members and has the operations before end. It returns the state from which everything is explored,
// and the steps to it.
func (t *settler) begin() (*state, []choice, *Failure) {
	s := &state{attempts: make([]attempt, len(t.operations))}
	for i := range t.processes() {
		s.locals = append(s.locals, t.empty(i))
	}
	f := t.plain(s, func() *Failure {
		if f := t.exchange(s); f != nil {
			return f
		}
		for _, op := range t.before {
			if f := t.finish(s, op); f != nil {
				return f
			}
		}
		return nil
	})
	for _, op := range t.before {
		t.ended = append(t.ended, s.attempts[op])
	}
	t.begun = true
	s.attempts = s.attempts[:t.scoped()]
	clear(s.attempts)
	return s, t.steps, f
}

// settle is what is wrong with where a state leads to; nil: nothing. The state is no more afterwards.
func (t *settler) settle(ctx context.Context, s *state) *Failure {
	t.steps = t.steps[:0]
	for range len(t.operations) - len(s.attempts) {
		s.attempts = append(s.attempts, attempt{})
	}
	first := uint32(len(t.visited.found))
	return t.plain(s, func() *Failure {
		for round := 1; ; round++ {
			if f := t.exchange(s); f != nil {
				return f
			}
			at, isNew := t.add(s, round)
			if !isNew && at < first {
				return nil // it was worked out before
			}
			busy, pending := t.busy(s)
			if busy == "" && pending == 0 {
				break
			}
			if isNew && round < maxRounds {
				if f := t.pass(s, round); f != nil {
					return f
				}
				continue
			}
			if busy != "" {
				return &Failure{Class: Stuck, Why: busy + " does not end, though everything arrives"}
			}
			return &Failure{Class: Unbounded, Why: fmt.Sprintf("members hold %d operations or instances, though all "+
				"operations have ended and everything arrives", pending)}
		}
		for _, read := range t.reads {
			if f := t.finish(s, read); f != nil {
				return f
			}
			if at, isNew := t.add(s, 0); !isNew && at < first {
				return nil
			}
		}
		return t.check(ctx, s)
	})
}

// add notes a state in which only time can lead on, and after how many rounds that is.
func (t *settler) add(s *state, rounds int) (at uint32, isNew bool) {
	s.used = 0
	t.scratch = append(s.encode(t.scratch[:0]), uint32(rounds%takeoverEach))
	return t.visited.add(hash(t.scratch))
}

// busy is an operation that is not over, and how much work members have.
func (t *settler) busy(s *state) (operation string, pending int) {
	for session, all := range t.sessions {
		for _, op := range all {
			if r := s.attempts[op].result; r == inProgress || r == notInvoked {
				operation = fmt.Sprintf("operation %d of client %d", t.operations[op].number+1, session+1)
			}
		}
	}
	for _, l := range s.locals {
		pending += t.states[l].pending
	}
	return operation, pending
}

// exchange has everything happen that needs no time.
func (t *settler) exchange(s *state) *Failure {
	for range maxExchanged {
		c, some := t.first(s)
		if !some {
			return nil
		}
		if _, f := t.do(s, c); f != nil {
			return f
		}
	}
	return &Failure{Class: Unbounded, Why: "members send each other messages without end"}
}

// first is what happens next if nothing goes wrong.
func (t *settler) first(s *state) (c choice, some bool) {
	for i, l := range s.locals {
		switch {
		case t.states[l].stored != nil:
			return chosen(start, uint32(i)), true
		case t.states[l].batches > 0:
			return chosen(persist, uint32(i)), true
		case t.untold(s, i):
			return chosen(tell, uint32(i)), true
		}
	}
	if len(s.queue) > 0 {
		return chosen(deliver, s.queue[0]), true
	}
	for session := range t.sessions {
		if _, can := t.next(s, session); can && t.begun {
			return chosen(invoke, uint32(session)), true
		}
	}
	return 0, false
}

// pass has time pass at one member after the other, and what comes of that happen before the next: members whose times
// end at once, again and again, could keep each other from what each does alone, such as being elected.
func (t *settler) pass(s *state, round int) *Failure {
	if t.scope.Partitioned {
		if _, f := t.do(s, chosen(timeout, 0)); f != nil {
			return f
		}
		return t.exchange(s)
	}
	kind := timeout
	if round%takeoverEach == 0 {
		kind = takeover
	}
	for i := range s.locals {
		if _, f := t.do(s, chosen(kind, uint32(i))); f != nil {
			return f
		}
		if f := t.exchange(s); f != nil {
			return f
		}
	}
	return nil
}

// finish has one operation begin and end.
func (t *settler) finish(s *state, op uint32) *Failure {
	t.steps = append(t.steps, chosen(submit, op))
	if d := t.invoke(s, op); d.fault != nil {
		return &Failure{Class: Broken, Why: d.fault.Error()}
	}
	for round := 1; ; round++ {
		if f := t.exchange(s); f != nil {
			return f
		}
		if s.attempts[op].result >= firstResult {
			return nil
		}
		if round == maxRounds {
			o := &t.operations[op]
			return &Failure{Class: Stuck, Why: fmt.Sprintf("the %s of key %s at member %d does not end, though "+
				"everything arrives", o.request.Kind, o.request.Key, o.member+1)}
		}
		if f := t.pass(s, round); f != nil {
			return f
		}
	}
}
