// Package gryff is Gryff (NSDI '20): linearizable reads and writes by a shared register protocol, and
// read-modify-writes by EPaxos, unified by carstamps.
//
// Registers (register.go) follow algorithms 1, 2 and 7 of the paper; rmws (coordinator.go, replica.go,
// execute.go) algorithms 3 and 4; recovery (recover.go) algorithms 5 and 6 with the corrections that
// docs/protocols.md explains.
package gryff

import (
	"container/list"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of Gryff, for one shard.
type Protocol struct {
	config   protocol.Config
	roster   *phase.Roster
	journal  *protocol.Journal
	mistakes Mistakes
	me       register.Writer // issues the carstamps of writes
	author   register.Writer // names instances: it outlives restarts, since their numbers are durable
	before   view.View       // of the members before a change; in a plain view, all
	now      protocol.Instant
	ticked   bool // now is known
	draws    uint64
	nextOp   uint64

	operations map[uint64]*operation // reads and writes that this member coordinates; by op
	inFlight   []*operation          // the same, oldest first, and ended ones until the next Tick
	idle       []*operation          // to be used again
	objects    map[string]*object    // keys with rmws in progress, and those that rest
	resting    []rest                // by when they came to rest
	rested     int                   // their bytes
	live       *list.List            // instances, oldest first

	effects effects
	scratch []byte     // of lookup
	keys    slab.Bytes // of records to put

	messages  slab.Of[peerv1.Message]
	instances slab.Of[peerv1.Instance]
	ids       slab.Of[peerv1.InstanceID]
	named     slab.List[*peerv1.InstanceID]
}

// effects is what Ready hands over, but for the journal's batch.
type effects struct {
	send, sendDurably         slab.List[protocol.Envelope]
	complete, completeDurably slab.List[protocol.Completion]
	fault                     error
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes a correct Gryff.
func Factory(config protocol.Config, journal *protocol.Journal, roster *phase.Roster) member.Inner {
	return newProtocol(config, journal, roster, Mistakes{})
}

// FactoryWith makes a Gryff with known bugs put back, for tests.
func FactoryWith(mistakes Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, roster *phase.Roster) member.Inner {
		return newProtocol(config, journal, roster, mistakes)
	}
}

func newProtocol(config protocol.Config, journal *protocol.Journal, roster *phase.Roster, mistakes Mistakes) *Protocol {
	incarnation := uint32(roster.Of(config.Self))
	p := &Protocol{
		config:     config,
		roster:     roster,
		journal:    journal,
		mistakes:   mistakes,
		me:         register.NewWriter(uint32(config.Self), incarnation, config.Boot),
		author:     register.NewWriter(uint32(config.Self), incarnation, 0),
		before:     config.View.Before(),
		draws:      config.Seed,
		operations: map[uint64]*operation{},
		objects:    map[string]*object{},
		live:       list.New(),
	}
	if mistakes.TagWithoutBoot {
		p.me = p.author
	}
	p.nextOp = phase.FirstOp(&p.config, roster)
	p.loadInstances()
	return p
}

// Submit implements protocol.Protocol.
func (p *Protocol) Submit(r protocol.Request) {
	switch r.Operation.Kind {
	case register.Read:
		p.read(r)
	case register.Write:
		p.write(r)
	case register.RMW:
		if r.Resume.Instance != 0 && !p.mistakes.ResumeAsNew {
			p.resume(r)
		} else {
			p.rmw(r)
		}
	default:
		p.complete(r.Handle, register.Result{Status: register.Invalid, Message: "the operation has no kind"})
	}
}

// Receive implements protocol.Protocol.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_READ1:
		p.onRead1(from, m)
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		p.onUpdate(from, m)
	case peerv1.Kind_WRITE1:
		p.onWrite1(from, m)
	case peerv1.Kind_READ1_REPLY:
		p.onRead1Reply(from, m)
	case peerv1.Kind_WRITE1_REPLY:
		p.onWrite1Reply(from, m)
	case peerv1.Kind_READ2_REPLY, peerv1.Kind_WRITE2_REPLY:
		p.onUpdateReply(from, m)
	default:
		if m.GetInstance().GetId() != nil {
			p.receiveRMW(from, m)
		}
	}
}

// receiveRMW handles what concerns an instance.
func (p *Protocol) receiveRMW(from view.MemberID, m *peerv1.Message) {
	o := p.object(m.Key)
	switch m.Kind {
	case peerv1.Kind_PRE_ACCEPT:
		p.onPreAccept(o, from, m)
	case peerv1.Kind_PRE_ACCEPT_OK:
		p.onPreAcceptOK(o, from, m)
	case peerv1.Kind_ACCEPT:
		p.onAccept(o, from, m)
	case peerv1.Kind_ACCEPT_OK:
		p.onAcceptOK(o, from, m)
	case peerv1.Kind_COMMIT:
		p.onCommit(o, from, m)
	case peerv1.Kind_EXECUTED:
		p.onExecuted(o, from, m)
	case peerv1.Kind_PREPARE:
		p.onPrepare(o, from, m)
	case peerv1.Kind_PREPARE_OK:
		p.onPrepareOK(o, from, m)
	case peerv1.Kind_NACK:
		p.onNack(o, m)
	}
	p.release(o)
}

// Tick implements protocol.Protocol: it repeats what was not answered, gives up what is past its deadline and
// recovers what others left unfinished.
func (p *Protocol) Tick(now protocol.Instant) {
	p.now = now
	if !p.ticked {
		p.ticked = true
		p.takeUp()
	}
	p.recycle()
	for _, o := range p.inFlight {
		p.tickOperation(o)
	}
	for e := p.live.Front(); e != nil; {
		i := e.Value.(*instance)
		e = e.Next()
		p.tickInstance(i)
		p.release(i.object)
	}
}

// Ready implements protocol.Protocol.
func (p *Protocol) Ready() protocol.Effects {
	e := protocol.Effects{
		Send: p.effects.send.Take(), Complete: p.effects.complete.Take(), Persist: p.journal.Take(),
		SendAfterPersist: p.effects.sendDurably.Take(), CompleteAfterPersist: p.effects.completeDurably.Take(),
		Fault: p.effects.fault,
	}
	p.effects.fault = nil
	return e
}

// Pace implements member.Inner.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
}

// Pending is how many operations and instances this member holds unfinished.
func (p *Protocol) Pending() int { return len(p.operations) + p.live.Len() }

// message begins a message, which never changes once it is sent.
func (p *Protocol) message(kind peerv1.Kind, op uint64, key []byte) *peerv1.Message {
	m := p.messages.New()
	m.Kind, m.Op, m.Key = kind, op, key
	return m
}

func (p *Protocol) send(to view.MemberID, m *peerv1.Message) {
	p.effects.send.Add(protocol.Envelope{To: to, Message: m})
}

func (p *Protocol) sendAll(to []view.MemberID, m *peerv1.Message) {
	for _, id := range to {
		p.send(id, m)
	}
}

// sendDurably sends once everything that was put into the journal so far is durable.
func (p *Protocol) sendDurably(to view.MemberID, m *peerv1.Message) {
	if p.mistakes.AckBeforePersist {
		p.send(to, m)
		return
	}
	p.effects.sendDurably.Add(protocol.Envelope{To: to, Message: m})
}

func (p *Protocol) sendAllDurably(to []view.MemberID, m *peerv1.Message) {
	for _, id := range to {
		p.sendDurably(id, m)
	}
}

func (p *Protocol) complete(handle uint64, r register.Result) {
	p.effects.complete.Add(protocol.Completion{Handle: handle, Result: r})
}

func (p *Protocol) completeDurably(handle uint64, r register.Result) {
	p.effects.completeDurably.Add(protocol.Completion{Handle: handle, Result: r})
}

func (p *Protocol) op() uint64 {
	p.nextOp++
	return p.nextOp
}

// draw is a number below n, from the seed that the world lent (splitmix64).
func (p *Protocol) draw(n uint64) uint64 {
	p.draws += 0x9e3779b97f4a7c15
	z := p.draws
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return (z ^ (z >> 31)) % max(n, 1)
}
