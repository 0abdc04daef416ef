package transport

import (
	"context"
	"fmt"

	"go.uber.org/zap"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// peer is the connection to one other member.
type peer struct {
	*link
	small *lane // messages and pings
	bulk  *lane // large messages
}

// lane is a queue to a peer and the stream that empties it.
type lane struct {
	*queue
	peer  *peer
	again chan struct{} // capacity 1: the peer is there now
}

func newPeer(t *Transport, m view.Member) *peer {
	p := &peer{link: newLink(t, "Peer", m.ID, m.Address)}
	p.small, p.bulk = newLane(p), newLane(p)
	return p
}

func newLane(p *peer) *lane {
	return &lane{
		queue: newQueue(p.link, queueMessages, queueBytes, sizeHint), peer: p, again: make(chan struct{}, 1),
	}
}

// run keeps a stream for each lane until the context ends.
func (p *peer) run(ctx context.Context) {
	tasks := &p.transport.tasks
	tasks.Go(func() { p.keep(ctx, p.small.again, p.small.stream) })
	tasks.Go(func() { p.keep(ctx, p.bulk.again, p.bulk.stream) })
	tasks.Go(func() { p.measure(ctx, func(ping uint64) { p.small.measure(ping, 0) }) })
}

// end does nothing: connections end with the context.
func (p *peer) end() error { return nil }

// redial has what does not stand be connected at once: the peer has just shown that it is there.
func (p *peer) redial() {
	signal(p.small.again)
	signal(p.bulk.again)
}

// learn hands on a newer view that the peer sent.
func (p *peer) learn(encoded []byte) {
	o := &p.transport.options
	v, err := wire.Unmarshal(encoded)
	switch {
	case p.isBlocked(Incoming):
	case err != nil || v.Epoch <= o.View.Epoch:
		p.log.Warn("Peer told no newer view", zap.Uint64("epoch", v.Epoch), zap.Error(err))
	default:
		o.Newer(v)
	}
}

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
	if frame.Ping != 0 && !p.isBlocked(Outgoing) {
		p.small.measure(0, frame.Ping)
	}
	if frame.Pong != 0 {
		p.rtts.add(p.transport.clock(), frame.Pong)
	}
	if n := len(frame.Messages); n > 0 {
		p.received.Add(uint64(n))
		p.transport.options.Handler(p.id, frame.Messages)
	}
}

// stream connects and sends what is queued until the connection breaks. It reports whether it was accepted.
func (l *lane) stream(ctx context.Context) (accepted bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	p := l.peer
	s, err := p.call(ctx)
	if err != nil {
		return false, err
	}
	defer s.close()
	p.accepted()
	if l == p.small {
		p.connected.Store(true)
		defer p.connected.Store(false)
	}
	go func() { // the peer sends nothing more; this ends with the connection, and tells of its end
		_, _ = s.from.ReadByte()
		cancel()
	}()
	frame := &peerv1.Frame{}
	return true, l.pump(ctx, func(messages []*peerv1.Message, ping, pong uint64) error {
		frame.Messages, frame.Ping, frame.Pong = messages, ping, pong
		return s.send(frame)
	})
}

// call connects to the peer, and returns when the two know each other.
func (p *peer) call(ctx context.Context) (*stream, error) {
	o := &p.transport.options
	dialing, cancel := context.WithTimeout(ctx, callTimeout)
	connection, err := o.Dial(dialing, p.address)
	cancel()
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	s := newStream(ctx, connection)
	if err := p.introduce(s); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// introduce exchanges hellos.
func (p *peer) introduce(s *stream) error {
	if err := s.send(&peerv1.Frame{Hello: p.transport.hello(p.id)}); err != nil {
		return fmt.Errorf("hello: %w", err)
	}
	reply, err := s.hello()
	if err != nil {
		return err
	}
	epoch := p.transport.options.View.Epoch
	switch h, r := reply.Hello, reply.Refusal; {
	case r != nil:
		if h.GetEpoch() > epoch && len(h.GetView()) > 0 {
			p.learn(h.View)
		}
		why := &refusal{r.Reason, r.Behind}
		p.refusedBy(why)
		return fmt.Errorf("hello: %w", why)
	case h == nil || h.Member != uint32(p.id) || h.Epoch != epoch:
		return fmt.Errorf("hello: the answer is not member %d's, of this epoch", p.id)
	}
	return nil
}
