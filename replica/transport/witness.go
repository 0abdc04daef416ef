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
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/status"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/transport/codec"
	"github.com/georegister/georegister/replica/view"
)

// WitnessWireVersion is the meaning of the frames that a witness is asked in. A witness of another one refuses.
const WitnessWireVersion = 1

// keepaliveEvery is when gRPC looks whether a silent connection still exists; it allows no less than 10 s.
const keepaliveEvery = 10 * time.Second

const (
	// questionMessages and questionBytes bound what waits for a witness that does not take it.
	questionMessages = 16 << 10
	questionBytes    = 16 << 20
)

// witnessLink is the connection to a witness: one stream, over which questions leave and answers come. A witness knows
// nothing of emulated distances, so that both ways are held up here.
type witnessLink struct {
	*link
	connection *grpc.ClientConn
	pause      atomic.Int64 // before the next attempt to connect, in nanoseconds
	view       view.Witness
	disk       atomic.Pointer[string] // that it named last
	out        *delayLine[questions]
	queue      *queue
}

// questions are on their way to a witness.
type questions struct {
	messages []*peerv1.Message
	ping     uint64 // or 0
}

func newWitnessLink(t *Transport, of view.Witness) (*witnessLink, error) {
	l := newLink(t, "Witness", of.ID, of.Address)
	w := &witnessLink{link: l, view: of, queue: newQueue(l, questionMessages, questionBytes, questionSize)}
	var err error
	// Passthrough hands the address to the dialer as it is, which resolves it at each attempt. gRPC's own resolver
	// would stay with what it found for half a minute.
	w.connection, err = grpc.NewClient("passthrough:///"+of.Address,
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(w.dial),
		// Dial makes the pauses: to end gRPC's own would race with its new connections.
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: time.Millisecond, Multiplier: 1, MaxDelay: time.Millisecond},
			MinConnectTimeout: callTimeout,
		}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{
			Time: keepaliveEvery, Timeout: callTimeout, PermitWithoutStream: true,
		}),
		grpc.WithInitialWindowSize(1<<20),
		grpc.WithInitialConnWindowSize(4<<20),
		grpc.WithIdleTimeout(0),
		grpc.WithDefaultCallOptions(grpc.ForceCodecV2(codec.Codec{}), grpc.MaxCallSendMsgSize(maxFrameBytes)),
	)
	if err != nil {
		return nil, err
	}
	// One that comes back after a while must not be filled with requests that ended long ago.
	w.away = w.queue.discard
	w.out = newDelayLine(t.options.OneWayDelay.Of(of.ID), t.options.Jitter.Of(of.ID), w.put)
	return w, nil
}

// dial connects to the witness, after a pause if it did not answer before.
func (w *witnessLink) dial(ctx context.Context, address string) (net.Conn, error) {
	pause := time.Duration(w.pause.Load())
	if pause > 0 {
		select {
		case <-time.After(pause + rand.N(pause)/4):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	w.pause.Store(int64(min(max(2*pause, firstPause), reconnectEvery)))
	connection, err := w.transport.options.Dial(ctx, address)
	if err != nil {
		w.away()
	}
	return connection, err
}

// end closes what the link has when the context has ended.
func (w *witnessLink) end() error { return w.connection.Close() }

// run keeps a stream, and measures round trips, until the context ends.
func (w *witnessLink) run(ctx context.Context) {
	tasks := &w.transport.tasks
	tasks.Go(func() { w.keep(ctx, nil, w.stream) })
	tasks.Go(func() {
		defer w.out.close()
		w.measure(ctx, func(ping uint64) { w.out.put(questions{ping: ping}) })
	})
}

// send queues questions.
func (w *witnessLink) send(messages []*peerv1.Message) {
	switch {
	case w.isBlocked(Outgoing):
		w.dropped.Add(uint64(len(messages)))
	case w.out.delayed():
		w.out.put(questions{messages: slices.Clone(messages)})
	default:
		w.put(questions{messages: messages})
	}
}

// put queues what the emulated distance has let pass.
func (w *witnessLink) put(q questions) {
	w.queue.put(q.messages)
	if q.ping != 0 {
		w.queue.measure(q.ping, 0)
	}
}

// questionSize is about the encoded size of a question.
func questionSize(m *peerv1.Message) int {
	q := m.Witness
	return 64 + len(q.GetRequest()) + 8*len(q.GetHashes()) + 32*len(q.GetDrops())
}

// stream opens a stream, sends what is queued and hands on what is answered until it breaks. It reports whether it was
// accepted.
func (w *witnessLink) stream(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	stream, err := witnessv1.NewWitnessesClient(w.connection).Stream(ctx, grpc.WaitForReady(true))
	if err != nil {
		return false, fmt.Errorf("open: %w", err)
	}
	o := &w.transport.options
	hello := &witnessv1.Hello{
		Cluster: o.View.Cluster, From: uint32(o.Self), To: uint32(w.id), WireVersion: WitnessWireVersion,
	}
	if err := stream.Send(&witnessv1.Frame{Hello: hello}); err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	reply, err := stream.Recv()
	if status.Code(err) == codes.FailedPrecondition {
		w.refusedBy(wrong("%s", status.Convert(err).Message()))
	}
	if err != nil {
		return false, fmt.Errorf("hello: %w", err)
	}
	if h := reply.Hello; h == nil || h.From != uint32(w.id) {
		return false, fmt.Errorf("hello: the answer is not witness %d's", w.id)
	}
	w.noteDisk(reply.Hello.Disk)
	w.accepted()
	w.pause.Store(0)
	w.connected.Store(true)
	defer w.connected.Store(false)
	line := newDelayLine(o.OneWayDelay.Of(w.id), o.Jitter.Of(w.id), w.deliver)
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
	frame := &witnessv1.Frame{}
	return true, w.queue.pump(ctx, func(messages []*peerv1.Message, ping, _ uint64) error {
		frame.Messages = frame.Messages[:0]
		for _, m := range messages {
			if m.Witness != nil {
				frame.Messages = append(frame.Messages, m.Witness)
			}
		}
		if ping != 0 {
			frame.Messages = append(frame.Messages, &witnessv1.Message{Kind: witnessv1.Kind_PING, Op: ping})
		}
		return stream.SendMsg(frame)
	})
}

// deliver hands on what was answered, as messages of the shards that asked.
func (w *witnessLink) deliver(frame *witnessv1.Frame) {
	if w.isBlocked(Incoming) {
		return
	}
	answers := make([]*peerv1.Message, 0, len(frame.Messages))
	memory := make([]peerv1.Message, len(frame.Messages))
	for i, answer := range frame.Messages {
		if answer.Kind == witnessv1.Kind_PONG {
			w.rtts.add(w.transport.clock(), answer.Op)
			continue
		}
		m := &memory[i]
		m.Kind, m.Shard, m.Witness = peerv1.Kind_WITNESS, answer.Partition, answer
		answers = append(answers, m)
	}
	if len(answers) > 0 {
		w.received.Add(uint64(len(answers)))
		w.transport.options.Handler(w.id, answers)
	}
}

// noteDisk logs that a witness is on another disk than the view names: it has lost what it saved, and is to be
// replaced.
func (w *witnessLink) noteDisk(disk string) {
	earlier := w.disk.Swap(&disk)
	if disk != w.view.Disk && (earlier == nil || *earlier != disk) {
		w.log.Warn("Witness is on another disk than the view names: what it had saved is lost",
			zap.String("disk", disk), zap.String("view", w.view.Disk))
	}
}
