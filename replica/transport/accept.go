package transport

import (
	"fmt"
	"slices"
	"sync/atomic"

	"go.uber.org/zap"
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
		reason := err.Error()
		if earlier := a.refused.Swap(&reason); earlier == nil || *earlier != reason { // it calls again and again
			a.transport.options.Logger.Warn("peer refused", zap.Error(err))
		}
		return status.Error(codes.FailedPrecondition, reason)
	}
	if err := stream.SendMsg(&peerv1.Frame{Hello: a.transport.hello(p.member.ID)}); err != nil {
		return err
	}
	line := newDelayLine(p, a.transport.options.OneWayDelay, a.transport.options.jitter(p.member.ID))
	defer line.close()
	for {
		var in inbound
		if err := stream.RecvMsg(&in); err != nil {
			return err
		}
		line.put(in.Frame)
	}
}

// ids lists who is in a view, in its order.
func ids(v view.View) []uint32 {
	var all []uint32
	for _, m := range v.Members {
		all = append(all, uint32(m.ID))
	}
	return all
}

// check refuses a peer that is not the one it should be, and says why.
func (a *acceptor) check(h *peerv1.Hello) (*peer, error) {
	o := &a.transport.options
	switch {
	case h == nil:
		return nil, fmt.Errorf("the stream does not begin with a hello")
	case h.WireVersion != WireVersion:
		return nil, fmt.Errorf("wire version %d is not %d, that of member %d", h.WireVersion, WireVersion, o.Self)
	case h.Cluster != o.View.Cluster:
		return nil, fmt.Errorf("cluster %q is not %q, that of member %d", h.Cluster, o.View.Cluster, o.Self)
	case view.MemberID(h.To) != o.Self:
		return nil, fmt.Errorf("member %d was called at the address of member %d", h.To, o.Self)
	case h.Protocol != o.Protocol:
		return nil, fmt.Errorf("protocol %q is not %q, that of member %d", h.Protocol, o.Protocol, o.Self)
	case int(h.Shards) != o.Shards:
		return nil, fmt.Errorf("%d shards are not %d, those of member %d", h.Shards, o.Shards, o.Self)
	}
	p := a.transport.peers[view.MemberID(h.Member)]
	switch {
	case p == nil:
		return nil, fmt.Errorf("member %d, which is at epoch %d, is not in the view of epoch %d of member %d",
			h.Member, h.Epoch, o.View.Epoch, o.Self)
	case h.Epoch < o.View.Epoch:
		return nil, fmt.Errorf("member %d is at epoch %d, behind epoch %d of member %d: it needs the newer view",
			h.Member, h.Epoch, o.View.Epoch, o.Self)
	case h.Epoch > o.View.Epoch:
		return nil, fmt.Errorf("member %d is at epoch %d, behind epoch %d of member %d: it needs the newer view",
			o.Self, o.View.Epoch, h.Epoch, h.Member)
	case !slices.Equal(h.Members, ids(o.View)):
		return nil, fmt.Errorf("member %d holds members %v as the view of epoch %d, member %d holds %v: there are two views of one epoch",
			h.Member, h.Members, h.Epoch, o.Self, ids(o.View))
	}
	return p, nil
}
