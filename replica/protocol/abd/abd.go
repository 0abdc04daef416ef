// Package abd is multi-writer ABD (Attiya, Bar-Noy and Dolev; Lynch and Shvartsman), a register that a majority of
// members keeps: the shared register of Gryff (section 4.1; references 5 and 43). It is the smallest protocol here, and
// the one to read first.
//
// Every member stores, per key, a value and its tag: a carstamp without rmws. An operation has two phases,
// and both ask a majority, of which the coordinator is one:
//
//	read   READ1 queries tags and values      READ2 propagates the largest
//	write  WRITE1 queries tags                WRITE2 propagates the value under a larger tag
//
// Any two majorities meet, so a query sees what every finished propagation left. A read needs no second phase when a
// majority holds the largest tag already (Gryff, section 4.2).
//
// The coordinator's part is in coordinator.go, in the order of the algorithm, and the part of those that it asks in
// replica.go. docs/protocols.md, section ABD, says what is durable when, and why.
package abd

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Protocol is one member's part of multi-writer ABD.
type Protocol struct {
	base.Registers
	base.Settled
	operations base.Operations[*operation] // that this member coordinates
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return &Protocol{Registers: base.Registers{Base: base.New("abd", config, journal, known)}}
}

// refusal is what the table of protocols (replica/capability) says too; a test holds them together.
const refusal = "protocol ABD has no read-modify-write operations: it stores plain registers, which can't agree " +
	"on one; use protocol Gryff"

// Submit starts a read or a write; an rmw is Unsupported.
func (p *Protocol) Submit(r protocol.Request) {
	o := &operation{Operation: p.NewOperation(r)}
	if o.Kind() != register.Read && !o.writes() {
		p.Took(pathUnsupported)
		p.Complete(r.Handle, register.Result{Status: register.Unsupported, Message: refusal})
		return
	}
	p.operations.Begin(o)
	if tag, resumed := r.Resume.(register.Carstamp); resumed && o.writes() {
		p.resume(o, tag)
	} else {
		p.query(o)
	}
}

// Receive serves another coordinator, or counts an answer to this one.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_READ1, peerv1.Kind_WRITE1:
		p.onQuery(from, m)
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		p.onUpdate(from, m)
	case peerv1.Kind_READ1_REPLY, peerv1.Kind_WRITE1_REPLY, peerv1.Kind_READ2_REPLY, peerv1.Kind_WRITE2_REPLY:
		p.onReply(from, m)
	}
}

// Tick gives up operations whose deadline has passed, and retransmits the questions of the others.
func (p *Protocol) Tick(now protocol.Instant) { p.operations.Tick(p.Base, now, p.expire, p.retransmit) }

// Pending is how many operations wait for answers.
func (p *Protocol) Pending() int { return p.operations.Len() }
