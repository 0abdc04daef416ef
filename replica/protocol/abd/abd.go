// Package abd is multi-writer ABD, a register that a majority of members keeps (Gryff, section 4.1; the
// paper's references 5 and 43). It is the smallest protocol here, and the one to read first.
//
// Every member stores, per key, a value and its tag: a carstamp without rmws. An operation has two phases,
// and both ask a majority, of which the coordinator is one:
//
//	read   READ1 asks for tags and values      READ2 writes the largest back
//	write  WRITE1 asks for tags                WRITE2 writes the value under a larger tag
//
// Any two majorities meet, so a first phase sees what every finished second phase left. A read needs no
// second phase when a majority holds the largest tag already (Gryff, section 4.2).
//
// docs/protocols.md, section ABD, says what is durable when, and why.
package abd

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/outbox"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of multi-writer ABD. It implements protocol.Protocol.
type Protocol struct {
	*outbox.Outbox
	config       protocol.Config
	journal      *protocol.Journal
	incarnations *quorum.Incarnations
	counted      *quorum.Incarnations // whose answers count: the incarnations, unless a mistake is put back
	mistakes     Mistakes

	now     protocol.Instant
	running map[uint64]*operation // by number
	order   []*operation          // as submitted, finished ones among them until the next Tick
	scratch []byte                // for the keys of records

	keys slab.Bytes
}

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
	return New(config, journal, incarnations, Mistakes{})
}

// FactoryWith is Factory with mistakes put back, for tests.
func FactoryWith(m Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
		return New(config, journal, incarnations, m)
	}
}

// New returns a member's part, with the registers that its journal holds.
func New(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations, m Mistakes) *Protocol {
	first := quorum.FirstOp(&config, incarnations)
	if m.NumberWithoutBoot {
		first = 0
	}
	p := &Protocol{
		Outbox:       outbox.New("abd", first, journal),
		config:       config,
		journal:      journal,
		incarnations: incarnations,
		counted:      incarnations,
		mistakes:     m,
		running:      map[uint64]*operation{},
	}
	if m.CountDeadDisks {
		p.counted = quorum.FirstDisks(config.View)
	}
	return p
}

// Submit starts a read or a write; an rmw is Unsupported.
func (p *Protocol) Submit(r protocol.Request) {
	o := &operation{request: r, number: p.Op(), key: p.keys.Make(len(r.Operation.Key))}
	copy(o.key, r.Operation.Key)
	switch r.Operation.Kind {
	case register.Read, register.Write:
		p.running[o.number] = o
		p.order = append(p.order, o)
		if tag, resumed := r.Resume.(register.Carstamp); resumed && o.writes() && !p.mistakes.ResumeWithNewTag {
			p.resume(o, tag)
		} else {
			p.collect(o)
		}
	default:
		p.config.Took(pathUnsupported)
		p.fail(o, register.Unsupported, refusal)
	}
}

// refusal is what the table of protocols (replica/capability) says too; a test holds them together.
const refusal = "protocol ABD has no read-modify-write operations: it stores plain registers, which can't agree " +
	"on one; use protocol Gryff"

// Receive serves a phase of another coordinator, or counts an answer to a phase of this one.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m == nil || from == p.config.Self || p.config.View.Index(from) < 0 {
		return
	}
	switch m.Kind {
	case peerv1.Kind_READ1, peerv1.Kind_WRITE1:
		p.answer(from, m)
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		p.acknowledge(from, m)
	case peerv1.Kind_READ1_REPLY, peerv1.Kind_WRITE1_REPLY:
		p.collected(from, m)
	case peerv1.Kind_READ2_REPLY, peerv1.Kind_WRITE2_REPLY:
		p.held(from, m)
	}
}

// Tick gives up operations whose deadline has passed, and asks again for those that wait.
func (p *Protocol) Tick(now protocol.Instant) {
	p.now = now
	p.order = slices.DeleteFunc(p.order, func(o *operation) bool { return o.done })
	for _, o := range p.order {
		if d := o.request.Deadline; d != 0 && now >= d {
			p.expire(o)
		} else {
			p.again(o)
		}
	}
}

// Pace implements member.Inner.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
}

// Pending is how many operations wait for answers.
func (p *Protocol) Pending() int { return len(p.running) }

// Ready hands over what the steps since the last one ask for.
func (p *Protocol) Ready() protocol.Effects {
	if err := p.Err(); err != nil {
		return protocol.Effects{Fault: err}
	}
	return p.Outbox.Ready()
}

// answer serves a first phase. What a read is told may let it return, so it must survive a crash of this
// member; a write only needs a tag that is large enough, and one that is lost was too.
func (p *Protocol) answer(from view.MemberID, m *peerv1.Message) {
	current := p.read(m.Key)
	reply := p.Message(m.Kind+1, m.Op, m.Key)
	setTag(reply, current.Carstamp)
	if m.Kind == peerv1.Kind_WRITE1 {
		p.Send(from, reply)
		return
	}
	if current.Carstamp == tagOf(m) {
		reply.Same = true
	} else {
		setValue(reply, current.Value)
	}
	if p.mistakes.ExposeVolatile {
		p.Send(from, reply)
	} else {
		p.sendDurable(from, reply)
	}
}

// acknowledge serves a second phase: the member holds that tag or a larger one, and will after a crash.
func (p *Protocol) acknowledge(from view.MemberID, m *peerv1.Message) {
	p.apply(m.Key, register.Versioned{Carstamp: tagOf(m), Value: valueOf(m)})
	reply := p.Message(m.Kind+1, m.Op, m.Key)
	if p.mistakes.AckBeforePersist {
		p.Send(from, reply)
	} else {
		p.sendDurable(from, reply)
	}
}

// sendDurable sends once the record of the message's key is durable.
func (p *Protocol) sendDurable(to view.MemberID, m *peerv1.Message) {
	if p.journal.Durable(p.recordKey(m.Key)) {
		p.Send(to, m)
		return
	}
	p.config.Took(pathReplyWaits)
	p.SendDurably(to, m)
}
