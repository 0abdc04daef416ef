package transport

import (
	"context"
	"math/rand/v2"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/replica/view"
)

// keepaliveEvery is when gRPC looks whether a silent connection still exists; it allows no less than 10 s.
const keepaliveEvery = 10 * time.Second

// reconnectEvery bounds the pauses between attempts to reach a peer that is away.
const reconnectEvery = 500 * time.Millisecond

// firstPause is the first of those pauses, which double.
const firstPause = 20 * time.Millisecond

// dialTimeout bounds one attempt to connect. It is short, since the address of a peer that moved may swallow
// what is sent to it, and only the next attempt asks where the peer is now.
const dialTimeout = 1500 * time.Millisecond

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

// link is the connection to a peer or a witness, and what is known and counted of it.
type link struct {
	transport  *Transport
	id         view.MemberID
	kind       string // Peer or Witness, for the log
	log        *zap.Logger
	connection *grpc.ClientConn

	called chan struct{} // capacity 1: the other end has just shown that it is there
	away   func()        // is called when the other end is not reached, or not any more
	pause  atomic.Int64  // before the next attempt to connect, in nanoseconds

	connected atomic.Bool
	refused   atomic.Pointer[string]
	blocked   atomic.Uint32 // Direction
	sent      atomic.Uint64
	received  atomic.Uint64
	dropped   atomic.Uint64
	rtts      *roundTrips
}

// newLink returns a link whose connection begins when it is used first.
func newLink(t *Transport, kind string, id view.MemberID, address string) (*link, error) {
	l := &link{
		transport: t, id: id, kind: kind, log: t.options.Logger.With(zap.Uint32(strings.ToLower(kind), uint32(id))),
		called: make(chan struct{}, 1), away: func() {}, rtts: t.distances.to(id),
	}
	var err error
	// Passthrough hands the address to the dialer as it is, which resolves it at each attempt. gRPC's own resolver
	// would stay with what it found for half a minute.
	l.connection, err = grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(l.dial),
		// Dial makes the pauses: to end gRPC's own would race with its new connections.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveEvery, Timeout: 5 * time.Second, PermitWithoutStream: true,
		}),
		grpc.WithInitialWindowSize(1<<20),
		grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{}), grpc.MaxCallSendMsgSize(maxFrameBytes)),
	)
	return l, err
}

// dial connects to the other end, after a pause if it did not answer before.
func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	pause := time.Duration(l.pause.Load())
	if pause > 0 {
		select {
		case <-time.After(pause + rand.N(pause)/4):
		case <-l.called:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.pause.Store(int64(min(max(2*pause, firstPause), reconnectEvery)))
	connection, err := l.transport.options.Dial(ctx, address)
	if err != nil {
		l.away()
	}
	return connection, err
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
func (l *link) accepted() {
	l.refused.Store(nil)
	l.pause.Store(0)
}

// refusedBy notes why the other end refuses this member. It is logged once: this member calls again and again.
func (l *link) refusedBy(err error) {
	reason := status.Convert(err).Message()
	if earlier := l.refused.Swap(&reason); earlier == nil || *earlier != reason {
		l.log.Log(severity(err), l.kind+" refuses this member", zap.String("reason", reason))
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
