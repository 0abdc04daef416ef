package transport

import (
	"context"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
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

// peer is the connection to one other member.
type peer struct {
	transport  *Transport
	member     view.Member
	connection *grpc.ClientConn
	small      *lane // messages and pings
	bulk       *lane // large messages

	called chan struct{} // capacity 1: the peer is there now
	pause  atomic.Int64  // before the next attempt to connect, in nanoseconds

	connected atomic.Bool
	refused   atomic.Pointer[string]
	blocked   atomic.Uint32 // Direction
	sent      atomic.Uint64
	received  atomic.Uint64
	dropped   atomic.Uint64
	rtts      *roundTrips
}

func newPeer(t *Transport, m view.Member) (*peer, error) {
	p := &peer{transport: t, member: m, called: make(chan struct{}, 1), rtts: t.distances.to(m.ID)}
	connection, err := connect(m.Address, p.dial)
	if err != nil {
		return nil, err
	}
	p.connection = connection
	p.small, p.bulk = newLane(p), newLane(p)
	return p, nil
}

// connect makes a connection, which begins when it is used first.
func connect(address string, dial func(context.Context, string) (net.Conn, error)) (*grpc.ClientConn, error) {
	// Passthrough hands the address to the dialer as it is, which resolves it at each attempt. gRPC's own resolver
	// would stay with what it found for half a minute.
	return grpc.NewClient("passthrough:///"+address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(dial),
		grpc.WithConnectParams(grpc.ConnectParams{ // dial makes the pauses
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
			MinConnectTimeout: 5 * time.Second,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: keepaliveEvery, Timeout: 5 * time.Second, PermitWithoutStream: true}),
		grpc.WithInitialWindowSize(1<<20),
		grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{}), grpc.MaxCallSendMsgSize(maxFrameBytes)),
	)
}

// run keeps a stream for each lane until the context ends.
func (p *peer) run(ctx context.Context) {
	p.transport.tasks.Go(func() { p.keep(ctx, p.small) })
	p.transport.tasks.Go(func() { p.keep(ctx, p.bulk) })
	p.transport.tasks.Go(func() {
		ticker := time.NewTicker(pingEvery)
		defer ticker.Stop()
		for {
			p.small.ping()
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// dial connects to the peer, after a pause if it did not answer before.
func (p *peer) dial(ctx context.Context, address string) (net.Conn, error) {
	pause := time.Duration(p.pause.Load())
	if pause > 0 {
		select {
		case <-time.After(pause + rand.N(pause)/4):
		case <-p.called:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	p.pause.Store(int64(min(max(2*pause, firstPause), reconnectEvery)))
	return p.transport.options.Dial(ctx, address)
}

// keep replaces the stream of a lane whenever it breaks.
func (p *peer) keep(ctx context.Context, l *lane) {
	wait := firstPause
	for ctx.Err() == nil {
		streamed, err := l.stream(ctx)
		if streamed {
			wait = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		p.transport.options.Logger.Debug("stream to peer ended", zap.Uint32("peer", uint32(p.member.ID)), zap.Error(err))
		select {
		case <-time.After(wait):
			wait = min(2*wait, reconnectEvery)
		case <-l.again:
			wait = firstPause
		case <-ctx.Done():
		}
	}
}

// redial has what does not stand be connected at once: the peer has just shown that it is there.
func (p *peer) redial() {
	for _, wakes := range []chan struct{}{p.called, p.small.again, p.bulk.again} {
		select {
		case wakes <- struct{}{}:
		default:
		}
	}
}

// learn hands on a newer view that the peer told.
func (p *peer) learn(told []byte) {
	o := &p.transport.options
	v, err := wire.Unmarshal(told)
	switch {
	case p.isBlocked(Incoming):
	case err != nil || v.Epoch <= o.View.Epoch:
		o.Logger.Warn("Peer told no newer view", zap.Uint32("peer", uint32(p.member.ID)), zap.Uint64("epoch", v.Epoch), zap.Error(err))
	default:
		o.Newer(v)
	}
}

func (p *peer) noteRefusal(err error) {
	reason := status.Convert(err).Message()
	if earlier := p.refused.Swap(&reason); earlier == nil || *earlier != reason {
		p.transport.options.Logger.Log(severity(err), "Peer refuses this member", zap.Uint32("peer", uint32(p.member.ID)), zap.String("reason", reason))
	}
}

func (p *peer) isBlocked(d Direction) bool { return Direction(p.blocked.Load())&d != 0 }

// send queues messages on the lanes that fit their sizes.
func (p *peer) send(messages []*peerv1.Message) {
	if p.isBlocked(Outgoing) {
		p.dropped.Add(uint64(len(messages)))
		return
	}
	from := 0
	for i, m := range messages {
		if sizeHint(m) < bulkBytes {
			continue
		}
		p.small.put(messages[from:i])
		p.bulk.put(messages[i : i+1])
		from = i + 1
	}
	p.small.put(messages[from:])
}

// sizeHint is about the encoded size of a message. Only those with many parts are measured.
func sizeHint(m *peerv1.Message) int {
	c := m.Curp
	switch {
	case m.Instance != nil || m.Transfer != nil || c != nil && len(c.Entries)+len(c.Records) > 0:
		return m.SizeVT()
	case c == nil:
		return 64 + len(m.Key) + len(m.Value)
	}
	size := 128 + len(m.Key) + len(c.After) + len(c.Answer.GetValue())
	if r := c.Request; r != nil {
		size += len(r.Key) + len(r.Value)
		for _, arg := range r.Command.GetArgs() {
			size += len(arg)
		}
	}
	return size
}

// deliver hands on what arrived.
func (p *peer) deliver(frame *peerv1.Frame) {
	if p.isBlocked(Incoming) {
		return
	}
	if frame.Ping != 0 {
		p.small.answer(frame.Ping)
	}
	if frame.Pong != 0 {
		p.rtts.add(p.transport.clock(), frame.Pong)
	}
	if n := len(frame.Messages); n > 0 {
		p.received.Add(uint64(n))
		p.transport.options.Handler(p.member.ID, frame.Messages)
	}
}

func (p *peer) status() Peer {
	s := Peer{
		ID: p.member.ID, Connected: p.connected.Load(),
		Sent: p.sent.Load(), Received: p.received.Load(), Dropped: p.dropped.Load(),
	}
	s.RTT, s.MinRTT, s.Reachable = p.rtts.read(p.transport.clock())
	if reason := p.refused.Load(); reason != nil {
		s.Refused = *reason
	}
	return s
}
