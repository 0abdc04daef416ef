package gryff

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// carriedBytes bounds the values that a read proxy sends along with Read1. A larger value costs a read that
// meets an older replica its second round trip, instead of costing every read the bandwidth. The tuning may have another
// bound.
const carriedBytes = 64 << 10

func (p *Protocol) carried() int { return cmp.Or(p.Config.Tuning.Carried, carriedBytes) }

// operation is a read or write that this member coordinates. Itself it counts as the first member of each
// quorum: what it holds is durable before it completes anything that rests on it.
type operation struct {
	base.Operation
	asked   quorum.Tally
	holders quorum.Tally       // reads: who is known to hold chosen, or something newer
	second  bool               // in the second phase
	chosen  register.Versioned // read: the largest seen; write: what is written

	after   []*peerv1.Dependency // what it carries
	rests   uint64               // the journal's mark with which that is durable here; 0: it is
	backing bool                 // it has a quorum hold that, and has done nothing else yet
	awaits  bool                 // backing, by reads that do the same for what they found; it has sent nothing

	answers  []answer // to a regular read, in its first phase
	expected int      // how many answers that waits for, if those of a quorum do not tell enough

	answered bool     // a regular read that has been, and writes back what it found
	awaited  []uint64 // the operations that wait for that
}

func (p *Protocol) begin(r protocol.Request) *operation {
	var o *operation
	if n := len(p.idle); n > 0 {
		o, p.idle = p.idle[n-1], p.idle[:n-1]
	} else {
		o = &operation{}
	}
	o.Operation = p.NewOperation(r)
	p.operations.Begin(o)
	p.carry(o)
	return o
}

// recycle sets ended operations aside to be used again. While a step is under way, somebody may still look at
// one that ended in it.
func (p *Protocol) recycle() {
	p.operations.Sweep(func(o *operation) {
		o.asked.Restart()
		o.holders.Restart()
		clear(o.answers) // their values
		*o = operation{asked: o.asked, holders: o.holders, answers: o.answers[:0], awaited: o.awaited[:0]}
		p.idle = append(p.idle, o)
	})
}

func (p *Protocol) end(o *operation, r register.Result) {
	p.operations.End(o)
	p.answer(o, r)
}

func (p *Protocol) answer(o *operation, r register.Result) {
	durable := r.Status != register.OK || p.Durable(o.Key) && p.carriedDurably(o)
	p.CompleteWhen(durable, o.Request.Handle, r)
}

// read is algorithm 7: the coordinator is a proxy, which sends what it holds along and adopts what it gets.
func (p *Protocol) read(r protocol.Request) { p.access(p.begin(r)) }

// write is algorithm 1, lines 11 to 17.
func (p *Protocol) write(r protocol.Request) {
	o := p.begin(r)
	if c, resumed := r.Resume.(register.Carstamp); resumed {
		p.Took(pathWriteResumed) // a quorum has what it carries
		p.update(o, c)
		return
	}
	p.access(o)
}

// access begins the first phase, once what the operation carries of other keys is written back.
func (p *Protocol) access(o *operation) {
	if o.dependsOnOthers() {
		p.writeBack(o)
	} else {
		p.firstPhase(o)
	}
}

// firstPhase asks a quorum what it holds of the key.
func (p *Protocol) firstPhase(o *operation) {
	o.chosen = p.Load(o.Key)
	if p.readsRegularly(o) {
		p.askRegular(o)
	} else {
		p.askQuorum(o)
	}
}

// askQuorum begins to ask what the operation asks now. A view of one member has the answers at once.
func (p *Protocol) askQuorum(o *operation) {
	p.spread(o, p.AskQuorum(&o.asked))
	p.decide(o)
}

// question is that of the present phase. It is made anew each time: a sent message never changes.
func (p *Protocol) question(o *operation) *peerv1.Message {
	kind := o.kind()
	m := p.Message(kind, o.Number, o.Key)
	if kind != peerv1.Kind_WRITE1 {
		wire.Put(m, o.chosen)
		if kind == peerv1.Kind_READ1 && len(m.Value) > p.carried() {
			m.Value, m.Same = nil, true // the carstamp alone
		}
	}
	if o.backing {
		m.Key, m.After = nil, o.after
	}
	return m
}

// spread asks members. READ1 and READ2 carry what this one holds, and that must be durable here: it may be the result of
// an rmw that this member coordinated and executed before the commit is on disk. If a crash loses the commit and the
// result, recovery makes the rmw a no-op, and nobody may have seen the result.
func (p *Protocol) spread(o *operation, to []view.MemberID) {
	kind := o.kind()
	safe := kind == peerv1.Kind_WRITE1 || o.backing || p.Durable(o.Key)
	if kind == peerv1.Kind_WRITE2 { // the write rests on what this member, too, holds of its dependencies
		safe = p.carriedDurably(o)
	}
	p.SendAllWhen(safe, to, p.question(o))
}

func (p *Protocol) onRead1(from view.MemberID, m *peerv1.Message) {
	if !m.Same { // the value came along: algorithm 7, line 15
		p.Apply(m.Key, wire.Of(m))
	}
	p.holds(from, m.Key, wire.Of(m).Carstamp)
	held := p.Load(m.Key)
	reply := p.Message(peerv1.Kind_READ1_REPLY, m.Op, m.Key)
	wire.Put(reply, held)
	if held.Carstamp == wire.Of(m).Carstamp {
		reply.Value, reply.Same = nil, true
	}
	// The reply claims that this replica holds the value, so it must be there after a crash.
	p.SendWhen(p.Durable(m.Key), from, reply)
}

// onReply counts an answer to what the operation asks now.
func (p *Protocol) onReply(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil || m.Kind != o.kind()+1 {
		return
	}
	got := wire.Of(m)
	switch {
	case m.Kind == peerv1.Kind_READ1_REPLY:
		p.onFound(o, from, got, m.Same)
		p.holds(from, o.Key, got.Carstamp)
		return
	case o.second:
		p.holds(from, o.Key, o.chosen.Carstamp)
		if o.answered {
			return // it is one of those for which that counts
		}
	case m.Kind == peerv1.Kind_WRITE1_REPLY && o.chosen.Carstamp.Less(got.Carstamp):
		o.chosen.Carstamp = got.Carstamp
	}
	o.asked.Answer(p.Incarnations, from)
	p.decide(o)
}

// onFound counts what a member has of the key that is read. The value is left out if it is the same as what this one
// had.
func (p *Protocol) onFound(o *operation, from view.MemberID, got register.Versioned, same bool) {
	known := !same
	if same {
		got.Value, known = o.sameValue(got.Carstamp)
	}
	switch later := o.chosen.Carstamp.Less(got.Carstamp); {
	case later && same:
		return // the value of a carstamp that this process never asked about: a stray reply
	case later:
		o.chosen = got
		o.holders.Restart()
		o.holders.Answer(p.Incarnations, from)
		p.Apply(o.Key, got) // algorithm 7, line 5
	case got.Carstamp == o.chosen.Carstamp:
		o.holders.Answer(p.Incarnations, from)
	}
	if known && p.readsRegularly(o) {
		p.found(o, from, got)
	}
	o.asked.Answer(p.Incarnations, from)
	p.decide(o)
}

// decide goes on when a quorum has answered.
func (p *Protocol) decide(o *operation) {
	if !o.asked.Quorum(p.Incarnations, p.Config.Self) {
		return
	}
	switch kind := o.Kind(); {
	case o.backing:
		p.wroteBack(o)
	case o.answered:
		p.spreadEnded(o, true)
	case kind == register.Read && o.second:
		p.end(o, o.result(2, false))
	case kind == register.Read:
		p.decideRead(o)
	case o.second:
		r := o.result(min(2, 2*(p.Config.View.Size()-1)), false)
		r.Value = nil
		p.end(o, r)
	default:
		p.decideWrite(o)
	}
}

// decideRead returns the value when a quorum holds it, and otherwise spreads it to those that lack it
// (algorithm 7, lines 6 to 12). In Gryff-RSC the client has its answer before that, unless
// the value is too large for a session to carry.
func (p *Protocol) decideRead(o *operation) {
	regular := p.readsRegularly(o)
	if regular && !p.settle(o) {
		return
	}
	if o.holders.Quorum(p.Incarnations, p.Config.Self) {
		p.Took(pathReadFast)
		p.end(o, o.result(min(1, p.Config.View.Size()-1), true))
		return
	}
	if regular && len(o.chosen.Value) <= min(p.carried(), register.MaxDependencyBytes) {
		if !p.answerRegular(o) {
			return
		}
	} else {
		p.Took(pathReadWriteBack)
	}
	o.second = true
	missing := slices.DeleteFunc(slices.Clone(p.Config.Nearest), func(id view.MemberID) bool {
		return !o.asked.Answered(p.Incarnations, id) || o.holders.Answered(p.Incarnations, id)
	})
	o.asked.Copy(&o.holders)
	o.asked.Ask(&p.Config, p.Now, 0) // when to ask again
	p.spread(o, missing)
}

func (o *operation) result(roundTrips int, fast bool) register.Result {
	return register.Result{
		Status: register.OK, Value: o.chosen.Value, Carstamp: o.chosen.Carstamp, RoundTrips: o.Trips + roundTrips,
		Fast: fast && o.Trips == 0,
	}
}

func (p *Protocol) onWrite1(from view.MemberID, m *peerv1.Message) {
	reply := p.Message(peerv1.Kind_WRITE1_REPLY, m.Op, nil)
	wire.Put(reply, register.Versioned{Carstamp: p.Load(m.Key).Carstamp})
	// No claim that must hold later: a carstamp that is lost again only makes the write's larger.
	p.Send(from, reply)
}

// decideWrite issues the carstamp (algorithm 1, line 15). It is applied here at once, so that a concurrent
// write of this coordinator issues a larger one: no (timestamp, writer) is issued twice.
func (p *Protocol) decideWrite(o *operation) {
	c := p.newCarstamp(o)
	if c.Check() != nil {
		p.end(o, register.Result{Status: register.Unavailable, Message: register.Exhausted})
		return
	}
	p.update(o, c)
}

// newCarstamp is larger than what a quorum told, and than what this coordinator issued.
func (p *Protocol) newCarstamp(o *operation) register.Carstamp {
	latest := max(o.chosen.Carstamp.Timestamp, p.Load(o.Key).Carstamp.Timestamp)
	return register.Carstamp{Timestamp: latest + 1, Writer: p.me}
}

// update begins a write's second phase, under a carstamp that it keeps.
func (p *Protocol) update(o *operation, c register.Carstamp) {
	o.second = true
	o.chosen = register.Versioned{Carstamp: c, Value: o.Request.Operation.Value}
	p.Apply(o.Key, o.chosen)
	p.Took(pathWrite)
	o.asked.Restart()
	p.askQuorum(o)
}

// onUpdate handles Read2 and Write2 alike (algorithm 2).
func (p *Protocol) onUpdate(from view.MemberID, m *peerv1.Message) {
	if len(m.After) > 0 {
		p.onDependencies(from, m)
		return
	}
	p.Apply(m.Key, wire.Of(m))
	if m.Kind == peerv1.Kind_READ2 {
		p.holds(from, m.Key, wire.Of(m).Carstamp)
	}
	p.SendDurably(from, p.Message(m.Kind+1, m.Op, nil))
}

// expire gives up an operation. A write in its second phase has left its carstamp somewhere.
func (p *Protocol) expire(o *operation) {
	if o.answered {
		p.spreadEnded(o, false)
		return
	}
	p.leave(p.reading, o)
	r := base.Untaken(o.Kind(), 0, p.NoQuorum())
	if o.second && o.Kind() == register.Write {
		r = base.MayTake(register.Write, 0, p.NoQuorum())
	}
	p.end(o, r)
}

// retransmit asks those who have not answered, if it is time.
func (p *Protocol) retransmit(o *operation) {
	if o.awaits {
		return
	}
	if to := p.Unanswered(&o.asked); len(to) > 0 && !p.givesUpWaiting(o) {
		p.Took(pathRegisterRetry)
		p.spread(o, to)
	}
}

func (o *operation) kind() peerv1.Kind {
	switch {
	case o.Kind() == register.Read && o.second, o.backing:
		return peerv1.Kind_READ2
	case o.Kind() == register.Read:
		return peerv1.Kind_READ1
	case o.second:
		return peerv1.Kind_WRITE2
	}
	return peerv1.Kind_WRITE1
}
