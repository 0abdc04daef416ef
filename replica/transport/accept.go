package transport

import (
	"cmp"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// acceptor is the receiving end of the peers' streams.
type acceptor struct {
	peerv1.UnimplementedPeersServer
	transport *Transport
	refused   atomic.Pointer[string] // the latest refusal
}

// Stream receives what one peer sends, until the stream or the transport ends.
func (a *acceptor) Stream(stream peerv1.Peers_StreamServer) error {
	first := &peerv1.Frame{}
	if err := stream.RecvMsg(first); err != nil {
		return err
	}
	p, err := a.check(first.Hello)
	if err != nil {
		a.note(err)
		return cmp.Or(a.help(first.Hello, err, stream), err)
	}
	p.redial() // it is there, and of the same view
	if err := stream.SendMsg(&peerv1.Frame{Hello: a.transport.hello(p.id)}); err != nil {
		return err
	}
	line := newDelayLine(a.transport.options.OneWayDelay.Of(p.id), a.transport.options.Jitter.Of(p.id), p.deliver)
	defer line.close()
	var in inbound
	for {
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		line.put(in.Frame)
	}
}

// note logs a refusal, once: the peer calls again and again. Epochs differ in each change of the view for a moment.
func (a *acceptor) note(err error) {
	reason := status.Convert(err).Message()
	if earlier := a.refused.Swap(&reason); earlier == nil || *earlier != reason {
		a.transport.options.Logger.Log(severity(err), "Peer refused", zap.String("reason", reason))
	}
}

// help has whichever of the two is behind learn the newer view: the peer is told this member's, or asked for its own.
func (a *acceptor) help(h *peerv1.Hello, refusal error, stream peerv1.Peers_StreamServer) error {
	p := a.transport.peers[view.MemberID(h.GetMember())]
	switch {
	case status.Code(refusal) != behind:
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
	return stream.SendMsg(&peerv1.Frame{Hello: reply})
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

// behind is the code of a refusal because one of the two holds an older view: the newer one is on its way. Any other
// mismatch is an error of people.
const behind = codes.Aborted

// severity is that of a refusal in the log.
func severity(refusal error) zapcore.Level {
	if status.Code(refusal) == behind {
		return zapcore.InfoLevel
	}
	return zapcore.WarnLevel
}

// check refuses a peer that is not the one it should be, and says why.
func (a *acceptor) check(h *peerv1.Hello) (*peer, error) {
	o := &a.transport.options
	const wrong = codes.FailedPrecondition
	switch {
	case h == nil:
		return nil, status.Errorf(wrong, "the stream does not begin with a hello")
	case h.WireVersion != WireVersion:
		return nil, status.Errorf(wrong, "wire version %d is not %d, that of member %d",
			h.WireVersion, WireVersion, o.Self)
	case h.Cluster != o.View.Cluster:
		return nil, status.Errorf(wrong, "cluster %q is not %q, that of member %d", h.Cluster, o.View.Cluster, o.Self)
	case view.MemberID(h.To) != o.Self:
		return nil, status.Errorf(wrong, "member %d was called at the address of member %d", h.To, o.Self)
	case h.Protocol != o.Protocol:
		return nil, status.Errorf(wrong, "protocol %q is not %q, that of member %d", h.Protocol, o.Protocol, o.Self)
	case int(h.Shards) != o.Shards:
		return nil, status.Errorf(wrong, "%d shards are not %d, those of member %d", h.Shards, o.Shards, o.Self)
	}
	mine := a.transport.hello(view.MemberID(h.Member))
	p := a.transport.peers[view.MemberID(h.Member)]
	switch {
	case h.Epoch < mine.Epoch:
		return nil, status.Errorf(behind,
			"member %d is at epoch %d, behind epoch %d of member %d: it needs the newer view",
			h.Member, h.Epoch, mine.Epoch, o.Self)
	case h.Epoch > mine.Epoch:
		return nil, status.Errorf(behind,
			"member %d is at epoch %d, behind epoch %d of member %d: it needs the newer view",
			o.Self, mine.Epoch, h.Epoch, h.Member)
	case p == nil:
		return nil, status.Errorf(wrong, "member %d is not in the view of epoch %d of member %d",
			h.Member, mine.Epoch, o.Self)
	case !slices.Equal(h.Members, mine.Members):
		return nil, status.Errorf(wrong,
			"member %d holds members %v as the view of epoch %d, member %d holds %v: there are two views of one epoch",
			h.Member, h.Members, h.Epoch, o.Self, mine.Members)
	case !slices.Equal(h.Joining, mine.Joining) || !slices.Equal(h.Leaving, mine.Leaving):
		return nil, status.Errorf(wrong,
			"in the view of epoch %d that member %d holds, %v join and %v leave, in that of member %d %v join and "+
				"%v leave: there are two views of one epoch",
			h.Epoch, h.Member, h.Joining, h.Leaving, o.Self, mine.Joining, mine.Leaving)
	}
	return p, nil
}
