package abd

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// operation is a read or a write that this member coordinates.
type operation struct {
	request protocol.Request
	number  uint64
	key     []byte
	own     register.Versioned // what this member held when it asked; an answer may say "the same"
	done    bool

	answered quorum.Tally // who answered the first phase
	second   bool         // in the second phase
	// chosen is the largest tag so far and its value: in the second phase, what is propagated. The two
	// stay together: the register may hold another value by the time that a message is sent again.
	chosen  register.Versioned
	holders quorum.Tally // who holds the chosen tag or a larger one

	trips      int // round trips that the answer waits for
	duplicates int // counted only by a mistake
}

func (o *operation) writes() bool { return o.request.Operation.Kind == register.Write }

// collect begins the first phase. The coordinator's own register is the first answer.
func (p *Protocol) collect(o *operation) {
	o.own = p.read(o.key)
	o.chosen = o.own
	o.answered.Answer(p.counted, p.config.Self)
	o.holders.Answer(p.counted, p.config.Self)
	if p.majority(o, &o.answered) {
		p.propagate(o)
		return
	}
	o.trips++
	p.ask(o, o.answered.AskQuorum(&p.config, p.counted, p.now))
}

// collected counts an answer of the first phase, and keeps the largest tag with its value.
func (p *Protocol) collected(from view.MemberID, m *peerv1.Message) {
	o := p.running[m.Op]
	if o == nil || o.second || m.Kind != o.asks()+1 {
		p.config.Took(pathStale)
		return
	}
	if !o.answered.Answer(p.counted, from) && p.mistakes.CountTwice {
		o.duplicates++
	}
	answer := register.Versioned{Carstamp: tagOf(m), Value: valueOf(m)}
	if m.Same {
		answer = o.own
	}
	switch answer.Carstamp.Compare(o.chosen.Carstamp) {
	case +1:
		o.chosen = answer
		o.holders.Restart()
		o.holders.Answer(p.counted, from)
	case 0:
		o.holders.Answer(p.counted, from)
	}
	if p.majority(o, &o.answered) {
		p.propagate(o)
	}
}

// propagate begins the second phase. The coordinator applies what it propagates, and so is its first holder;
// a read's other holders have said so in the first phase.
func (p *Protocol) propagate(o *operation) {
	o.second = true
	o.duplicates = 0
	if o.writes() {
		tag := p.newTag(o)
		if tag.Check() != nil {
			p.fail(o, register.Unavailable, register.Exhausted)
			return
		}
		o.chosen = register.Versioned{Carstamp: tag, Value: o.request.Operation.Value}
		o.holders.Restart()
	} else if p.majority(o, &o.holders) || p.mistakes.SkipWriteBack {
		p.config.Took(pathReadFast)
		p.finish(o)
		return
	}
	p.spread(o)
}

// spread sends the second phase to those who are not known to hold what is propagated.
func (p *Protocol) spread(o *operation) {
	p.apply(o.key, o.chosen)
	o.holders.Answer(p.counted, p.config.Self)
	if p.majority(o, &o.holders) {
		if !o.writes() {
			p.config.Took(pathReadAdopted)
		}
		p.finish(o)
		return
	}
	if !o.writes() {
		p.config.Took(pathReadWriteBack)
	}
	o.trips++
	var missing []view.MemberID
	for _, id := range o.holders.AskQuorum(&p.config, p.counted, p.now) {
		if !o.holders.Answered(p.counted, id) {
			missing = append(missing, id)
		}
	}
	p.ask(o, missing)
}

// newTag is larger than any tag that the first phase saw, and than any that this process issued for the key:
// issuing one applies it here at once, and the register never goes back. So the register is read now, not
// when the operation began. The writer's boot keeps apart what another process issued and lost.
func (p *Protocol) newTag(o *operation) register.Carstamp {
	seen := o.chosen.Carstamp.Timestamp
	if own := p.read(o.key).Carstamp.Timestamp; own > seen && !p.mistakes.ShareTags {
		p.config.Took(pathWriteOvertaken)
		seen = own
	}
	writer := register.NewWriter(uint32(p.config.Self), uint32(p.incarnations.Of(p.config.Self)), p.config.Boot)
	if p.mistakes.TagWithoutBoot {
		writer = register.NewWriter(uint32(p.config.Self), 0, 0)
	}
	return register.Carstamp{Timestamp: seen + 1, Writer: writer}
}

// held counts an acknowledgement of the second phase.
func (p *Protocol) held(from view.MemberID, m *peerv1.Message) {
	o := p.running[m.Op]
	if o == nil || !o.second || m.Kind != o.asks()+1 {
		p.config.Took(pathStale)
		return
	}
	if !o.holders.Answer(p.counted, from) && p.mistakes.CountTwice {
		o.duplicates++
	}
	if p.majority(o, &o.holders) {
		p.finish(o)
	}
}

// again asks those who have not answered, if it is time. A message that is sent again is the same message:
// a write keeps its tag.
func (p *Protocol) again(o *operation) {
	waits, path := &o.answered, pathRetryFirst
	if o.second {
		waits, path = &o.holders, pathRetrySecond
	}
	missing := waits.Again(&p.config, p.counted, p.now)
	if len(missing) == 0 {
		return
	}
	p.config.Took(path)
	if o.second && o.writes() && p.mistakes.RetryWithNewTag {
		o.chosen.Carstamp = p.newTag(o)
		p.apply(o.key, o.chosen)
	}
	p.ask(o, missing)
}

// asks is the kind of message that the operation's present phase sends.
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
	m := p.Message(o.asks(), o.number, o.key)
	switch {
	case o.second:
		setTag(m, o.chosen.Carstamp)
		setValue(m, o.chosen.Value)
		if p.mistakes.RereadValue {
			setValue(m, p.read(o.key).Value)
		}
	case !o.writes():
		setTag(m, o.own.Carstamp)
	}
	p.SendAll(members, m)
}

// majority reports whether a majority of disks that still exist has answered.
func (p *Protocol) majority(o *operation, f *quorum.Tally) bool {
	return f.Quorum(p.counted, 0) || o.duplicates > 0 && f.Count(p.counted)+o.duplicates >= p.config.View.Majority()
}

// finish completes an operation that a majority holds. The coordinator is one of the holders, so it must not
// tell before its own record is durable.
func (p *Protocol) finish(o *operation) {
	r := register.Result{Status: register.OK, Carstamp: o.chosen.Carstamp, RoundTrips: o.trips}
	if o.writes() {
		p.config.Took(pathWrite)
	} else {
		r.Value = o.chosen.Value
		r.Fast = o.trips <= 1
		if p.mistakes.RereadValue {
			r.Value = p.read(o.key).Value
		}
	}
	p.forget(o)
	if p.journal.Durable(p.recordKey(o.key)) || p.mistakes.CompleteBeforePersist {
		p.Complete(o.request.Handle, r)
	} else {
		p.CompleteDurably(o.request.Handle, r)
	}
}

// expire gives up an operation. A write in its second phase has left its tag somewhere, and a later read may
// spread it.
func (p *Protocol) expire(o *operation) {
	need := fmt.Sprintf("fewer than %d of %d members answered in time", p.config.View.Majority(), p.config.View.Size())
	if p.config.View.Joint() {
		need = "members are changing, and no majority of those before the change and of those after it answered in time"
	}
	if o.writes() && o.second {
		p.config.Took(pathUnknown)
		p.fail(o, register.Unknown, need+"; the write may take effect yet, read the key to find out")
		return
	}
	p.config.Took(pathUnavailable)
	p.fail(o, register.Unavailable, need+"; the "+o.request.Operation.Kind.String()+" did not take effect, try again")
}

func (p *Protocol) fail(o *operation, s register.Status, message string) {
	p.forget(o)
	p.Complete(o.request.Handle, register.Result{Status: s, Message: message, RoundTrips: o.trips})
}

func (p *Protocol) forget(o *operation) {
	o.done = true
	delete(p.running, o.number)
}
