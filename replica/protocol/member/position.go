package member

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// countKey is where the journal holds how many batches the disk has had, positionsKey where the PositionRecord is.
var (
	countKey     = []byte{ownPrefix, 'c'}
	positionsKey = []byte{ownPrefix, 'k'}
)

// heldMessages bounds the messages that wait until a member votes that has just started.
const heldMessages = 1024

// doubt is what waits until a member that has just started knows that its disk is whole.
type doubt struct {
	founded  bool // there is no record: the view names the empty disk
	record   *peerv1.MemberRecord
	messages []heard
	requests []protocol.Request
}

type heard struct {
	from    view.MemberID
	message *peerv1.Message
}

// trust goes on once the disk is known to be whole.
func (m *Member) trust() {
	if m.state != asking || !m.disks.Trusted() {
		return
	}
	d := &m.doubt
	m.begin()
	messages, requests := d.messages, d.requests
	d.messages, d.requests = nil, nil
	if m.state == voting {
		m.inner.Tick(m.now)
	}
	for _, h := range messages {
		m.Receive(h.from, h.message)
	}
	for _, r := range requests {
		m.Submit(r)
	}
}

// tickDoubt asks again, and gives up on operations that have waited too long.
func (m *Member) tickDoubt() {
	m.disks.Tick(m.now)
	if m.state != asking {
		return
	}
	m.trust()
	d := &m.doubt
	kept := d.requests[:0]
	for _, r := range d.requests {
		if r.Deadline == 0 || m.now < r.Deadline {
			kept = append(kept, r)
			continue
		}
		m.effects.complete(r.Handle, unserved(r))
	}
	d.requests = kept
}

// unserved ends an operation that this member has not begun; an earlier view's may have.
func unserved(r protocol.Request) register.Result {
	if r.Resume != nil {
		return register.Result{Status: register.Unknown, Message: "this member started, and too few others answered in time"}
	}
	return register.Result{Status: register.Unavailable, Message: "this member has just started, and too few others have told it that its disk is whole"}
}

// Doubted implements protocol.Protocol.
func (m *Member) Doubted() bool { return m.state == asking }
