// Package gryff is Gryff (NSDI '20): linearizable reads and writes by a shared register protocol, and
// read-modify-writes by EPaxos, unified by carstamps.
//
// Registers (register.go) follow algorithms 1, 2 and 7 of the paper. Rmws, algorithms 3 to 6, are the commands of
// package instance, which is the core of EPaxos; each is based on what its coordinator finds in the register.
// docs/protocols.md explains the corrections.
//
// Gryff-RSC (SOSP '21; regular.go, after.go) is Gryff with reads of one round trip, which is regular sequentially
// consistent.
package gryff

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/instance"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of Gryff, for one shard.
type Protocol struct {
	base.Registers
	me register.Writer // issues the carstamps of writes

	operations base.Operations[*operation] // reads, writes and fences that this member coordinates
	idle       []*operation                // to be used again
	rmws       *instance.Core
	waiting    []protocol.Request // reads and writes of keys that this member can't speak for yet

	regular bool           // it is Gryff-RSC
	waited  map[uint64]int // by handle, of rmws: the round trips before they had an instance
	// By key, what this coordinator has had a quorum hold in this view; and how many of the next reads ask more than a
	// quorum, or, below 0, do not (regular.go).
	held      recentKeys[register.Carstamp]
	contended recentKeys[int]

	// Reads that were answered and write back what they found: how many, and their numbers by key. Of those of one key,
	// each has a newer version than the one before it.
	background int
	spreading  map[string][]uint64
	reading    map[string][]uint64 // by key, regular reads that wait for more than a quorum
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes Gryff for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, known, false)
}

// FactoryRSC makes Gryff-RSC for a member.
func FactoryRSC(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, known, true)
}

func newProtocol(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, regular bool,
) *Protocol {
	p := &Protocol{
		Registers: base.Registers{Base: base.New("gryff", config, journal, known)},
		regular:   regular,
		waited:    map[uint64]int{},
		spreading: map[string][]uint64{},
		reading:   map[string][]uint64{},
	}
	p.me = p.Writer()
	registers := &instance.Registers{Load: p.Load, Apply: p.Apply}
	p.rmws = instance.New(p.Base, instance.Options{Commands: rmw, Registers: registers})
	return p
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	kind := r.Operation.Kind
	switch {
	case kind == register.Fence:
		p.writeBack(p.begin(r))
	case p.Invalid(r):
	case kind != register.RMW && r.Resume == nil && p.rmws.Awaits([]byte(r.Operation.Key)):
		p.Took(pathAwaited)
		p.waiting = append(p.waiting, r)
	case kind == register.Read:
		p.read(r)
	case kind == register.Write:
		p.write(r)
	case len(r.Operation.After) == 0 || r.Resume != nil: // an instance has it at a quorum
		p.rmws.Submit(r)
	default:
		p.writeBack(p.begin(r))
	}
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if asks := m.Kind == peerv1.Kind_READ1 || m.Kind == peerv1.Kind_WRITE1; asks && p.rmws.Awaits(m.Key) {
		return // its sender asks again, and others
	}
	switch m.Kind {
	case peerv1.Kind_READ1:
		p.onRead1(from, m)
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		p.onUpdate(from, m)
	case peerv1.Kind_WRITE1:
		p.onWrite1(from, m)
	case peerv1.Kind_READ1_REPLY, peerv1.Kind_WRITE1_REPLY, peerv1.Kind_READ2_REPLY, peerv1.Kind_WRITE2_REPLY:
		p.onReply(from, m)
	default:
		p.rmws.Receive(from, m)
	}
}

// rmwKinds are the records that are read for an rmw: the state of its key's instances, and the register.
const rmwKinds = instance.StateKind + base.RegisterKind

// RecordsOf implements protocol.Keyed.
func (p *Protocol) RecordsOf(kind register.Kind) string {
	if kind == register.RMW {
		return rmwKinds
	}
	return p.Registers.RecordsOf(kind)
}

// RecordsFor implements protocol.Keyed.
func (p *Protocol) RecordsFor(m *peerv1.Message) string {
	switch {
	case m.Instance == nil:
	case p.rmws.Knows(m.Key):
		return "" // nor is the register far: an rmw of the key began here, or did lately
	default:
		return rmwKinds
	}
	return p.Registers.RecordsFor(m)
}

// Tick implements protocol.Machine: it repeats what was not answered, gives up what is past its deadline and
// recovers what others left unfinished.
func (p *Protocol) Tick(now protocol.Instant) {
	p.recycle()
	p.operations.Tick(p.Base, now, p.expire, p.retransmit)
	p.rmws.Tick(now)
	p.serveAwaited()
}

// serveAwaited begins the operations whose key this member can speak for by now, and gives up those that are late.
func (p *Protocol) serveAwaited() {
	waiting := p.waiting
	p.waiting = nil
	for _, r := range waiting {
		if p.Late(&r) {
			p.Complete(r.Handle, base.Untaken(r.Operation.Kind, 0, "what this member began with was not executed in time"))
			continue
		}
		p.Submit(r)
	}
}

// Settle implements member.Inner: only rmws can be left unfinished.
func (p *Protocol) Settle(now protocol.Instant) bool { return p.rmws.Settle(now) }

// Pending is how many operations and instances this member holds unfinished.
func (p *Protocol) Pending() int { return p.operations.Len() + len(p.waiting) + p.rmws.Pending() }
