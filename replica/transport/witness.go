package transport

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/view"
)

// WitnessWireVersion is the meaning of the frames that a witness is asked in. A witness of another one refuses.
const WitnessWireVersion = 1

const (
	// questionMessages and questionBytes bound what waits for a witness that does not take it.
	questionMessages = 16 << 10
	questionBytes    = 16 << 20
)

// link is the connection to a witness: one stream, over which questions leave and answers come. A witness knows nothing
// of emulated distances, so that both ways are held up here.
type link struct {
	transport  *Transport
	witness    view.Witness
	connection *grpc.ClientConn
	out        *delayLine[questions]
	wake       chan struct{} // capacity 1
	pause      atomic.Int64  // before the next attempt to connect, in nanoseconds

	mutex  sync.Mutex
	queue  []*witnessv1.Message
	bytes  int    // of the queue, by questionSize
	pinged uint64 // a ping to send, or 0

	connected atomic.Bool
	refused   atomic.Pointer[string]
	disk      atomic.Pointer[string] // that it named last
	blocked   atomic.Uint32          // Direction
	sent      atomic.Uint64
	received  atomic.Uint64
	dropped   atomic.Uint64
	rtts      *roundTrips
}

// questions are on their way to a witness.
type questions struct {
	messages []*peerv1.Message
	ping     uint64
}

func newLink(t *Transport, w view.Witness) (*link, error) {
	l := &link{transport: t, witness: w, wake: make(chan struct{}, 1), rtts: t.distances.to(w.ID)}
	connection, err := connect(w.Address, l.dial)
	if err != nil {
		return nil, err
	}
	l.connection = connection
	l.out = newDelayLine(t.options.delay(w.ID), t.options.jitter(w.ID), l.put)
	return l, nil
}

// run keeps a stream, and measures round trips, until the context ends.
func (l *link) run(ctx context.Context) {
	l.transport.tasks.Go(func() { l.keep(ctx) })
	l.transport.tasks.Go(func() {
		ticker := time.NewTicker(pingEvery)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				l.ping()
			case <-ctx.Done():
				return
			}
		}
	})
}

// dial connects to the witness, after a pause if it did not answer before.
func (l *link) dial(ctx context.Context, address string) (net.Conn, error) {
	pause := time.Duration(l.pause.Load())
	if pause > 0 {
		select {
		case <-time.After(pause + rand.N(pause)/4):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	l.pause.Store(int64(min(max(2*pause, firstPause), reconnectEvery)))
	connection, err := l.transport.options.Dial(ctx, address)
	if err != nil {
		l.discard()
	}
	return connection, err
}

// discard drops what waits. A witness that comes back after a while must not be filled with requests that ended long
// ago.
func (l *link) discard() {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	l.dropped.Add(uint64(len(l.queue)))
	clear(l.queue)
	l.queue, l.bytes, l.pinged = l.queue[:0], 0, 0
}

// keep replaces the stream whenever it breaks.
func (l *link) keep(ctx context.Context) {
	wait := firstPause
	for ctx.Err() == nil {
		accepted, err := l.stream(ctx)
		if accepted {
			wait = firstPause
		}
		if ctx.Err() != nil {
			return
		}
		l.discard()
		l.transport.options.Logger.Debug("stream to witness ended", zap.Uint32("witness", uint32(l.witness.ID)), zap.Error(err))
		select {
		case <-time.After(wait):
			wait = min(2*wait, reconnectEvery)
		case <-ctx.Done():
		}
	}
}

func (l *link) isBlocked(d Direction) bool { return Direction(l.blocked.Load())&d != 0 }

// send queues questions.
func (l *link) send(messages []*peerv1.Message) {
	switch {
	case l.isBlocked(Outgoing):
		l.dropped.Add(uint64(len(messages)))
	case l.out.delayed():
		l.out.put(questions{messages: slices.Clone(messages)})
	default:
		l.put(questions{messages: messages})
	}
}

func (l *link) ping() {
	if !l.isBlocked(Outgoing) {
		l.out.put(questions{ping: uint64(max(l.transport.clock(), 1))})
	}
}

// put queues what the emulated distance has let pass, as far as it fits. Of pings only the latest counts: time in a
// queue of a broken connection is no round trip.
func (l *link) put(q questions) {
	l.mutex.Lock()
	if q.ping != 0 {
		l.pinged = q.ping
	}
	for _, m := range q.messages {
		if m.Witness == nil {
			continue
		}
		size := questionSize(m.Witness)
		if len(l.queue) >= questionMessages || l.bytes+size > questionBytes {
			l.dropped.Add(1)
			continue
		}
		l.queue = append(l.queue, m.Witness)
		l.bytes += size
	}
	l.mutex.Unlock()
	select {
	case l.wake <- struct{}{}:
	default:
	}
}

// questionSize is about the encoded size of a question.
func questionSize(m *witnessv1.Message) int {
	return 64 + len(m.Request) + 8*len(m.Hashes) + 32*len(m.Drops)
}

// take empties the queue into spare.
func (l *link) take(spare []*witnessv1.Message) (queue []*witnessv1.Message, ping uint64) {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	queue, l.queue = l.queue, spare[:0]
	ping, l.pinged = l.pinged, 0
	l.bytes = 0
	return queue, ping
}

// stream opens a stream, sends what is queued and hands on what is answered until it breaks. It reports whether it was
// accepted.
func (l *link) stream(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := witnessv1.NewWitnessesClient(l.connection).Stream(ctx, grpc.WaitForReady(true))
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	o := &l.transport.options
	hello := &witnessv1.Hello{Cluster: o.View.Cluster, From: uint32(o.Self), To: uint32(l.witness.ID), WireVersion: WitnessWireVersion}
	if err := stream.Send(&witnessv1.Frame{Hello: hello}); err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	reply, err := stream.Recv()
	if status.Code(err) == codes.FailedPrecondition {
		l.noteRefusal(err)
	}
	if err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	if h := reply.Hello; h == nil || h.From != uint32(l.witness.ID) {
		return false, fmt.Errorf("hello: the answer is not witness %d's", l.witness.ID)
	}
	l.noteDisk(reply.Hello.Disk)
	l.refused.Store(nil)
	l.pause.Store(0)
	l.connected.Store(true)
	defer l.connected.Store(false)
	line := newDelayLine(o.delay(l.witness.ID), o.jitter(l.witness.ID), l.deliver)
	var receiving sync.WaitGroup
	receiving.Go(func() {
		defer cancel()
		for {
			frame, err := stream.Recv()
			if err != nil {
				return
			}
			line.put(frame)
		}
	})
	defer func() {
		cancel()
		receiving.Wait()
		line.close()
	}()
	l.ping()
	return true, l.pump(ctx, stream)
}

// pump sends the queue in frames.
func (l *link) pump(ctx context.Context, stream witnessv1.Witnesses_StreamClient) error {
	var queue []*witnessv1.Message
	frame := &witnessv1.Frame{}
	for {
		select {
		case <-l.wake:
		case <-ctx.Done():
			return ctx.Err()
		}
		var ping uint64
		queue, ping = l.take(queue)
		asked := len(queue)
		if ping != 0 {
			queue = append(queue, &witnessv1.Message{Kind: witnessv1.Kind_PING, Op: ping})
		}
		for rest := queue; len(rest) > 0; {
			n := fillQuestions(rest)
			frame.Messages = rest[:n]
			if err := stream.SendMsg(frame); err != nil {
				l.dropped.Add(uint64(len(rest)))
				return fmt.Errorf("send: %w", err)
			}
			rest = rest[n:]
		}
		l.sent.Add(uint64(asked))
		clear(queue)
	}
}

// fillQuestions reports how many of the messages go into one frame.
func fillQuestions(messages []*witnessv1.Message) int {
	size := 0
	for i, m := range messages {
		if size += questionSize(m); size > frameBytes && i > 0 {
			return i
		}
	}
	return len(messages)
}

// deliver hands on what was answered, as messages of the shards that asked.
func (l *link) deliver(frame *witnessv1.Frame) {
	if l.isBlocked(Incoming) {
		return
	}
	answers := make([]*peerv1.Message, 0, len(frame.Messages))
	memory := make([]peerv1.Message, len(frame.Messages))
	for i, w := range frame.Messages {
		if w.Kind == witnessv1.Kind_PONG {
			l.rtts.add(l.transport.clock(), w.Op)
			continue
		}
		m := &memory[i]
		m.Kind, m.Shard, m.Witness = peerv1.Kind_WITNESS, w.Partition, w
		answers = append(answers, m)
	}
	if len(answers) > 0 {
		l.received.Add(uint64(len(answers)))
		l.transport.options.Handler(l.witness.ID, answers)
	}
}

func (l *link) noteRefusal(err error) {
	reason := status.Convert(err).Message()
	if earlier := l.refused.Swap(&reason); earlier == nil || *earlier != reason {
		l.transport.options.Logger.Warn("Witness refuses this member", zap.Uint32("witness", uint32(l.witness.ID)), zap.String("reason", reason))
	}
}

// noteDisk logs that a witness is on another disk than the view names: it has lost what it saved, and is to be
// replaced.
func (l *link) noteDisk(disk string) {
	earlier := l.disk.Swap(&disk)
	if disk != l.witness.Disk && (earlier == nil || *earlier != disk) {
		l.transport.options.Logger.Warn("Witness is on another disk than the view names: what it had saved is lost",
			zap.Uint32("witness", uint32(l.witness.ID)), zap.String("disk", disk), zap.String("view", l.witness.Disk))
	}
}

func (l *link) status() Peer {
	s := Peer{
		ID: l.witness.ID, Connected: l.connected.Load(),
		Sent: l.sent.Load(), Received: l.received.Load(), Dropped: l.dropped.Load(),
	}
	s.RTT, s.MinRTT, s.Reachable = l.rtts.read(l.transport.clock())
	if reason := l.refused.Load(); reason != nil {
		s.Refused = *reason
	}
	return s
}

func (l *link) close() error {
	l.out.close()
	return l.connection.Close()
}
