package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync/atomic"
	"time"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// acceptor is the receiving end of the peers' connections.
type acceptor struct {
	transport *Transport
	strangers *strangers
	refused   atomic.Pointer[string] // the latest refusal
}

// run accepts connections until the context ends.
func (a *acceptor) run(ctx context.Context) {
	pause := time.Duration(0)
	for {
		connection, err := a.transport.options.Listener.Accept()
		switch {
		case ctx.Err() != nil:
			if err == nil {
				_ = connection.Close()
			}
			return
		case err == nil:
			pause = 0
			s := newStream(ctx, connection)
			a.strangers.add(s)
			a.transport.tasks.Go(func() {
				defer s.close()
				if err := a.serve(s); err != nil {
					a.transport.options.Logger.Debug("stream of peer ended", zap.Error(err))
				}
			})
			continue
		case errors.Is(err, net.ErrClosed):
			a.transport.options.Logger.Error("peer listener ended", zap.Error(err))
			return
		}
		// Such as for want of file descriptors: what is there goes on.
		pause = min(max(2*pause, firstPause), reconnectEvery)
		a.transport.options.Logger.Warn("A connection could not be accepted", zap.Error(err))
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return
		}
	}
}

// serve receives what one peer sends, until the connection ends.
func (a *acceptor) serve(s *stream) error {
	first, err := s.hello()
	a.strangers.remove(s)
	if err != nil {
		return err
	}
	p, refused := a.check(first.Hello)
	if refused != nil {
		a.note(refused)
		return s.send(&peerv1.Frame{
			Hello:   a.help(first.Hello, refused),
			Refusal: &peerv1.Refusal{Reason: refused.reason, Behind: refused.behind},
		})
	}
	p.redial() // it is there, and of the same view
	if err := s.send(&peerv1.Frame{Hello: a.transport.hello(p.id)}); err != nil {
		return err
	}
	line := newDelayLine(a.transport.options.OneWayDelay.Of(p.id), a.transport.options.Jitter.Of(p.id), p.deliver)
	defer line.close()
	var in inbound
	for {
		data, err := s.receive(maxFrameBytes)
		if err != nil {
			return err
		}
		if err := in.decode(data); err != nil {
			return fmt.Errorf("transport: decode frame: %w", err)
		}
		line.put(in.Frame)
	}
}

// note logs a refusal, once: the peer calls again and again.
func (a *acceptor) note(r *refusal) {
	if earlier := a.refused.Swap(&r.reason); earlier == nil || *earlier != r.reason {
		a.transport.options.Logger.Log(r.severity(), "Peer refused", zap.String("reason", r.reason))
	}
}

// help has whichever of the two is behind learn the newer view: the peer is told this member's, which is returned, or
// asked for its own.
func (a *acceptor) help(h *peerv1.Hello, r *refusal) *peerv1.Hello {
	p := a.transport.peers[view.MemberID(h.GetMember())]
	switch {
	case !r.behind:
		return nil
	case h.Epoch > a.transport.options.View.Epoch:
		if p != nil {
			p.redial() // it answers with its view
		}
		return nil
	case p != nil && p.isBlocked(Outgoing):
		return nil
	}
	reply := a.transport.hello(view.MemberID(h.Member))
	reply.View = a.transport.view
	return reply
}

// ids lists members of a view, in its order.
func ids(v view.View, which func(view.Member) bool) []uint32 {
	var all []uint32
	for _, m := range v.Members {
		if which(m) {
			all = append(all, uint32(m.ID))
		}
	}
	return all
}

// refusal is why one end does not talk to the other one.
type refusal struct {
	reason string
	behind bool // one of the two holds an older view: the newer one is on its way. All else is an error of people
}

func (r *refusal) Error() string { return r.reason }

// severity is that of a refusal in the log. Epochs differ in each change of the view for a moment.
func (r *refusal) severity() zapcore.Level {
	if r.behind {
		return zapcore.InfoLevel
	}
	return zapcore.WarnLevel
}

func wrong(format string, args ...any) *refusal {
	return &refusal{reason: fmt.Sprintf(format, args...)}
}

func behind(member view.MemberID, epoch, newer uint64, other view.MemberID) *refusal {
	return &refusal{behind: true, reason: fmt.Sprintf(
		"member %d is at epoch %d, behind epoch %d of member %d: it needs the newer view", member, epoch, newer, other)}
}

// check refuses a peer that is not the one it should be, and says why.
func (a *acceptor) check(h *peerv1.Hello) (*peer, *refusal) {
	o := &a.transport.options
	switch {
	case h == nil:
		return nil, wrong("the stream does not begin with a hello")
	case h.WireVersion != WireVersion:
		return nil, wrong("wire version %d is not %d, that of member %d",
			h.WireVersion, WireVersion, o.Self)
	case h.Cluster != o.View.Cluster:
		return nil, wrong("cluster %q is not %q, that of member %d", h.Cluster, o.View.Cluster, o.Self)
	case view.MemberID(h.To) != o.Self:
		return nil, wrong("member %d was called at the address of member %d", h.To, o.Self)
	case h.Protocol != o.Protocol:
		return nil, wrong("protocol %q is not %q, that of member %d", h.Protocol, o.Protocol, o.Self)
	case int(h.Shards) != o.Shards:
		return nil, wrong("%d shards are not %d, those of member %d", h.Shards, o.Shards, o.Self)
	}
	mine := a.transport.hello(view.MemberID(h.Member))
	p := a.transport.peers[view.MemberID(h.Member)]
	switch {
	case h.Epoch < mine.Epoch:
		return nil, behind(view.MemberID(h.Member), h.Epoch, mine.Epoch, o.Self)
	case h.Epoch > mine.Epoch:
		return nil, behind(o.Self, mine.Epoch, h.Epoch, view.MemberID(h.Member))
	case p == nil:
		return nil, wrong("member %d is not in the view of epoch %d of member %d",
			h.Member, mine.Epoch, o.Self)
	case !slices.Equal(h.Members, mine.Members):
		return nil, wrong(
			"member %d holds members %v as the view of epoch %d, member %d holds %v: there are two views of one epoch",
			h.Member, h.Members, h.Epoch, o.Self, mine.Members)
	case !slices.Equal(h.Joining, mine.Joining) || !slices.Equal(h.Leaving, mine.Leaving):
		return nil, wrong(
			"in the view of epoch %d that member %d holds, %v join and %v leave, in that of member %d %v join and "+
				"%v leave: there are two views of one epoch",
			h.Epoch, h.Member, h.Joining, h.Leaving, o.Self, mine.Joining, mine.Leaving)
	}
	return p, nil
}
