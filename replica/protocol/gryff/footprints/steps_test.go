package footprints

import (
	"fmt"
	"math/bits"
)

// act is what a step is.
type act uint8

const (
	begins act = iota
	ends       // a phase of which a quorum has answered
	isAnswered
	isHeard // the answer is lost
	isGivenUp
	isForgotten // the footprint of an operation, at a member
	isLost      // a disk
	learnsOfLoss
	isCopied // by who has lost its disk
	makesView
	takesView
	isCopiedByJoiner
)

// choice is a step: of an operation, or -1, and a member.
type choice struct {
	act        act
	op, member int
}

func (c choice) String() string {
	what := []string{
		"begins", "ends a phase", "is answered", "is heard", "is given up", "is forgotten", "loses its disk",
		"learns of the loss", "is copied", "the next view is made", "takes it on", "is copied by who joins",
	}[c.act]
	return fmt.Sprintf("operation %d, member %d: %s", c.op, c.member, what)
}

// choices are the steps that may be next.
func (m *model) choices(s *state) (all []choice) {
	may := func(a act, op, member int) { all = append(all, choice{a, op, member}) }
	for i, o := range m.program {
		st, home := &s.ops[i], &s.members[o.home]
		if st.phase == notBegun && home.votes && m.inView(home.epoch, o.home) && m.due(s, i) {
			may(begins, i, o.home)
		}
		if st.phase == notBegun || st.phase == over || st.gone {
			continue
		}
		full := m.quorum(home.epoch, m.counted(s, i))
		if full {
			may(ends, i, o.home)
		}
		more := !full || m.rules.older && st.phase == asking && o.kind == read
		for member := range maxMembers {
			if !m.hears(s, o.home, member) || st.answers.has(member) && (!st.dead || member != int(s.lost)) {
				continue
			}
			if more {
				may(isAnswered, i, member)
			}
			if int(s.unanswered) < m.faults.unanswered {
				may(isHeard, i, member)
			}
		}
		if int(s.unknown) < m.faults.unknown && !st.returned && !st.unknown {
			may(isGivenUp, i, o.home)
		}
	}
	if m.rules.forgotten || m.rules.lostInCrash {
		for member := range maxMembers {
			for j := range m.program {
				if s.members[member].footprints[j].round > 0 && (m.rules.lostInCrash || s.ops[j].returned) {
					may(isForgotten, j, member)
				}
			}
		}
	}
	m.losses(s, may)
	m.changes(s, may)
	return all
}

// do is a step. It is false if the operation has had too many rounds for the model.
func (m *model) do(s *state, c choice) bool {
	switch c.act {
	case begins:
		m.begin(s, c.op)
	case ends:
		return m.end(s, c.op)
	case isAnswered:
		m.answer(s, c.op, c.member)
	case isHeard:
		m.hear(s, c.op, c.member)
		s.unanswered++
	case isGivenUp:
		s.ops[c.op].unknown = true
		s.unknown++
	case isForgotten:
		s.members[c.member].footprints[c.op] = footprint{}
	default:
		m.befall(s, c)
	}
	return true
}

// due reports whether an operation is its session's next one.
func (m *model) due(s *state, op int) bool {
	for i := range op {
		if m.program[i].session == m.program[op].session && !s.ops[i].returned && !s.ops[i].unknown {
			return false
		}
	}
	return true
}

func (m *model) hears(s *state, from, to int) bool {
	a, b := &s.members[from], &s.members[to]
	return b.votes && m.inView(b.epoch, to) && (a.epoch == b.epoch || m.rules.oldEpochs)
}

func (m *model) begin(s *state, op int) {
	o, st := m.program[op], &s.ops[op]
	for i, other := range m.program {
		if s.ops[i].returned && i < op && other.session == o.session {
			st.before.add(i)
		}
		if s.ops[i].returned && other.kind != read {
			st.writes.add(i)
		}
	}
	st.carried[0] = s.pasts[o.session]
	st.phase = asking
	switch {
	case o.kind == rmw && !st.carried[0].none():
		st.phase = backing
	case o.kind != rmw: // what is read or written is at least as new
		s.apply(o.home, o.key, st.carried[0][o.key])
		st.carried[0][o.key] = 0
	}
	m.ask(s, op)
}

// ask begins a phase, at the coordinator itself.
func (m *model) ask(s *state, op int) {
	st := &s.ops[op]
	st.answers, st.newest, st.dead, st.told = 0, 0, false, false
	st.had, st.met = [maxMembers]stamp{}, depends{}
	if st.phase == asking {
		st.noNotes()
	}
	m.answer(s, op, m.program[op].home)
}

// repeat begins a phase with something to carry.
func (m *model) repeat(s *state, op int, carries depends, in phase) bool {
	st := &s.ops[op]
	if int(st.round)+1 == maxRounds {
		return false
	}
	st.round++
	st.carried[st.round], st.phase = carries, in
	m.ask(s, op)
	return true
}

// past is what an operation's session depends on; of one that its client has given up nobody asks.
func (m *model) past(s *state, op int) *depends {
	if s.ops[op].unknown {
		return &depends{}
	}
	return &s.pasts[m.program[op].session]
}

// end ends a phase.
func (m *model) end(s *state, op int) bool {
	o, st := m.program[op], &s.ops[op]
	if st.phase != spreading { // what was carried is held
		st.owned.merge(st.carried[st.round])
		past := m.past(s, op)
		*past = past.without(st.owned)
	}
	met := st.met.without(st.owned)
	switch st.phase {
	case backing:
		if !met.none() && !m.rules.rmwsBegin {
			return m.repeat(s, op, met, backing)
		}
		return m.repeat(s, op, depends{}, asking)
	case asking:
		if met.none() || o.kind == read && m.rules.readsGoOn || o.kind == write && m.rules.noneOfWrites {
			m.finish(s, op)
			return true
		}
		if o.kind == write && m.rules.writesMendFirst {
			st.wrote = newStamp(st.chosen.timestamp()+1, op)
			return m.repeat(s, op, met, mending)
		}
		if o.kind == read {
			s.apply(o.home, o.key, met[o.key])
			met[o.key] = 0
		}
		return m.repeat(s, op, met, asking)
	case spreading:
		returns := o.kind == write && m.rules.writesReturn || o.kind == rmw && m.rules.rmwsReturn
		if !met.none() && !returns && !st.returned {
			return m.repeat(s, op, met, mending)
		}
	case mending:
		if !met.none() && !m.rules.mendOnce {
			return m.repeat(s, op, met, mending)
		}
		if st.chosen != st.wrote { // before the second phase
			st.chosen, st.phase = st.wrote, spreading
			m.ask(s, op)
			return true
		}
	}
	if !st.unknown {
		st.returned = true
		s.pasts[o.session][o.key] = 0
	}
	st.forget()
	return true
}

// forget leaves of an operation what clients and footprints know.
func (st *operationState) forget() {
	*st = operationState{
		phase: over, carried: st.carried, unknown: st.unknown, returned: st.returned, read: st.read, wrote: st.wrote,
		before: st.before, writes: st.writes,
	}
}

// finish ends the first phase.
func (m *model) finish(s *state, op int) {
	o, st := m.program[op], &s.ops[op]
	switch o.kind {
	case write:
		st.wrote = newStamp(st.chosen.timestamp()+1, op)
	case rmw:
		st.read, st.wrote = st.chosen, st.chosen+1
	case read:
		m.returnRead(s, op)
		return
	}
	st.chosen, st.phase = st.wrote, spreading
	m.ask(s, op)
}

// returnRead has a read return, and its session depend on what it has read, unless a quorum has it, and on what
// footprints name that saw less.
func (m *model) returnRead(s *state, op int) {
	o, st := m.program[op], &s.ops[op]
	epoch, answers := s.members[o.home].epoch, m.counted(s, op)
	s.apply(o.home, o.key, st.chosen)
	holders := st.newest
	holders.add(o.home)
	v := st.chosen
	if m.rules.older && !m.quorum(epoch, holders&answers) {
		v, holders = m.oldest(s, op, holders)
	}
	st.read, st.returned = v, !st.unknown
	past := m.past(s, op)
	past[o.key] = 0
	if v != 0 && !m.quorum(epoch, holders&answers) {
		past[o.key] = v
	}
	if !m.rules.notOfOwn {
		m.note(s, op, o.home)
	}
	var inherited depends
	for j := range m.program {
		for r, saw := range st.noted[j] {
			if saw < v {
				inherited.merge(s.ops[j].carried[r])
			}
		}
	}
	if !m.rules.readsInheritNone {
		past.merge(inherited.without(st.owned))
	}
	st.forget()
}

// oldest is the oldest version than which a quorum of the answers has nothing newer, and who holds it, as the product
// has it.
func (m *model) oldest(s *state, op int, newest set) (v stamp, holders set) {
	o, st := m.program[op], &s.ops[op]
	answers := m.counted(s, op)
	v, holders = st.chosen, newest
	for i, had := range st.had {
		var older, hold set
		for j := range st.had {
			if answers.has(j) && st.had[j] <= had {
				older.add(j)
			}
			if answers.has(j) && st.had[j] >= had || j == o.home {
				hold.add(j)
			}
		}
		if answers.has(i) && had <= v && had >= st.had[o.home] && m.quorum(s.members[o.home].epoch, older) {
			v, holders = had, hold
		}
	}
	return v, holders
}

// losses are the steps of a disk that is lost, and joins again: so many others as survive f losses know of that first,
// and have it copy what they have.
func (m *model) losses(s *state, may func(act, int, int)) {
	if m.faults.losses == 0 {
		return
	}
	if s.lost < 0 {
		for member := range m.members {
			if s.members[member].values != [keys]stamp{} { // else nothing is lost with it
				may(isLost, -1, member)
			}
		}
		return
	}
	lost, enough := &s.members[s.lost], m.members/2+1
	adopted := -1 // it knows itself
	for i := range s.members {
		if s.members[i].told {
			adopted++
		}
	}
	for i := range s.members {
		switch o := &s.members[i]; {
		case lost.votes || i == int(s.lost) || !o.votes || o.epoch != lost.epoch:
		case !o.told && adopted < enough:
			may(learnsOfLoss, -1, i)
		case o.told && adopted == enough && !lost.copied.has(i):
			may(isCopied, -1, i)
		}
	}
}

// changes are the steps of a change of members: a joint view, in which the sixth copies what a majority has, and the
// one after it.
func (m *model) changes(s *state, may func(act, int, int)) {
	if m.faults.changes == 0 {
		return
	}
	var old, ready set
	for i, o := range s.members {
		if o.epoch == 1 && o.votes && oldView.has(i) {
			old.add(i)
		}
		if o.epoch == 1 && newView.has(i) && (i != joiner || majority(o.copied)) {
			ready.add(i)
		}
	}
	if s.epoch == 0 || s.epoch == 1 && majority(old) && majority(ready) && ready.has(joiner) {
		may(makesView, -1, -1)
	}
	joins := &s.members[joiner]
	for i := range s.members {
		if s.members[i].epoch < s.epoch {
			may(takesView, -1, i)
		}
		if s.epoch == 1 && joins.epoch == 1 && old.has(i) && !joins.copied.has(i) && !majority(joins.copied) {
			may(isCopiedByJoiner, -1, i)
		}
	}
}

func majority(of set) bool { return bits.OnesCount16(uint16(of)) >= 3 }

// befall is a step of what befalls members.
func (m *model) befall(s *state, c choice) {
	switch c.act {
	case isLost:
		s.lost = int8(c.member)
		s.members[c.member] = memberState{epoch: s.members[c.member].epoch, told: true}
		for i, o := range m.program {
			st := &s.ops[i]
			if st.phase == notBegun || st.phase == over {
				continue
			}
			st.dead = st.answers.has(c.member)
			if o.home == c.member {
				st.gone, st.unknown = true, st.unknown || !st.returned
			}
		}
	case learnsOfLoss:
		s.members[c.member].told = true
	case isCopied:
		m.copy(s, int(s.lost), c.member)
		lost := &s.members[s.lost]
		lost.votes = bits.OnesCount16(uint16(lost.copied)) == m.members/2+1
	case makesView:
		s.epoch++
	case takesView:
		s.members[c.member].epoch = s.epoch
		s.members[c.member].votes = s.members[c.member].votes || c.member == joiner
		for i, o := range m.program {
			if st := &s.ops[i]; o.home == c.member && st.phase != notBegun && st.phase != over && !st.gone {
				m.ask(s, i) // again, in this view
			}
		}
	case isCopiedByJoiner:
		m.copy(s, joiner, c.member)
	}
}

func (m *model) copy(s *state, to, from int) {
	for key, v := range s.members[from].values {
		s.apply(to, key, v)
	}
	for j, f := range s.members[from].footprints {
		switch own := &s.members[to].footprints[j]; {
		case m.rules.notCopied || f.round < own.round:
		case f.round > own.round:
			*own = f
		default:
			own.saw = min(own.saw, f.saw)
		}
	}
	s.members[to].copied.add(from)
}
