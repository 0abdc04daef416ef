package transport

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/view"
)

// reconnectEvery bounds the pauses between attempts to reach a peer that is away.
const reconnectEvery = 500 * time.Millisecond

// firstPause is the first of those pauses, which double.
const firstPause = 20 * time.Millisecond

// dialTimeout bounds one attempt to connect. It is short, since the address of a peer that moved may swallow
// what is sent to it, and only the next attempt asks where the peer is now.
const dialTimeout = 1500 * time.Millisecond

// callTimeout bounds one with what a Dial of another kind does.
const callTimeout = 5 * time.Second

func dialTCP(ctx context.Context, address string) (net.Conn, error) {
	return (&net.Dialer{Timeout: dialTimeout}).DialContext(ctx, "tcp", address)
}

// Peer tells how a member, or a witness, is reached.
type Peer struct {
	ID        view.MemberID
	Connected bool          // the stream to it stands
	Reachable bool          // it answered a ping lately: both directions work
	RTT       time.Duration // the latest round trip, emulated delays included; 0 before the first
	MinRTT    time.Duration // the smallest of the latest 64
	Refused   string        // why it refuses this member, or empty
	Sent      uint64        // messages, since the start
	Received  uint64
	Dropped   uint64 // of those to send: queue full, too large, or blocked
}

// link is the way to a peer or a witness, and what is known and counted of it.
type link struct {
	transport *Transport
	id        view.MemberID
	address   string
	kind      string // Peer or Witness, for the log
	log       *zap.Logger
	away      func() // is called when the other end is not reached, or not any more

	connected atomic.Bool
	refused   atomic.Pointer[string]
	blocked   atomic.Uint32 // Direction
	sent      atomic.Uint64
	received  atomic.Uint64
	dropped   atomic.Uint64
	rtts      *roundTrips
}

func newLink(t *Transport, kind string, id view.MemberID, address string) *link {
	return &link{
		transport: t, id: id, address: address, kind: kind,
		log:  t.options.Logger.With(zap.Uint32(strings.ToLower(kind), uint32(id))),
		away: func() {}, rtts: t.distances.to(id),
	}
}

// keep replaces a stream whenever it breaks, until the context ends. The stream reports whether it was accepted; again,
// unless nil, says that the other end is there now.
func (l *link) keep(ctx context.Context, again chan struct{}, stream func(context.Context) (accepted bool, err error)) {
	wait := firstPause
	for ctx.Err() == nil {
		accepted, err := stream(ctx)
		if accepted {
			wait = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		l.away()
		l.log.Debug("stream to "+strings.ToLower(l.kind)+" ended", zap.Error(err))
		select {
		case <-time.After(wait):
			wait = min(2*wait, reconnectEvery)
		case <-again:
			wait = firstPause
		case <-ctx.Done():
		}
	}
}

// measure sends pings until the context ends.
func (l *link) measure(ctx context.Context, send func(ping uint64)) {
	ticker := time.NewTicker(pingEvery)
	defer ticker.Stop()
	for {
		if !l.isBlocked(Outgoing) {
			send(uint64(max(l.transport.clock(), 1)))
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

// accepted notes that the other end takes what this member sends.
func (l *link) accepted() { l.refused.Store(nil) }

// refusedBy notes why the other end refuses this member. It is logged once: this member calls again and again.
func (l *link) refusedBy(r *refusal) {
	if earlier := l.refused.Swap(&r.reason); earlier == nil || *earlier != r.reason {
		l.log.Log(r.severity(), l.kind+" refuses this member", zap.String("reason", r.reason))
	}
}

func (l *link) to() *link { return l }

func (l *link) isBlocked(d Direction) bool { return Direction(l.blocked.Load())&d != 0 }

func (l *link) status() Peer {
	s := Peer{
		ID: l.id, Connected: l.connected.Load(),
		Sent: l.sent.Load(), Received: l.received.Load(), Dropped: l.dropped.Load(),
	}
	s.RTT, s.MinRTT, s.Reachable = l.rtts.read(l.transport.clock())
	if reason := l.refused.Load(); reason != nil {
		s.Refused = *reason
	}
	return s
}
