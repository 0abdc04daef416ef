// Package caspaxos is CASPaxos (Rystsov, "CASPaxos: Replicated State Machines without logs", 2018): each key is a
// register of Paxos that is decided again and again in place, without a log and without a leader. It is the plain
// baseline for the registers with rmws.
//
// A coordinator changes a key in two round trips, each to a majority, of which it is one:
//
//	PREPARE  acceptors promise a ballot, and tell the state that they have accepted last
//	VOTE     acceptors accept the next state, which is a function of the one with the highest ballot
//
// Who meets a higher ballot begins again with one above it, after a random time. A read asks for states first (READ)
// and promises nothing: it is over if a majority has accepted the same state. Otherwise it has the state accepted once
// more, unchanged.
//
// Acceptors are in acceptor.go, coordinators in operation.go; change.go computes the next state, which knows the last
// change of each member: so a change that somebody else has completed is not applied again by its own coordinator.
// docs/protocols.md, section CASPaxos, says what differs from the paper, and why.
package caspaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of CASPaxos, for one shard. It implements member.Inner.
type Protocol struct {
	base.Acceptors
	base.Settled
	me         register.Writer // names ballots: no two processes have the same
	author     register.Writer // names changes: their numbers go on over restarts
	lastChange uint64          // number of the author's last change

	operations base.Operations[*operation]
	queues     map[string][]*operation // by key: those that propose; the first one is at work
	begin      []*operation            // whose turn it is: Ready has them begin
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	p := &Protocol{
		Acceptors:  base.Acceptors{Base: base.New("caspaxos", config, journal, known)},
		lastChange: uint64(config.Boot) << 32,
		queues:     map[string][]*operation{},
	}
	p.me, p.author = p.Writer(), p.Author()
	return p
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	if p.Invalid(r) {
		return
	}
	o := &operation{Operation: base.Operation{Request: r, Key: []byte(r.Operation.Key)}}
	if earlier, ok := r.Resume.(resume); ok {
		p.Took(pathResumed)
		o.change, o.left = earlier.change, true
	} else if !o.reads() {
		p.lastChange++
		o.change = p.lastChange
	}
	p.operations.Begin(o)
	if o.reads() {
		p.read(o)
	} else {
		p.enqueue(o)
	}
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m.RmwPaxos == nil {
		return
	}
	switch m.Kind {
	case peerv1.Kind_PAXOS_READ:
		p.onRead(from, m)
	case peerv1.Kind_PAXOS_PREPARE:
		p.onPrepare(from, m)
	case peerv1.Kind_PAXOS_VOTE:
		p.onVote(from, m)
	case peerv1.Kind_PAXOS_STATE, peerv1.Kind_PAXOS_ACK:
		p.onState(from, m)
	case peerv1.Kind_PAXOS_VOTED:
		p.onVoted(from, m)
	case peerv1.Kind_PAXOS_NACK:
		p.onRefused(from, m)
	}
}

// Tick implements protocol.Machine: it repeats what was not answered, gives up what is past its deadline, and goes on
// with what has backed off.
func (p *Protocol) Tick(now protocol.Instant) { p.operations.Tick(p.Base, now, p.expire, p.retransmit) }

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	for len(p.begin) > 0 && p.Err() == nil {
		o := p.begin[0]
		p.begin = p.begin[1:]
		if !o.Over {
			p.prepare(o)
		}
	}
	return p.Outbox.Ready()
}

// Pending implements protocol.Machine.
func (p *Protocol) Pending() int { return p.operations.Len() }

// resume is a protocol.Resume: it has the number of a change that others may have accepted.
type resume struct{ change uint64 }

// Unfinished implements protocol.Machine. Reads begin again, and so do changes that have not left this member. One that
// has goes on under its number: it may be in the state already, or come into it by another coordinator.
func (p *Protocol) Unfinished() []protocol.Request {
	return p.operations.Unfinished(func(o *operation) protocol.Resume {
		if o.left {
			return resume{o.change}
		}
		return nil
	})
}
