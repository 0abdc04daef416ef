package footprints

import (
	"fmt"
	"math/bits"
	"slices"
)

// The model has members, of which one may join, three keys, and what decides about the order of operations: what
// members hold, and the footprints on it. A read or a write carries what its session depends on beside its question,
// and leaves at each member that answers a footprint on its key: which version was there then, and what it carries.
// Whoever brings a newer version of that key to the member, or finds it there, is told of what the footprint names.

const (
	maxMembers    = 7
	maxOperations = 9
	keys          = 3
	maxRounds     = 4 // of one operation that carry something
	joiner        = 5 // takes the place of member 4, of five
)

// stamp is a carstamp: its timestamp, the operation that wrote, and how many rmws came upon that. 0 is none.
type stamp uint16

func newStamp(timestamp, op int) stamp { return stamp(timestamp<<8 | op<<4) }

func (s stamp) timestamp() int { return int(s >> 8) }

// never is above all stamps.
const never stamp = 1<<16 - 1

// set is one of members, or of operations.
type set uint16

func (s set) has(i int) bool { return s>>i&1 == 1 }

func (s *set) add(i int) { *s |= 1 << i }

// depends is what is depended on: a version of each key, or none.
type depends [keys]stamp

func (d *depends) merge(more depends) {
	for key := range d {
		d[key] = max(d[key], more[key])
	}
}

// without leaves out what is held.
func (d depends) without(held depends) depends {
	for key := range d {
		if d[key] <= held[key] {
			d[key] = 0
		}
	}
	return d
}

func (d depends) none() bool { return d == depends{} }

type kind uint8

const (
	read kind = iota
	write
	rmw // there is one of a key at most: consensus orders several
)

// planned is an operation of a program.
type planned struct {
	session   int
	kind      kind
	key, home int
	under     bool // a write in its second phase when the model begins; its coordinator alone holds what it writes
}

// rules are those of the proposal, by what is left out of it. The zero value is the proposal.
type rules struct {
	noFootprints     bool // as published
	noneOfReads      bool // reads leave none
	noneOfWrites     bool // writes leave none
	readsGoOn        bool // a read does not ask again if what it carries meets a footprint
	readsInheritNone bool // a session does not depend on what footprints on the version that it has read name
	notOfOwn         bool // ... on those at its coordinator, which came after its question
	writesReturn     bool // a write returns though what footprints name that it has met is not held
	rmwsReturn       bool // an rmw does
	rmwsBegin        bool // an rmw begins though what its write-back has met is not held
	writesMendFirst  bool // a write that meets one in its first phase has it held before its second, and asks once
	mendOnce         bool // ... and what that write-back meets is left alone
	forgotten        bool // members forget those of operations that are over: what these carried is held
	lostInCrash      bool // members may forget any
	notCopied        bool // who is on a new disk, or joins, does not copy them
	older            bool // a read may return an older version than the newest that it has found
	oldEpochs        bool // members of different epochs hear each other
	deadDisks        bool // answers of a disk that was lost since still count
}

// faults are how many of them there may be.
type faults struct {
	losses, changes int
	unknown         int // operations that their clients give up
	unanswered      int // questions that are heard, and whose answers are lost
}

type model struct {
	program []planned
	members int
	rules   rules
	faults  faults
}

type phase uint8

const (
	notBegun phase = iota
	backing        // a quorum is to hold what an rmw comes after
	asking
	spreading
	mending // a quorum is to hold what footprints name that the operation has met
	over
)

type operationState struct {
	phase   phase
	round   uint8
	answers set                             // of members, in this phase
	dead    bool                            // the answer of the member that lost its disk was given before
	told    bool                            // somebody who answered knew of the loss
	gone    bool                            // its coordinator has lost its disk
	newest  set                             // who answered with the highest
	had     [maxMembers]stamp               // a read, asking: what who answered had then
	chosen  stamp                           // asking: the highest until now; spreading: what is spread
	carried [maxRounds]depends              // by round
	met     depends                         // in this phase, in footprints
	owned   depends                         // what its own rounds have had a quorum hold
	noted   [maxOperations][maxRounds]stamp // a read: of whose footprints on its key it was told, and what these saw
	// What clients know, until the end:
	unknown, returned bool
	read, wrote       stamp
	before, writes    set // operations that its session knew of, and writes that had returned, when it began
}

// footprint is one of an operation, on its key.
type footprint struct {
	saw   stamp
	round uint8 // 1 for the first one; 0: there is none
}

type memberState struct {
	values     [keys]stamp
	footprints [maxOperations]footprint
	epoch      uint8
	votes      bool
	told       bool // knows of the disk that was lost
	copied     set  // joining: whose state it has
}

// state is all of it, without pointers.
type state struct {
	members             [maxMembers]memberState
	ops                 [maxOperations]operationState
	pasts               [4]depends
	epoch               uint8 // of the newest view: 0, 1 is joint, 2
	lost                int8  // the member whose disk was lost; -1
	unknown, unanswered uint8
}

func (m *model) initial() (s state) {
	s.lost = -1
	for i := range m.members {
		s.members[i].votes = true
	}
	for i, o := range m.program {
		st := &s.ops[i]
		st.noNotes()
		if o.under {
			st.phase, st.wrote = spreading, newStamp(1, i)
			st.chosen = st.wrote
			m.answer(&s, i, o.home)
		}
	}
	return s
}

func (st *operationState) noNotes() {
	for j := range st.noted {
		for r := range st.noted[j] {
			st.noted[j][r] = never
		}
	}
}

func (s *state) apply(member, key int, at stamp) {
	s.members[member].values[key] = max(s.members[member].values[key], at)
}

// These are the members of the views of epochs 0 and 2. That of epoch 1 has both, and a quorum of it is one of each.
const oldView, newView set = 0b011111, 0b101111

func (m *model) quorum(epoch uint8, of set) bool {
	enough := func(side set) bool { return bits.OnesCount16(uint16(of&side)) > m.members/2 }
	if m.faults.changes == 0 {
		return enough(1<<m.members - 1)
	}
	return (epoch == 2 || enough(oldView)) && (epoch == 0 || enough(newView))
}

func (m *model) inView(epoch uint8, member int) bool {
	if m.faults.changes == 0 {
		return member < m.members
	}
	return epoch < 2 && oldView.has(member) || epoch > 0 && newView.has(member)
}

// metAt is what footprints at a member name that saw less than what an operation brings.
func (m *model) metAt(s *state, member, op int, brings depends) (met depends) {
	for j, o := range m.program {
		f := s.members[member].footprints[j]
		if j != op && f.round > 0 && f.saw < brings[o.key] {
			met.merge(s.ops[j].carried[f.round-1])
		}
	}
	return met
}

// hear is a member's part: it applies what a question brings, tells of what that meets, and keeps a footprint.
func (m *model) hear(s *state, op, member int) (met depends) {
	o, st := m.program[op], &s.ops[op]
	brings := st.carried[st.round]
	if st.phase == spreading {
		brings = depends{}
		brings[o.key] = st.chosen
	}
	for key, at := range brings {
		s.apply(member, key, at)
	}
	leaves := o.kind == read && !m.rules.noneOfReads || o.kind == write && !m.rules.noneOfWrites
	if st.phase == asking && !brings.none() && leaves && !m.rules.noFootprints {
		s.members[member].footprints[op] = footprint{s.members[member].values[o.key], st.round + 1}
	}
	return m.metAt(s, member, op, brings)
}

// answer has a member answer.
func (m *model) answer(s *state, op, member int) {
	o, st := m.program[op], &s.ops[op]
	st.answers.add(member)
	st.told = st.told || s.members[member].told
	st.dead = st.dead && int(s.lost) != member
	st.met.merge(m.hear(s, op, member))
	if st.phase != asking {
		return
	}
	v := s.members[member].values[o.key]
	if o.kind == read {
		st.had[member] = v
		m.note(s, op, member)
	}
	if v > st.chosen {
		st.chosen, st.newest = v, 0
	}
	if v == st.chosen {
		st.newest.add(member)
	}
}

// note has a read know of the footprints on its key at a member.
func (m *model) note(s *state, op, member int) {
	for j, o := range m.program {
		if f := s.members[member].footprints[j]; j != op && f.round > 0 && o.key == m.program[op].key {
			at := &s.ops[op].noted[j][f.round-1]
			*at = min(*at, f.saw)
		}
	}
}

// counted are those whose answers count.
func (m *model) counted(s *state, op int) set {
	st := &s.ops[op]
	if st.dead && (st.told || s.members[m.program[op].home].told) && !m.rules.deadDisks {
		return st.answers &^ (1 << s.lost)
	}
	return st.answers
}

// legal reports whether there is an order, as regular sequential consistency wants one, of what clients have seen.
func (m *model) legal(s *state) bool {
	var last [keys]stamp
	var open [keys]bool
	for i, o := range m.program {
		if st := &s.ops[i]; st.returned {
			last[o.key] = max(last[o.key], st.wrote)
		} else if st.wrote != 0 {
			open[o.key] = true
		}
	}
	type at struct {
		placed set
		values [keys]stamp
	}
	failed := map[at]bool{}
	var place func(at) bool
	place = func(now at) bool {
		if failed[now] {
			return false
		}
		done := true
		for key := range now.values {
			done = done && (open[key] || now.values[key] == last[key])
		}
		for i, o := range m.program {
			st := &s.ops[i]
			done = done && (!st.returned || now.placed.has(i))
			pending := !st.returned && st.wrote != 0
			if now.placed.has(i) || !st.returned && !pending || (st.before|m.mustFollow(i, st.writes))&^now.placed != 0 ||
				o.kind != write && now.values[o.key] != st.read {
				continue
			}
			next := now
			next.placed.add(i)
			if o.kind != read {
				next.values[o.key] = st.wrote
			}
			if place(next) {
				return true
			}
		}
		failed[now] = !done
		return done
	}
	return place(at{})
}

// mustFollow are those of some writes that had returned which come before an operation: before a write all of them,
// before a read those of its key.
func (m *model) mustFollow(op int, writes set) (of set) {
	for i, o := range m.program {
		if writes.has(i) && (o.key == m.program[op].key || m.program[op].kind != read) {
			of.add(i)
		}
	}
	return of
}

// describe tells what clients have seen, and on what way.
func (m *model) describe(s *state, path []choice) (words string) {
	for _, c := range path {
		words += fmt.Sprintln(c)
	}
	for i, o := range m.program {
		words += fmt.Sprintf("operation %d of session %d: %s %c at %d: read %x, wrote %x, returned %t\n", i, o.session,
			[]string{"read", "write", "rmw"}[o.kind], 'x'+rune(o.key), o.home, s.ops[i].read, s.ops[i].wrote, s.ops[i].returned)
	}
	return words
}

func without[T any](all []T, from, to int) []T { return slices.Delete(slices.Clone(all), from, to) }
