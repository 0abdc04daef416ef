package gryff_test

import (
	"fmt"
	"math/bits"

	"github.com/georegister/georegister/replica/register"
)

// This is a model of Gryff-RSC that is small enough to be searched to its end: five members and one that may join, two
// keys, a few operations, and nothing but what decides about order. A member's answer and its way back are one step;
// instances of rmws are a first phase that finds the base, and a second one that writes. model_run_test.go searches it.

const (
	modelMembers = 6 // the last is not there at first
	modelOps     = 6
	modelKeys    = 2
)

// stamp is a carstamp: its timestamp, the operation that wrote, and how many rmws came upon that. 0 is none.
type stamp uint16

func newStamp(timestamp, op, rmws int) stamp { return stamp(timestamp<<8 | op<<4 | rmws) }

func (s stamp) timestamp() int { return int(s >> 8) }

// set is one of members, or of operations.
type set uint8

func (s set) has(i int) bool { return s>>i&1 == 1 }

func (s *set) add(i int) { *s |= 1 << i }

// planned is an operation of a program.
type planned struct {
	session   int
	kind      register.Kind
	key, home int
	under     bool // it is in its second phase when the model begins, and its coordinator alone holds what it writes
}

// modelRules are those of the protocol. The zero value is the protocol as built.
type modelRules struct {
	olderThanAll                      bool // reads return what a quorum has something newer than
	askBeside, writeBeside, rmwBeside bool // reads, writes, rmws carry what they depend on beside their first phase
	deadDisks                         bool // answers of a disk that was lost since still count
	unread                            bool // a member on an empty disk votes at once, a newcomer once the change ends
	oldEpochs                         bool // members of different epochs hear each other
}

// modelFaults are how many of them there may be.
type modelFaults struct{ losses, changes, unknown int }

type model struct {
	program []planned
	rules   modelRules
	faults  modelFaults
}

type phase uint8

const (
	notBegun phase = iota
	backing        // a quorum is to hold what the operation depends on
	asking
	spreading // of what it writes, or of what a read that has answered found
	over
)

// depends is what a session depends on.
type depends struct {
	key uint8
	at  stamp
}

type operationState struct {
	phase   phase
	answers set                 // of members, in this phase
	dead    bool                // the answer of the member that lost its disk was given before
	told    bool                // somebody who answered knew of the loss
	newest  set                 // asking: who answered with the highest
	had     [modelMembers]stamp // a read, asking: what who answered had then
	oldest  stamp               // that may be returned
	open    bool                // a quorum has answered a read, which no quorum is known to hold
	after   depends
	chosen  stamp // asking: the highest until now; spreading: what is spread
	// What clients know, until the end:
	unknown        bool // its client has given it up
	returned       bool
	read, wrote    stamp
	before, writes set // operations that its session knew of, and writes that had returned, when it began
}

type memberState struct {
	values [modelKeys]stamp
	epoch  uint8
	votes  bool
	told   bool // knows of the disk that was lost
	copied set  // joining: whose state it has
}

// modelState is all of it, without pointers: states are compared.
type modelState struct {
	members [modelMembers]memberState
	ops     [modelOps]operationState
	pasts   [4]depends
	epoch   uint8 // of the newest view: 0, 1 is joint, 2
	lost    int8  // the member whose disk was lost; -1
	unknown uint8
}

// forget leaves of an operation what clients know.
func (s *operationState) forget() {
	s.phase, s.answers, s.newest, s.dead, s.told, s.after, s.chosen = over, 0, 0, false, false, depends{}, 0
	s.had, s.oldest, s.open = [modelMembers]stamp{}, 0, false
}

func (m *model) initial() (s modelState) {
	s.lost = -1
	for i := range modelMembers - 1 {
		s.members[i].votes = true
	}
	for i, o := range m.program {
		if o.under {
			s.ops[i] = operationState{phase: spreading, chosen: newStamp(1, i, 0), wrote: newStamp(1, i, 0)}
			s.apply(o.home, o.key, s.ops[i].wrote)
			s.ops[i].answers.add(o.home)
		}
	}
	return s
}

func (s *modelState) apply(member, key int, at stamp) {
	s.members[member].values[key] = max(s.members[member].values[key], at)
}

// These are the members of the views of epochs 0 and 2. That of epoch 1 has both, and a quorum of it is one of each.
const oldView, newView set = 0b011111, 0b101111

func (s *modelState) quorum(epoch uint8, of set) bool {
	enough := func(side set) bool { return bits.OnesCount8(uint8(of&side)) >= 3 }
	return (epoch == 2 || enough(oldView)) && (epoch == 0 || enough(newView))
}

func inView(epoch uint8, member int) bool {
	return epoch < 2 && oldView.has(member) || epoch > 0 && newView.has(member)
}

// choice is a step, told by what it does and to whom.
type choice struct {
	what       string
	op, member int
}

func (c choice) String() string {
	return fmt.Sprintf("%s, operation %d, member %d", c.what, c.op, c.member)
}

// next calls yield with each state that may be next.
func (m *model) next(s *modelState, yield func(choice, modelState)) {
	for i, o := range m.program {
		st := &s.ops[i]
		if st.phase == notBegun && s.members[o.home].votes && inView(s.members[o.home].epoch, o.home) && m.due(s, i) {
			n := *s
			m.begin(&n, i)
			yield(choice{"begins", i, o.home}, n)
		}
		if st.phase == notBegun || st.phase == over {
			continue
		}
		for member := range modelMembers {
			if m.hears(s, o.home, member) && !m.waits(s, i) &&
				(!st.answers.has(member) || st.dead && member == int(s.lost)) {
				n := *s
				m.answer(&n, i, member)
				yield(choice{"is answered", i, member}, n)
			}
		}
		if st.open {
			n := *s
			n.ops[i].open = false
			n.ops[i].chosen = n.ops[i].oldest
			m.finish(&n, i)
			yield(choice{"waits for no more answers", i, o.home}, n)
		}
		if int(s.unknown) < m.faults.unknown && !st.returned && !st.unknown {
			n := *s
			n.ops[i].unknown = true
			n.unknown++
			yield(choice{"is given up by its client", i, o.home}, n)
		}
	}
	m.lose(s, yield)
	m.change(s, yield)
}

// waits reports whether a read of the same coordinator is writing back what an operation depends on.
func (m *model) waits(s *modelState, op int) bool {
	st := &s.ops[op]
	for i, o := range m.program {
		r := &s.ops[i]
		if st.phase == backing && r.phase == spreading && o.kind == register.Read && o.home == m.program[op].home &&
			o.key == int(st.after.key) && r.read >= st.after.at {
			return true
		}
	}
	return false
}

// due reports whether an operation is its session's next one.
func (m *model) due(s *modelState, op int) bool {
	for i := range op {
		if m.program[i].session == m.program[op].session && !s.ops[i].returned && !s.ops[i].unknown {
			return false
		}
	}
	return true
}

func (m *model) hears(s *modelState, from, to int) bool {
	a, b := &s.members[from], &s.members[to]
	return b.votes && inView(b.epoch, to) && (a.epoch == b.epoch || m.rules.oldEpochs)
}

func (m *model) begin(s *modelState, op int) {
	o, st := m.program[op], &s.ops[op]
	st.after = s.pasts[o.session]
	for i := range m.program {
		if s.ops[i].returned && i < op && m.program[i].session == o.session {
			st.before.add(i)
		}
		if s.ops[i].returned && m.program[i].kind != register.Read {
			st.writes.add(i)
		}
	}
	beside := o.kind == register.Read && m.rules.askBeside || o.kind == register.Write && m.rules.writeBeside ||
		o.kind == register.RMW && m.rules.rmwBeside
	st.phase = asking
	if st.after.at != 0 {
		s.apply(o.home, int(st.after.key), st.after.at)
		if !beside && (int(st.after.key) != o.key || o.kind == register.RMW) {
			st.phase = backing
		}
	}
	m.ask(s, op)
}

// ask begins a phase, at the coordinator itself.
func (m *model) ask(s *modelState, op int) {
	st := &s.ops[op]
	st.answers, st.newest, st.dead, st.told = 0, 0, false, false
	st.had, st.oldest, st.open = [modelMembers]stamp{}, 0, false
	m.answer(s, op, m.program[op].home)
}

// answer has a member answer.
func (m *model) answer(s *modelState, op, member int) {
	o, st := m.program[op], &s.ops[op]
	st.answers.add(member)
	st.told = st.told || s.members[member].told
	if int(s.lost) == member {
		st.dead = false
	}
	if st.phase == spreading {
		s.apply(member, o.key, st.chosen)
	} else if st.after.at != 0 {
		s.apply(member, int(st.after.key), st.after.at)
	}
	if st.phase == asking && o.kind == register.Read {
		st.had[member] = s.members[member].values[o.key]
	}
	if v := s.members[member].values[o.key]; st.phase == asking && v >= st.chosen {
		if v > st.chosen {
			st.chosen, st.newest = v, 0
		}
		st.newest.add(member)
	}
	m.count(s, op)
}

// count ends the phase once a quorum has answered.
func (m *model) count(s *modelState, op int) {
	o, st := m.program[op], &s.ops[op]
	answers := m.counted(s, op)
	if !s.quorum(s.members[o.home].epoch, answers) {
		return
	}
	past := &s.pasts[o.session]
	if st.unknown {
		past = &depends{}
	}
	switch st.phase {
	case backing:
		m.held(s, op)
	case asking:
		if o.kind == register.Read && !m.settles(s, op, answers) {
			st.open = true
			return
		}
		m.finish(s, op)
	case spreading:
		if o.kind == register.Read {
			if *past == (depends{uint8(o.key), st.read}) {
				*past = depends{}
			}
			st.forget()
			m.spread(s, op)
			return
		}
		if !st.returned && !st.unknown {
			st.returned = true
			if int(past.key) == o.key {
				*past = depends{}
			}
		}
		st.forget()
	}
}

// settles chooses the version that a read returns, and reports whether a quorum holds it: the oldest one than which a
// quorum of the answers has nothing newer, and which is not older than what its coordinator had.
func (m *model) settles(s *modelState, op int, answers set) bool {
	o, st := m.program[op], &s.ops[op]
	epoch := s.members[o.home].epoch
	s.apply(o.home, o.key, st.chosen)
	if m.rules.askBeside {
		return true // as published
	}
	v := st.chosen
	for i, had := range st.had {
		var older, holders set
		for j := range modelMembers {
			if answers.has(j) && st.had[j] <= had {
				older.add(j)
			}
			if answers.has(j) && st.had[j] >= had || j == o.home {
				holders.add(j)
			}
		}
		if answers.has(i) && had <= v && had >= st.had[o.home] && (s.quorum(epoch, older) || m.rules.olderThanAll) {
			v, st.newest = had, holders
		}
	}
	if v != 0 && !s.quorum(epoch, st.newest&answers) {
		st.oldest = v
		return false
	}
	st.chosen = v
	return true
}

// finish ends the first phase.
func (m *model) finish(s *modelState, op int) {
	o, st := m.program[op], &s.ops[op]
	past := &s.pasts[o.session]
	if st.unknown {
		past = &depends{}
	}
	if *past == st.after && (o.key != int(st.after.key) || o.kind == register.RMW) {
		*past = depends{} // it was carried
	}
	st.phase = spreading
	switch o.kind {
	case register.Read:
		st.read = st.chosen
		s.apply(o.home, o.key, st.read)
		st.newest.add(o.home)
		st.returned = !st.unknown
		if st.read == 0 || s.quorum(s.members[o.home].epoch, st.newest&st.answers) {
			st.forget()
			if int(past.key) == o.key {
				*past = depends{}
			}
			return
		}
		*past = depends{uint8(o.key), st.read}
		if m.rules.askBeside {
			st.forget() // whoever comes after it carries it
			return
		}
	case register.Write:
		st.wrote = newStamp(st.chosen.timestamp()+1, op, 0)
		st.chosen = st.wrote
	case register.RMW:
		st.read, st.wrote = st.chosen, st.chosen+1
		st.chosen = st.wrote
	}
	m.ask(s, op)
}

// counted are those whose answers count.
func (m *model) counted(s *modelState, op int) set {
	st := &s.ops[op]
	if st.dead && (st.told || s.members[m.program[op].home].told) && !m.rules.deadDisks {
		return st.answers &^ (1 << s.lost)
	}
	return st.answers
}

// held goes on with an operation whose dependency a quorum holds.
func (m *model) held(s *modelState, op int) {
	st := &s.ops[op]
	if past := &s.pasts[m.program[op].session]; *past == st.after && !st.unknown {
		*past = depends{}
	}
	st.after, st.phase = depends{}, asking
	m.ask(s, op)
}

// spread has those go on that waited for a read of their coordinator to be written back.
func (m *model) spread(s *modelState, read int) {
	for i, o := range m.program {
		st := &s.ops[i]
		if st.phase == backing && o.home == m.program[read].home && int(st.after.key) == m.program[read].key &&
			st.after.at <= s.ops[read].read {
			m.held(s, i)
		}
	}
}
