package base

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/slab"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Outbox collects what a step of a protocol asks of the world until Ready hands it over, and numbers its questions.
type Outbox struct {
	Journal *protocol.Journal

	name                      string
	last                      uint64 // question
	send, sendDurably         slab.List[protocol.Envelope]
	complete, completeDurably slab.List[protocol.Completion]
	refused                   slab.List[protocol.Refused]
	fault                     error
	messages                  slab.Of[peerv1.Message]
}

// Op is the number of the next question, which its answers repeat.
func (b *Outbox) Op() uint64 {
	b.last++
	return b.last
}

// NewOutbox returns an empty outbox of the protocol of that name, whose questions are numbered from first + 1 on.
func NewOutbox(name string, first uint64, journal *protocol.Journal) Outbox {
	return Outbox{Journal: journal, name: name, last: first}
}

// LastOp is the number of the last question.
func (b *Outbox) LastOp() uint64 { return b.last }

// NumberFrom has the next question be number first + 1.
func (b *Outbox) NumberFrom(first uint64) { b.last = first }

// Message begins a message, which never changes once it is sent.
func (b *Outbox) Message(kind peerv1.Kind, op uint64, key []byte) *peerv1.Message {
	m := b.messages.New()
	m.Kind, m.Op, m.Key = kind, op, key
	return m
}

// Send sends at once.
func (b *Outbox) Send(to view.MemberID, m *peerv1.Message) {
	b.send.Add(protocol.Envelope{To: to, Message: m})
}

// SendAll sends one message to several members.
func (b *Outbox) SendAll(to []view.MemberID, m *peerv1.Message) {
	for _, id := range to {
		b.Send(id, m)
	}
}

// SendDurably sends once everything that the step puts into the journal is durable, and all before it.
func (b *Outbox) SendDurably(to view.MemberID, m *peerv1.Message) {
	b.sendDurably.Add(protocol.Envelope{To: to, Message: m})
}

// SendAllDurably is SendDurably to several members.
func (b *Outbox) SendAllDurably(to []view.MemberID, m *peerv1.Message) {
	for _, id := range to {
		b.SendDurably(id, m)
	}
}

// SendWhen sends at once if what the message tells of is durable, and durably otherwise.
func (b *Outbox) SendWhen(durable bool, to view.MemberID, m *peerv1.Message) {
	if durable {
		b.Send(to, m)
	} else {
		b.SendDurably(to, m)
	}
}

// SendAllWhen is SendWhen to several members.
func (b *Outbox) SendAllWhen(durable bool, to []view.MemberID, m *peerv1.Message) {
	for _, id := range to {
		b.SendWhen(durable, id, m)
	}
}

// Complete ends an operation at once.
func (b *Outbox) Complete(handle uint64, r register.Result) {
	b.complete.Add(protocol.Completion{Handle: handle, Result: r})
}

// CompleteDurably ends an operation when what the step puts into the journal is durable, and all before it.
func (b *Outbox) CompleteDurably(handle uint64, r register.Result) {
	b.completeDurably.Add(protocol.Completion{Handle: handle, Result: r})
}

// CompleteWhen ends an operation at once if what it rests on is durable, and durably otherwise.
func (b *Outbox) CompleteWhen(durable bool, handle uint64, r register.Result) {
	if durable {
		b.Complete(handle, r)
	} else {
		b.CompleteDurably(handle, r)
	}
}

// Fault says that the member can't go on; the first reason counts.
func (b *Outbox) Fault(format string, args ...any) {
	if b.fault == nil {
		b.fault = fmt.Errorf(b.name+": "+format, args...)
	}
}

// Refuse has people told of what another member sent, which was not believed.
func (b *Outbox) Refuse(from view.MemberID, why error) {
	b.refused.Add(protocol.Refused{From: from, Why: why})
}

// Damaged is Fault for the record of a key's register that can't be decoded.
func (b *Outbox) Damaged(key []byte, err error) {
	b.Fault("the stored register of key %q is damaged; replace this member's disk: %w", key, err)
}

// Err is the fault, or nil.
func (b *Outbox) Err() error { return b.fault }

// Ready hands over what was collected, with the journal's batch. With a fault, nothing else lasts or leaves.
func (b *Outbox) Ready() protocol.Effects {
	if b.fault != nil {
		return protocol.Effects{Fault: b.fault}
	}
	return protocol.Effects{
		Send: b.send.Take(), Complete: b.complete.Take(), Persist: b.Journal.Take(),
		SendAfterPersist: b.sendDurably.Take(), CompleteAfterPersist: b.completeDurably.Take(), Refused: b.refused.Take(),
	}
}
