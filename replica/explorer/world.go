package explorer

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/register"
)

// operation is one of the scope.
type operation struct {
	session int // of all; those before count first, and the last reads' are one each
	number  int // in its session
	member  int
	request register.Operation
}

// world is a scope, and what can happen in it.
type world struct {
	scope *Scope
	*locals
	// operations are those of Scope.Sessions, as states have them, then those before, then the last reads.
	operations []operation
	sessions   [][]uint32 // the operations of each
	before     []uint32
	reads      []uint32
	requestOf  map[string]uint32
	ended      []attempt // of those before
	ordered    bool      // messages have a plain order
	settles    bool      // what happens is not explored, but brings everything to rest
	again      bool      // what happens has been explored
	hastened   []uint32  // the local states whose batches became durable at once in the present step
	dropped    []uint32  // the messages that were taken to be spent in the present step
}

func newWorld(scope *Scope, ordered bool) *world {
	w := &world{scope: scope, locals: newLocals(scope), requestOf: map[string]uint32{}, ordered: ordered}
	session := 0
	add := func(s Session) (all []uint32) {
		rmws := uint64(0)
		for i, op := range s.Operations {
			if op.Kind == register.RMW && op.ID == (register.ID{}) {
				rmws++
				op.ID = register.ID{Session: uint64(session + 1), Number: rmws, FirstIncomplete: 1, IssuedAt: 1}
			}
			all = append(all, uint32(len(w.operations)))
			w.operations = append(w.operations, operation{session, i, s.Member, op})
		}
		session++
		return all
	}
	for _, s := range scope.Sessions {
		w.sessions = append(w.sessions, add(s))
	}
	for _, s := range scope.Before {
		w.before = append(w.before, add(s)...)
	}
	for _, key := range scope.keys() {
		for member := range scope.Members {
			read := register.Operation{Kind: register.Read, Key: key}
			w.reads = append(w.reads, add(Session{Member: member, Operations: []register.Operation{read}})...)
		}
	}
	return w
}

// keys are those of the scope's operations, each once.
func (s *Scope) keys() (all []string) {
	for _, session := range slices.Concat(s.Before, s.Sessions) {
		for _, op := range session.Operations {
			if op.Key != "" && !slices.Contains(all, op.Key) {
				all = append(all, op.Key)
			}
		}
	}
	return all
}

// scoped is how many operations a global state has.
func (w *world) scoped() int { return len(w.operations) - len(w.before) - len(w.reads) }

// request numbers an operation as its member is given it in a state: with what its session depends on.
func (w *world) request(s *state, op uint32) uint32 {
	var past register.Past
	o := w.operations[op]
	key := fmt.Sprint(op)
	if w.scope.Regular && int(op) < w.scoped() {
		for _, earlier := range w.sessions[o.session][:o.number] {
			asked := w.operations[earlier].request
			past.Attach(&asked)
			if r := s.attempts[earlier].result; r >= firstResult {
				past.Learn(&asked, w.results[r-firstResult])
			}
			key += fmt.Sprint(" ", s.attempts[earlier].result)
		}
		past.Attach(&o.request)
	}
	n, known := w.requestOf[key]
	if !known {
		n = uint32(len(w.requests))
		w.requests = append(w.requests, request{op, o.request})
		w.requestOf[key] = n
	}
	return n
}

func (w *world) up(s *state, member int) bool { return w.states[s.locals[member]].stored == nil }

// next is the operation that a session invokes next, if it can.
func (w *world) next(s *state, session int) (op uint32, can bool) {
	for _, op := range w.sessions[session] {
		switch s.attempts[op].result {
		case inProgress:
			return 0, false
		case notInvoked:
			return op, w.up(s, w.operations[op].member)
		}
	}
	return 0, false
}

// option is a choice that a state has, and whether it departs from the plain order.
type option struct {
	choice
	deviates bool
}

// options lists what can happen next, and reports whether any of it is more than a fault or a timeout.
func (w *world) options(s *state, all []option) (_ []option, goesOn bool) {
	faults := &w.scope.Faults
	if w.ordered { // the plain order makes batches durable at once
		for i, l := range s.locals {
			if w.states[l].batches > 0 && s.slow>>i&1 == 0 {
				all = append(all, option{chosen(persist, uint32(i)), false}, option{chosen(slow, uint32(i)), true})
				if s.used.of(usedCrashes) < faults.Crashes {
					all = append(all, option{chosen(crash, uint32(i)), true})
				}
				return all, true
			}
		}
	}
	for session := range w.sessions {
		if _, can := w.next(s, session); can {
			all = append(all, option{chosen(invoke, uint32(session)), false})
		}
	}
	if len(s.queue) > 0 {
		m := s.queue[0]
		all = append(all, option{chosen(deliver, m), false}, option{chosen(hold, m), true})
		all = w.mishaps(s, m, all)
	}
	for i, m := range s.held {
		if i > 0 && s.held[i-1] == m {
			continue
		}
		all = append(all, option{chosen(deliver, m), false})
		if !w.ordered {
			all = w.mishaps(s, m, all)
		}
	}
	for i, l := range s.locals {
		switch {
		case w.states[l].stored != nil:
			all = append(all, option{chosen(start, uint32(i)), false})
		case w.states[l].batches > 0:
			all = append(all, option{chosen(persist, uint32(i)), false})
		}
		if w.untold(s, i) {
			all = append(all, option{chosen(tell, uint32(i)), false})
		}
	}
	goesOn = len(all) > 0
	for i := range s.locals {
		if !w.up(s, i) {
			continue
		}
		if w.scope.Partitioned {
			if s.used.of(usedCrashes) < faults.Crashes {
				all = append(all, option{chosen(crash, uint32(i)), true})
			}
			continue
		}
		for _, k := range []struct {
			kind       uint32
			used, most int
		}{
			{timeout, s.used.of(usedTimeouts), faults.Timeouts},
			{takeover, s.used.of(usedTakeovers), faults.Takeovers},
			{crash, s.used.of(usedCrashes), faults.Crashes},
		} {
			if k.used < k.most {
				all = append(all, option{chosen(k.kind, uint32(i)), true})
			}
		}
	}
	if w.scope.Partitioned {
		if s.used.of(usedTimeouts) < faults.Timeouts {
			all = append(all, option{chosen(timeout, 0), true})
		}
		if int(s.recorded) < faults.Takeovers {
			all = append(all, option{chosen(takeover, 0), true})
		}
	}
	return all, goesOn
}

// untold reports whether a process can be told of the view that is recorded.
func (w *world) untold(s *state, process int) bool {
	return w.up(s, process) && w.states[s.locals[process]].view < s.recorded
}

// mishaps are what can befall a message.
func (w *world) mishaps(s *state, m uint32, all []option) []option {
	if s.used.of(usedLosses) < w.scope.Faults.Losses {
		all = append(all, option{chosen(lose, m), true})
	}
	if s.used.of(usedDuplicates) < w.scope.Faults.Duplicates && w.up(s, w.messages[m].to) {
		all = append(all, option{chosen(duplicate, m), true})
	}
	return all
}

// did is what a choice led to.
type did struct {
	ended bool  // an operation
	idle  bool  // nothing happened, so that it need not be looked at
	fault error // a member stops
}

// do has a choice happen in a state.
func (w *world) do(s *state, c choice) (d did) {
	kind, argument := c.kind(), c.argument()
	switch kind {
	case invoke:
		op, _ := w.next(s, int(argument))
		return w.invoke(s, op)
	case deliver, duplicate, lose, hold:
		return w.message(s, kind, argument)
	case slow:
		s.slow |= 1 << argument
		return did{}
	case timeout:
		s.used = s.used.more(usedTimeouts)
		if w.scope.Partitioned {
			return w.wait(s)
		}
	case takeover:
		s.used = s.used.more(usedTakeovers)
		if w.scope.Partitioned {
			s.recorded++
			return did{}
		}
	case tell:
		return w.input(s, int(argument), chosen(tell, s.recorded))
	case crash:
		s.used = s.used.more(usedCrashes)
		d = w.input(s, int(argument), c)
		for op := range s.attempts {
			if s.attempts[op].result == inProgress && w.operations[op].member == int(argument) {
				s.attempts[op].result = lost
			}
		}
		for i := range s.locals { // it may have been the last crash
			if d.fault == nil && w.hastens(s, i) {
				more := w.input(s, i, chosen(persist, uint32(i)))
				d.ended, d.fault = d.ended || more.ended, more.fault
			}
		}
		return d
	}
	return w.input(s, int(argument), c)
}

// wait has the clocks of all processes move on.
func (w *world) wait(s *state) (d did) {
	d.idle = true
	for i := range s.locals {
		one := w.input(s, i, chosen(timeout, uint32(i)))
		d.ended, d.idle = d.ended || one.ended, d.idle && one.idle
		if d.fault = one.fault; d.fault != nil {
			break
		}
	}
	return d
}

// invoke has an operation begin.
func (w *world) invoke(s *state, op uint32) did {
	n := w.request(s, op)
	s.attempts[op] = attempt{inProgress, s.returned()}
	return w.input(s, w.operations[op].member, chosen(invoke, n))
}

// message has something happen to a message that is under way.
func (w *world) message(s *state, kind, m uint32) did {
	switch at := slices.Index(s.queue, m); {
	case w.ordered && at == 0, w.settles && at > 0: // in a drawing, more may be before it than there was
		s.queue = slices.Delete(s.queue, at, at+1)
	default:
		s.release(m)
	}
	if kind == hold || kind == duplicate {
		s.hold(m)
	}
	switch kind {
	case lose:
		s.used = s.used.more(usedLosses)
		return did{}
	case duplicate:
		s.used = s.used.more(usedDuplicates)
	case hold:
		return did{}
	}
	to := w.messages[m].to
	if !w.up(s, to) {
		return did{} // nobody hears it
	}
	return w.input(s, to, chosen(deliver, m))
}

// input gives a member an input.
func (w *world) input(s *state, member int, in choice) (d did) {
	from := s.locals[member]
	t := w.step(from, in)
	if t.fault != nil {
		return did{fault: fmt.Errorf("member %d stops: %w", member+1, t.fault)}
	}
	d.idle = t.nothing(from)
	if !w.settles && !t.taken && !d.idle {
		t.taken = true
		w.states[from].next = append(w.states[from].next, edge{in, t.to})
	}
	to, sent, ended := t.to, t.sent, t.ended
	s.locals[member] = to
	if w.states[to].batches == 0 {
		s.slow &^= 1 << member
	}
	if to != from && !w.settles {
		spent := func(m uint32) bool { return w.concerns(member, m, 0) && w.spent(s, m, 0) }
		s.queue = slices.DeleteFunc(s.queue, spent)
		s.held = slices.DeleteFunc(s.held, spent)
	}
	for _, m := range sent {
		switch {
		case !w.settles && w.spent(s, m, 0):
		case w.ordered:
			s.queue = append(s.queue, m)
		default:
			s.hold(m)
		}
	}
	for _, e := range ended {
		if a := &s.attempts[e.operation]; a.result == inProgress {
			a.result = e.result
			d.ended = true
		}
	}
	if w.hastens(s, member) {
		more := w.input(s, member, chosen(persist, uint32(member)))
		more.ended = more.ended || d.ended
		more.idle = false
		return more
	}
	return d
}

// drop leaves out the messages that are spent.
func (w *world) drop(s *state) {
	spent := func(m uint32) bool { return w.spent(s, m, 0) }
	s.queue, s.held = slices.DeleteFunc(s.queue, spent), slices.DeleteFunc(s.held, spent)
}
