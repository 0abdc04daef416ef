package explorer

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/digest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// locals are the local states of all members that were found, what inputs make of them, and what those are about.
// Numbers are given in the order in which things are found, which is the same each time.
type locals struct {
	scope     *Scope
	views     []view.View // that of the beginning, and those that may be recorded
	functions *register.Registry

	digester    *digest.Digester
	states      []local
	numbers     map[digest.State]uint32
	table       map[uint64]uint32 // local state and input to a transition
	transitions []transition
	unchanged   transition        // by a message that changes nothing; only where it leads to differs
	kept        [spendings]bitSet // messages that are not taken to be spent
	never       bitSet            // those of them that are not even where they did something before

	// lingering are the minds of members whose oldest batch must not become durable at once, and since which pass.
	lingering map[digest.State]uint16
	pass      uint16 // the present one

	messages      []message
	messageOf     map[string]uint32
	requests      []request
	results       []register.Result
	resultOf      map[string]uint32
	last          *process // is in local state lastAt; nil: none is kept
	lastAt        uint32
	reconstructed int // processes
}

// local is a local state of a member: what it was before, and the input that led here, if it was not stored.
type local struct {
	member  int
	parent  uint32
	by      choice
	stored  *stored // of a member that is down; nil: it runs
	view    uint32  // that it was told, by its position
	batches int     // that are not durable
	pending int     // operations and other work that are not finished

	mind     digest.State      // of one with batches
	next     []edge            // what the exploration has had happen to it, but for messages that change nothing
	hastened bool              // its batch became durable at once
	same     bitSet            // messages that change nothing
	dropped  [spendings]bitSet // messages that were taken to be spent
	undone   bitSet            // messages that have done nothing before, as far as is known
}

// edge is an input, and the local state that it leads to.
type edge struct {
	by choice
	to uint32
}

// stored is all that is left of a member that is down.
type stored struct {
	boot uint32
	now  protocol.Instant // with masters
	disk []protocol.Mutation
}

// transition is what an input makes of a local state.
type transition struct {
	to    uint32
	sent  []uint32 // messages
	ended []ending
	fault error // the member stops
	taken bool  // in the exploration
}

// nothing says whether it changes nothing.
func (t *transition) nothing(from uint32) bool {
	return t.fault == nil && t.to == from && len(t.sent)+len(t.ended) == 0
}

// answers says whether it changes nothing, and at most has messages sent.
func (t *transition) answers(from uint32) bool {
	return t.fault == nil && t.to == from && len(t.ended) == 0
}

// ending is the end of an operation.
type ending struct{ operation, result uint32 }

// message is one that a member sent to another one. Equal ones are one message.
type message struct {
	from, to int
	wire     []byte
	learns   bool     // of a learner from its master
	answers  []uint32 // what follows from it where it is spent
}

// request is an operation as a member is given it, with what it comes after.
type request struct {
	operation uint32
	request   register.Operation
}

func newLocals(scope *Scope) *locals {
	l := &locals{
		scope: scope, functions: register.NewRegistry(), digester: digest.New(),
		numbers: map[digest.State]uint32{}, table: map[uint64]uint32{},
		messageOf: map[string]uint32{}, lingering: map[digest.State]uint16{}, resultOf: map[string]uint32{},
	}
	l.views, _ = scope.views() // Check has seen to it that there are some
	return l
}

// processes is how many there are: the members, then the witness.
func (l *locals) processes() int { return l.scope.Members + len(l.views[0].Witnesses) }

// witnesses reports whether a process is the witness.
func (l *locals) witnesses(process int) bool { return process >= l.scope.Members }

// empty is the local state of a member that has not started yet.
func (l *locals) empty(member int) uint32 {
	return l.number(&process{known: l, member: member, disk: &disk{}}, 0, 0)
}

// number finds the local state of a process, or makes it one.
func (l *locals) number(p *process, parent uint32, by choice) uint32 {
	d := p.digest()
	if n, known := l.numbers[d]; known {
		return n
	}
	s := local{member: p.member, parent: parent, by: by, view: p.view, batches: len(p.batches)}
	if p.protocol == nil {
		s.stored = &stored{p.boot, p.now, slices.Clone(p.disk.records)}
	} else {
		s.pending = p.protocol.Pending()
	}
	if len(p.batches) > 0 {
		s.mind = p.mind()
	}
	n := uint32(len(l.states))
	l.states = append(l.states, s)
	l.numbers[d] = n
	return n
}

// process returns one in a local state. It is the caller's.
func (l *locals) process(state uint32) *process {
	if p := l.last; p != nil && l.lastAt == state {
		l.last = nil
		return p
	}
	l.reconstructed++
	var inputs []choice
	at := state
	for ; l.states[at].stored == nil; at = l.states[at].parent {
		inputs = append(inputs, l.states[at].by)
	}
	s := l.states[at].stored
	p := &process{
		known: l, member: l.states[at].member, view: l.states[at].view, boot: s.boot, now: s.now,
		disk: &disk{slices.Clone(s.disk)},
	}
	for _, in := range slices.Backward(inputs) {
		p.do(in)
	}
	return p
}

// step is what an input makes of a local state. It is the caller's until the next step.
func (l *locals) step(state uint32, in choice) *transition {
	if in.kind() == deliver && l.states[state].same.has(in.argument()) {
		l.unchanged = transition{to: state}
		return &l.unchanged
	}
	key := uint64(state)<<32 | uint64(in)
	if n, known := l.table[key]; known {
		return &l.transitions[n]
	}
	p := l.process(state)
	p.do(in)
	t := p.step
	if t.fault == nil {
		t.to = l.number(p, state, in)
		l.last, l.lastAt = p, t.to
	}
	if in.kind() == deliver && t.nothing(state) {
		l.states[state].same.set(in.argument())
		l.unchanged = t
		return &l.unchanged
	}
	l.table[key] = uint32(len(l.transitions))
	l.transitions = append(l.transitions, t)
	return &l.transitions[len(l.transitions)-1]
}

func (l *locals) message(from, to int, wire []byte) uint32 {
	key := string(append([]byte{byte(from), byte(to)}, wire...))
	n, known := l.messageOf[key]
	if !known {
		n = uint32(len(l.messages))
		l.messages = append(l.messages, message{from: from, to: to, wire: wire})
		l.messageOf[key] = n
	}
	return n
}

// result numbers a result by all that clients or checkers regard. It is at least firstResult.
func (l *locals) result(r register.Result) uint32 {
	key := fmt.Sprint(r.Status, r.Value.Present(), r.Carstamp, r.Depends, string(r.Value))
	n, known := l.resultOf[key]
	if !known {
		n = firstResult + uint32(len(l.results))
		l.results = append(l.results, r)
		l.resultOf[key] = n
	}
	return n
}
