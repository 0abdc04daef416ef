package transport

import (
	"context"
	"fmt"
	"sync"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// lane is a queue to a peer and the stream that empties it.
type lane struct {
	peer  *peer
	wake  chan struct{} // capacity 1
	again chan struct{} // capacity 1: the peer is there now

	mutex  sync.Mutex
	queue  []*peerv1.Message
	bytes  int    // of the queue, by sizeHint
	pinged uint64 // a ping to send, or 0
	ponged uint64 // the answer to one, or 0
}

func newLane(p *peer) *lane {
	return &lane{peer: p, wake: make(chan struct{}, 1), again: make(chan struct{}, 1)}
}

func (l *lane) signal() {
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// put queues messages, as far as they fit.
func (l *lane) put(messages []*peerv1.Message) {
	if len(messages) == 0 {
		return
	}
	l.mutex.Lock()
	for _, m := range messages {
		size := sizeHint(m)
		if len(l.queue) >= queueMessages || l.bytes+size > queueBytes {
			l.peer.dropped.Add(1)
			continue
		}
		l.queue = append(l.queue, m)
		l.bytes += size
	}
	l.mutex.Unlock()
	l.signal()
}

// ping asks for a round trip to be measured. An unsent ping is replaced: time in a queue of a broken
// connection is no round trip.
func (l *lane) ping() {
	if l.peer.isBlocked(Outgoing) {
		return
	}
	l.mutex.Lock()
	l.pinged = uint64(max(l.peer.transport.clock(), 1))
	l.mutex.Unlock()
	l.signal()
}

func (l *lane) answer(ping uint64) {
	if l.peer.isBlocked(Outgoing) {
		return
	}
	l.mutex.Lock()
	l.ponged = ping
	l.mutex.Unlock()
	l.signal()
}

// take empties the queue into spare.
func (l *lane) take(spare []*peerv1.Message) (queue []*peerv1.Message, ping, pong uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	queue, l.queue = l.queue, spare[:0]
	l.bytes = 0
	ping, l.pinged = l.pinged, 0
	pong, l.ponged = l.ponged, 0
	return queue, ping, pong
}

// stream opens a stream and sends what is queued until it breaks. It reports whether it was accepted.
func (l *lane) stream(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := l.peer
	stream, err := peerv1.NewPeersClient(p.connection).Stream(ctx, grpc.WaitForReady(true))
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	if err := stream.Send(&peerv1.Frame{Hello: p.transport.hello(p.member.ID)}); err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	reply, err := stream.Recv()
	if err == nil && reply.Hello.GetEpoch() > p.transport.options.View.Epoch && len(reply.Hello.GetView()) > 0 {
		p.learn(reply.Hello.View)
		_, err = stream.Recv() // says why
	}
	if code := status.Code(err); code == codes.FailedPrecondition || code == behind {
		p.noteRefusal(err)
	}
	if err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	if h := reply.Hello; h == nil || h.Member != uint32(p.member.ID) || h.Epoch != p.transport.options.View.Epoch {
		return false, fmt.Errorf("hello: the answer is not member %d's, of this epoch", p.member.ID)
	}
	p.refused.Store(nil)
	p.pause.Store(0)
	if l == p.small {
		p.connected.Store(true)
		defer p.connected.Store(false)
	}
	go func() { // the peer sends nothing more; this ends with the stream, and tells of its end
		_, _ = stream.Recv()
		cancel()
	}()
	return true, l.pump(ctx, stream)
}

// pump sends the queue in frames.
func (l *lane) pump(ctx context.Context, stream peerv1.Peers_StreamClient) error {
	var queue []*peerv1.Message
	frame := &peerv1.Frame{}
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		queue, frame.Ping, frame.Pong = l.take(queue)
		for rest := queue; len(rest) > 0 || frame.Ping != 0 || frame.Pong != 0; {
			n := l.fill(rest)
			frame.Messages = rest[:n]
			if err := stream.SendMsg(frame); err != nil {
				l.peer.dropped.Add(uint64(len(rest)))
				return fmt.Errorf("send: %w", err)
			}
			l.peer.sent.Add(uint64(n))
			rest = rest[n:]
			frame.Ping, frame.Pong = 0, 0
		}
		clear(queue)
	}
}

// fill reports how many of the messages go into one frame.
func (l *lane) fill(messages []*peerv1.Message) int {
	size := 0
	for i, m := range messages {
		if size += sizeHint(m); size > frameBytes && i > 0 {
			return i
		}
	}
	return len(messages)
}
