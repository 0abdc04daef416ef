package transport

import (
	"context"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/test/listenertest"
)

// renew ends an end of the pair and starts it with the pair's view in another epoch, and an inbox of its own.
func (p *pair) renew(t *testing.T, i int, epoch uint64) {
	t.Helper()
	if err := p.ends[i].Close(); err != nil {
		t.Fatal(err)
	}
	p.inboxes[i] = &inbox{}
	p.start(t, i, listenAt(t, p.view.Members[i].Address), func(_ int, o *Options) { o.View.Epoch = epoch })
}

func listenAt(t *testing.T, address string) (listener net.Listener) {
	t.Helper()
	listenertest.WaitUntil(t, "the address is free", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", address)
		return err == nil
	})
	return listener
}

func TestEpochsDoNotMix(t *testing.T) {
	p := newPair(t, nil)
	p.ends[0].Send(2, []*peerv1.Message{{Op: 1}})
	listenertest.WaitUntil(t, "they talk", func() bool { return slices.Contains(p.inboxes[1].ops(), 1) })

	p.renew(t, 1, 2)
	const says = "member 1 is at epoch 1, behind epoch 2 of member 2"
	listenertest.WaitUntil(t, "the old stream is torn down, and the one behind is told", func() bool {
		peer := p.ends[0].Peers()[0]
		return !peer.Connected && strings.Contains(peer.Refused, says)
	})
	listenertest.WaitUntil(t, "the one ahead is told", func() bool {
		return strings.Contains(p.ends[1].Peers()[0].Refused, says)
	})
	p.ends[0].Send(2, []*peerv1.Message{{Op: 2}}) // waits for a stream that never comes
	p.ends[1].Send(1, []*peerv1.Message{{Op: 3}})

	earlier := p.inboxes[0]
	p.renew(t, 0, 2)
	p.ends[0].Send(2, []*peerv1.Message{{Op: 4}})
	p.ends[1].Send(1, []*peerv1.Message{{Op: 5}})
	listenertest.WaitUntil(t, "they talk in the new epoch", func() bool {
		return slices.Contains(p.inboxes[1].ops(), 4) && slices.Contains(p.inboxes[0].ops(), 5)
	})
	if ops := p.inboxes[1].ops(); slices.Contains(ops, 2) {
		t.Errorf("what was sent in epoch 1 arrives in epoch 2: %v", ops)
	}
	if ops := earlier.ops(); len(ops) > 0 {
		t.Errorf("what was sent in epoch 2 arrived in epoch 1: %v", ops)
	}
	for _, end := range p.ends {
		if refused := end.Peers()[0].Refused; refused != "" {
			t.Errorf("still refused: %s", refused)
		}
	}
}

// The name of a peer leads elsewhere after it moved.
func TestAPeerIsFoundWhereItsNameLeads(t *testing.T) {
	const name = "cluster-va-2-0.cluster-peers:7000"
	var leads atomic.Pointer[string]
	var asked atomic.Int64
	dial := func(ctx context.Context, address string) (net.Conn, error) {
		if address == name {
			asked.Add(1)
			address = *leads.Load()
		}
		return dialTCP(ctx, address)
	}
	listener := listenAt(t, "127.0.0.1:0")
	first := listener.Addr().String()
	leads.Store(&first)
	p := newPair(t, func(i int, o *Options) {
		o.Dial = dial
		o.View.Members = slices.Clone(o.View.Members)
		o.View.Members[1].Address = name
		if i == 1 {
			if err := o.Listener.Close(); err != nil {
				t.Fatal(err)
			}
			o.Listener = listener
		}
	})
	listenertest.WaitUntil(t, "the peer is reached", func() bool { return p.ends[0].Peers()[0].Reachable })
	if err := p.ends[1].Close(); err != nil {
		t.Fatal(err)
	}
	listenertest.WaitUntil(t, "the loss is noticed", func() bool { return !p.ends[0].Peers()[0].Reachable })
	before := asked.Load()
	listenertest.WaitUntil(t, "the name is asked for again", func() bool { return asked.Load() > before })
	moved := listenAt(t, "127.0.0.1:0")
	second := moved.Addr().String()
	leads.Store(&second)
	p.start(t, 1, moved, nil)
	listenertest.WaitUntil(t, "the peer is reached where it is now", func() bool {
		return p.ends[0].Peers()[0].Reachable
	})
}
