package abd

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// operation is a read or a write that this member coordinates.
type operation struct {
	base.Operation
	own      register.Versioned // what this member held when it asked; an answer may say "the same"
	answered quorum.Tally       // the query
	second   bool               // in the second phase
	// chosen is the largest tag so far and, of a read, its value: in the second phase, what is propagated. The two
	// stay together: the register may hold another value by the time that a message is retransmitted.
	chosen  register.Versioned
	holders quorum.Tally // of the chosen tag or a larger one
}

func (o *operation) writes() bool { return o.Kind() == register.Write }

// query begins the first phase. The coordinator's own register is the first answer. Answers are counted by disk
// (Incarnations): those of a disk that is lost are void. AskQuorum picks the nearest members that complete a quorum.
func (p *Protocol) query(o *operation) {
	o.own = p.Load(o.Key)
	o.chosen = o.own
	o.answered.Answer(p.Incarnations, p.Config.Self)
	o.holders.Answer(p.Incarnations, p.Config.Self)
	if p.majority(&o.answered) { // it is alone
		p.propagate(o)
		return
	}
	o.Trips++
	p.ask(o, p.AskQuorum(&o.answered))
}

// onReply counts an answer to the question of the present phase, which a majority ends.
func (p *Protocol) onReply(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil || m.Kind != o.asks()+1 {
		p.Took(base.PathStale)
		return
	}
	o.waits().Answer(p.Incarnations, from)
	if !o.second {
		p.compare(o, from, m)
	}
	switch done := p.majority(o.waits()); {
	case done && o.second:
		p.finish(o)
	case done:
		p.propagate(o)
	}
}

// compare keeps the larger of two tags, the one in an answer to the query and the largest so far, a read's with its
// value.
func (p *Protocol) compare(o *operation, from view.MemberID, m *peerv1.Message) {
	answer := wire.Of(m)
	if m.Same {
		answer = o.own
	}
	switch answer.Carstamp.Compare(o.chosen.Carstamp) {
	case +1:
		o.chosen = answer
		o.holders.Restart()
		o.holders.Answer(p.Incarnations, from)
	case 0:
		o.holders.Answer(p.Incarnations, from)
	}
}

// propagate begins the second phase: of a write under a new tag, and of a read with the largest that was found, unless
// a majority holds that already.
func (p *Protocol) propagate(o *operation) {
	o.second = true
	switch {
	case o.writes():
		tag := p.newTag(o)
		if tag.Check() != nil {
			p.operations.End(o)
			p.Complete(o.Request.Handle, register.Result{
				Status: register.Unavailable, RoundTrips: o.Trips, Message: register.Exhausted,
			})
			return
		}
		o.chosen = register.Versioned{Carstamp: tag, Value: o.Request.Operation.Value}
		o.holders.Restart()
	case p.majority(&o.holders):
		p.Took(pathReadFast)
		p.finish(o)
		return
	}
	p.update(o)
}

// newTag is larger than any tag that the query saw, and than any that this process issued for the key: issuing one
// applies it here at once, and the register never goes back. So the register is read now, not when the operation began.
// The writer's boot keeps apart what another process issued and lost.
func (p *Protocol) newTag(o *operation) register.Carstamp {
	seen := o.chosen.Carstamp.Timestamp
	if own := p.Load(o.Key).Carstamp.Timestamp; own > seen {
		p.Took(pathWriteOvertaken)
		seen = own
	}
	return register.Carstamp{Timestamp: seen + 1, Writer: p.Writer()}
}

// update propagates what was chosen to those who are not known to hold it. The coordinator applies it, and so is one of
// the holders; a read's others have said so in the first phase.
func (p *Protocol) update(o *operation) {
	p.Apply(o.Key, o.chosen)
	o.holders.Answer(p.Incarnations, p.Config.Self)
	path, done := pathReadWriteBack, p.majority(&o.holders)
	if done {
		path = pathReadAdopted
	}
	if !o.writes() {
		p.Took(path)
	}
	if done {
		p.finish(o)
		return
	}
	o.Trips++
	p.ask(o, slices.DeleteFunc(slices.Clone(p.AskQuorum(&o.holders)), func(id view.MemberID) bool {
		return o.holders.Answered(p.Incarnations, id)
	}))
}

// majority reports whether a majority of disks that still exist has answered.
func (p *Protocol) majority(t *quorum.Tally) bool {
	return t.Quorum(p.Incarnations, 0)
}

// waits is who has answered the present phase's question: in the second one, who holds the tag.
func (o *operation) waits() *quorum.Tally {
	if o.second {
		return &o.holders
	}
	return &o.answered
}

// asks is the kind of message that the operation's present phase sends; the next kind answers it.
func (o *operation) asks() peerv1.Kind {
	switch {
	case o.writes() && o.second:
		return peerv1.Kind_WRITE2
	case o.writes():
		return peerv1.Kind_WRITE1
	case o.second:
		return peerv1.Kind_READ2
	}
	return peerv1.Kind_READ1
}

// ask sends the present phase's message.
func (p *Protocol) ask(o *operation, members []view.MemberID) {
	m := p.Message(o.asks(), o.Number, o.Key)
	switch {
	case o.second:
		wire.Put(m, o.chosen)
	case !o.writes():
		wire.Put(m, register.Versioned{Carstamp: o.own.Carstamp})
	}
	p.SendAll(members, m)
}

// retransmit asks those who have not answered, if it is time. It is the same message: a write keeps its tag.
func (p *Protocol) retransmit(o *operation) {
	missing := p.Unanswered(o.waits())
	if len(missing) == 0 {
		return
	}
	path := pathRetryFirst
	if o.second {
		path = pathRetrySecond
	}
	p.Took(path)
	p.ask(o, missing)
}

// finish completes an operation that a majority holds. The coordinator is one of the holders, so it must not
// tell before its own record is durable.
func (p *Protocol) finish(o *operation) {
	r := register.Result{Status: register.OK, Carstamp: o.chosen.Carstamp, RoundTrips: o.Trips}
	if o.writes() {
		p.Took(pathWrite)
	} else {
		r.Value = o.chosen.Value
		r.Fast = o.Trips <= 1
	}
	p.operations.End(o)
	p.CompleteWhen(p.Durable(o.Key), o.Request.Handle, r)
}

// expire gives up an operation. A write in its second phase has left its tag somewhere, and a later read may propagate
// it.
func (p *Protocol) expire(o *operation) {
	p.operations.End(o)
	p.GiveUp(&o.Request, o.writes() && o.second, o.Trips, p.NoQuorum())
}
