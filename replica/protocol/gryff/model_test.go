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
	answers set  // of members, in this phase
	dead    bool // the answer of the member that lost its disk was given before
	told    bool // somebody who answered knew of the loss
	newest  set  // asking: who answered with the highest
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
	answers := st.answers
	if st.dead && (st.told || s.members[o.home].told) && !m.rules.deadDisks {
		answers &^= 1 << s.lost
	}
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
			if st.read == 0 || s.quorum(s.members[o.home].epoch, st.newest&answers) {
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

// lose has a member lose its disk, and come back: so many others as survive f losses know of that first, and have it
// copy what they have.
func (m *model) lose(s *modelState, yield func(choice, modelState)) {
	if s.lost < 0 {
		for member := range modelMembers - 1 {
			if m.faults.losses == 0 || s.members[member].values == [modelKeys]stamp{} {
				continue // nothing is lost with it
			}
			n := *s
			n.lost = int8(member)
			n.members[member] = memberState{epoch: s.members[member].epoch, votes: m.rules.unread, told: true}
			for i, o := range m.program {
				st := &n.ops[i]
				st.dead = st.answers.has(member)
				if o.home == member && st.phase != notBegun && st.phase != over {
					st.unknown = st.unknown || !st.returned
					st.forget() // what it has sent is not modelled
				}
			}
			yield(choice{"a disk is lost", -1, member}, n)
		}
		return
	}
	joins := int(s.lost)
	if s.members[joins].votes {
		return
	}
	adopted := 0
	for i := range s.members {
		if i != joins && s.members[i].told {
			adopted++
		}
	}
	for i := range s.members {
		switch o := &s.members[i]; {
		case i == joins || !o.votes || o.epoch != s.members[joins].epoch:
		case !o.told && adopted < 3:
			n := *s
			n.members[i].told = true
			m.recount(&n)
			yield(choice{"knows of the loss", -1, i}, n)
		case o.told && adopted == 3 && !s.members[joins].copied.has(i):
			n := *s
			n.copy(joins, i)
			if bits.OnesCount8(uint8(n.members[joins].copied)) == 3 {
				n.members[joins].votes = true
				n.members[joins].copied = 0
			}
			yield(choice{"is copied by who has lost its disk", -1, i}, n)
		}
	}
}

func (s *modelState) copy(to, from int) {
	for key, v := range s.members[from].values {
		s.apply(to, key, v)
	}
	s.members[to].copied.add(from)
}

// recount looks at all counts again.
func (m *model) recount(s *modelState) {
	for i, o := range m.program {
		if st := &s.ops[i]; st.phase != notBegun && st.phase != over && s.members[o.home].votes {
			m.count(s, i)
		}
	}
}

// change replaces the fifth member by the sixth: a joint view, in which the sixth copies what a majority has, and the
// one after it.
func (m *model) change(s *modelState, yield func(choice, modelState)) {
	if m.faults.changes == 0 {
		return
	}
	const joins = modelMembers - 1
	var old, ready set
	for i, o := range s.members {
		if o.epoch == 1 && o.votes && oldView.has(i) {
			old.add(i)
		}
		if o.epoch == 1 && newView.has(i) && (i != joins || o.copied == 0b111111 || m.rules.unread) {
			ready.add(i)
		}
	}
	enough := func(of set) bool { return bits.OnesCount8(uint8(of)) >= 3 }
	if s.epoch == 0 || s.epoch == 1 && enough(old) && enough(ready) && ready.has(joins) {
		n := *s
		n.epoch++
		yield(choice{"the next view is made", -1, -1}, n)
	}
	for i := range s.members {
		if s.members[i].epoch < s.epoch {
			n := *s
			n.members[i].epoch = s.epoch
			if i == joins {
				n.members[i].votes = true // with the others' quorum beside it
			}
			for op, o := range m.program {
				if p := n.ops[op].phase; o.home == i && p != notBegun && p != over {
					m.ask(&n, op) // again, in this view
				}
			}
			yield(choice{"takes on the view", -1, i}, n)
		}
		c := s.members[joins].copied
		if s.epoch == 1 && s.members[joins].epoch == 1 && old.has(i) && !c.has(i) && c != 0b111111 {
			n := *s
			n.copy(joins, i)
			if enough(n.members[joins].copied) {
				n.members[joins].copied = 0b111111 // all that it needs
			}
			yield(choice{"is copied by who joins", -1, i}, n)
		}
	}
}
