// Package gryff is Gryff (NSDI '20): linearizable reads and writes by a shared register protocol, and
// read-modify-writes by EPaxos, unified by carstamps.
//
// Registers (register.go) follow algorithms 1, 2 and 7 of the paper. Rmws, algorithms 3 to 6, are the commands of package
// instance, which is the core of EPaxos; each is based on what its coordinator finds in the register. docs/protocols.md
// explains the corrections.
//
// Gryff-RSC (SOSP '21; after.go) is Gryff with reads of one round trip, which is regular sequentially consistent.
package gryff

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/outbox"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of Gryff, for one shard.
type Protocol struct {
	*outbox.Outbox
	config   protocol.Config
	counted  *quorum.Incarnations // whose answers count: the members' present disks, unless a mistake is put back
	journal  *protocol.Journal
	mistakes Mistakes
	me       register.Writer // issues the carstamps of writes
	now      protocol.Instant

	operations map[uint64]*operation // reads and writes that this member coordinates; by op
	inFlight   []*operation          // the same, oldest first, and ended ones until the next Tick
	idle       []*operation          // to be used again
	rmws       *instance.Core
	keys       slab.Keys // of records to put, and of operations

	regular bool           // it is Gryff-RSC
	waited  map[uint64]int // by handle, of rmws: the round trips before they had an instance
	held    heldKeys

	// Reads that were answered and write back what they found: how many, and by key the op of the last one.
	background int
	spreading  map[string]uint64
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes a correct Gryff.
func Factory(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, incarnations, Mistakes{})
}

// FactoryWith makes a Gryff with known bugs put back, for tests.
func FactoryWith(mistakes Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
		return newProtocol(config, journal, incarnations, mistakes)
	}
}

// FactoryRSC makes a correct Gryff-RSC.
func FactoryRSC(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
	return FactoryRSCWith(Mistakes{})(config, journal, incarnations)
}

// FactoryRSCWith makes a Gryff-RSC with known bugs put back, for tests.
func FactoryRSCWith(mistakes Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations) member.Inner {
		p := newProtocol(config, journal, incarnations, mistakes)
		p.regular = true
		return p
	}
}

func newProtocol(config protocol.Config, journal *protocol.Journal, incarnations *quorum.Incarnations, mistakes Mistakes) *Protocol {
	p := &Protocol{
		Outbox:     outbox.New("gryff", quorum.FirstOp(&config, incarnations), journal),
		config:     config,
		counted:    incarnations,
		journal:    journal,
		mistakes:   mistakes,
		me:         register.NewWriter(uint32(config.Self), uint32(incarnations.Of(config.Self)), config.Boot),
		operations: map[uint64]*operation{},
		waited:     map[uint64]int{},
		spreading:  map[string]uint64{},
	}
	if mistakes.TagWithoutBoot {
		p.me = register.NewWriter(uint32(config.Self), uint32(incarnations.Of(config.Self)), 0)
	}
	if mistakes.CountDeadDisks {
		p.counted = quorum.FirstDisks(config.View)
	}
	p.AckBeforePersist = mistakes.AckBeforePersist
	registers := &instance.Registers{Load: p.load, Apply: p.apply}
	p.rmws = instance.New(config, journal, incarnations, p.Outbox, instance.Options{Commands: "rmw", Registers: registers}, mistakes.ofRMWs())
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
		if err := p.config.Functions.Check(r.Operation.Call); err != nil && r.Resume == nil {
			p.Complete(r.Handle, register.Result{Status: register.Invalid, Message: err.Error()})
			return
		}
		if len(r.Operation.After) == 0 || r.Resume != nil { // an instance has it at a quorum
			p.rmws.Submit(r)
			return
		}
		p.writeBack(p.begin(r))
	case register.Fence:
		p.writeBack(p.begin(r))
	default:
		p.Complete(r.Handle, register.Result{Status: register.Invalid, Message: "the operation has no kind"})
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
		p.rmws.Receive(from, m)
	}
}

// Tick implements protocol.Protocol: it repeats what was not answered, gives up what is past its deadline and
// recovers what others left unfinished.
func (p *Protocol) Tick(now protocol.Instant) {
	p.now = now
	p.recycle()
	for _, o := range p.inFlight {
		p.tickOperation(o)
	}
	p.rmws.Tick(now)
}

// Settle implements member.Inner: only rmws can be left unfinished.
func (p *Protocol) Settle(now protocol.Instant) bool {
	p.now = now
	return p.rmws.Settle(now)
}

// Pace implements member.Inner.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.config.Retry, p.config.Suspect = retry, suspect
	p.rmws.Pace(retry, suspect)
}

// Pending is how many operations and instances this member holds unfinished.
func (p *Protocol) Pending() int { return len(p.operations) + p.rmws.Pending() }
