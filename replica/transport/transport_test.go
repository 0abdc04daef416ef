package transport

import (
	"bytes"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/listenertest"
)

// inbox remembers what arrived.
type inbox struct {
	mutex    sync.Mutex
	messages []*peerv1.Message
	at       []time.Time
}

func (i *inbox) handle(_ view.MemberID, messages []*peerv1.Message) {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	for _, m := range messages {
		i.messages = append(i.messages, m)
		i.at = append(i.at, time.Now())
	}
}

func (i *inbox) ops() []uint64 {
	i.mutex.Lock()
	defer i.mutex.Unlock()
	ops := make([]uint64, len(i.messages))
	for n, m := range i.messages {
		ops[n] = m.Op
	}
	return ops
}

// pair is two members that talk to each other.
type pair struct {
	view    view.View
	ends    [2]*Transport
	inboxes [2]*inbox
}

func newPair(t *testing.T, change func(member int, o *Options)) *pair {
	t.Helper()
	p := &pair{view: view.View{Cluster: "c", Epoch: 1}, inboxes: [2]*inbox{{}, {}}}
	var listeners [2]net.Listener
	for i := range listeners {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		listeners[i] = listener
		p.view.Members = append(p.view.Members,
			view.Member{ID: view.MemberID(i + 1), Address: listener.Addr().String()})
	}
	for i := range p.ends {
		p.start(t, i, listeners[i], change)
	}
	return p
}

func (p *pair) start(t *testing.T, i int, listener net.Listener, change func(int, *Options)) {
	t.Helper()
	o := Options{
		View: p.view, Self: view.MemberID(i + 1), Protocol: "toy", Shards: 2, Listener: listener,
		Handler: p.inboxes[i].handle,
	}
	if change != nil {
		change(i, &o)
	}
	end, err := Start(o)
	if err != nil {
		t.Fatal(err)
	}
	p.ends[i] = end
	t.Cleanup(func() {
		if err := end.Close(); err != nil {
			t.Error(err)
		}
	})
}

func TestMessagesArriveWholeAndInOrder(t *testing.T) {
	p := newPair(t, nil)
	const n = 5000
	var sent []*peerv1.Message
	for i := range n {
		sent = append(sent,
			&peerv1.Message{
				Kind: peerv1.Kind_WRITE2, Op: uint64(i + 1), Shard: 1, Key: fmt.Append(nil, "key-", i), Present: true,
				Value: fmt.Append(nil, "value-", i),
			})
	}
	for part := range slices.Chunk(sent, 37) {
		p.ends[0].Send(2, part)
	}
	listenertest.WaitUntil(t, "all arrive", func() bool { return len(p.inboxes[1].ops()) == n })
	for i, m := range p.inboxes[1].messages {
		if !bytes.Equal(m.Key, sent[i].Key) || !bytes.Equal(m.Value, sent[i].Value) ||
			m.Op != sent[i].Op || m.Shard != 1 {
			t.Fatalf("message %d arrived as %v", i, m)
		}
	}
	// A frame is counted as sent after it was written: its receiver may have it by then.
	listenertest.WaitUntil(t, "all are counted as sent", func() bool { return p.ends[0].Peers()[0].Sent == n })
	status := p.ends[0].Peers()[0]
	if status.Dropped != 0 || !status.Connected || p.ends[1].Peers()[0].Received != n {
		t.Errorf("counted %+v", status)
	}
}

func TestLargeMessagesTravel(t *testing.T) {
	p := newPair(t, nil)
	value := bytes.Repeat([]byte("v"), 1<<20)
	large := &peerv1.Message{Op: 1, Value: value}
	instance := &peerv1.Message{Op: 2, Instance: &peerv1.Instance{Commands: []*peerv1.Command{
		{Args: [][]byte{value}}, {Args: [][]byte{value}}, {Args: [][]byte{value}}, {Args: [][]byte{value}},
		{Args: [][]byte{value}},
	}}}
	p.ends[0].Send(2, []*peerv1.Message{large, {Op: 3}, instance, {Op: 4}})
	listenertest.WaitUntil(t, "all arrive", func() bool { return len(p.inboxes[1].ops()) == 4 })
	if ops := p.inboxes[1].ops(); slices.Index(ops, 3) > slices.Index(ops, 4) ||
		slices.Index(ops, 1) > slices.Index(ops, 2) {
		t.Errorf("a lane reorders: %v", ops)
	}
}

func TestAStrangerIsRefusedWithTheReason(t *testing.T) {
	tests := map[string]func(*Options){
		`cluster "d" is not "c"`:      func(o *Options) { o.View.Cluster = "d" },
		`protocol "gus" is not "toy"`: func(o *Options) { o.Protocol = "gus" },
		"3 shards are not 2":          func(o *Options) { o.Shards = 3 },
		"holds members [1 2 9] as the view of epoch 1, member 2 holds [1 2]: " +
			"there are two views of one epoch": func(o *Options) {
			o.View.Members = append(o.View.Members, view.Member{ID: 9, Site: "c", Address: "127.0.0.1:1"})
		},
		"member 7 is not in the view of epoch 1 of member 2": func(o *Options) { o.Self, o.View.Members[0].ID = 7, 7 },
	}
	for says, change := range tests {
		t.Run(says, func(t *testing.T) {
			p := newPair(t, func(i int, o *Options) {
				if i == 0 {
					o.View.Members = slices.Clone(o.View.Members)
					change(o)
				}
			})
			listenertest.WaitUntil(t, "the refusal is known", func() bool {
				return strings.Contains(p.ends[0].Peers()[0].Refused, says)
			})
			p.ends[0].Send(2, []*peerv1.Message{{Op: 1}})
			if ops := p.inboxes[1].ops(); len(ops) != 0 {
				t.Errorf("a stranger was heard: %v", ops)
			}
		})
	}
}

func TestAPeerThatComesBackIsFound(t *testing.T) {
	p := newPair(t, nil)
	p.ends[0].Send(2, []*peerv1.Message{{Op: 1}})
	listenertest.WaitUntil(t, "the first arrives", func() bool { return len(p.inboxes[1].ops()) == 1 })
	if err := p.ends[1].Close(); err != nil {
		t.Fatal(err)
	}
	listenertest.WaitUntil(t, "the loss is noticed", func() bool { return !p.ends[0].Peers()[0].Reachable })
	var listener net.Listener
	listenertest.WaitUntil(t, "the address is free", func() (ok bool) {
		var err error
		listener, err = net.Listen("tcp", p.view.Members[1].Address)
		return err == nil
	})
	p.start(t, 1, listener, nil)
	listenertest.WaitUntil(t, "the peer is reached again", func() bool { return p.ends[0].Peers()[0].Reachable })
	p.ends[0].Send(2, []*peerv1.Message{{Op: 2}})
	listenertest.WaitUntil(t, "the second arrives", func() bool { return slices.Contains(p.inboxes[1].ops(), 2) })
}

func TestBlockingIsPerDirection(t *testing.T) {
	p := newPair(t, nil)
	reached := func() bool { return p.ends[0].Peers()[0].Reachable && p.ends[1].Peers()[0].Reachable }
	listenertest.WaitUntil(t, "both ways work", reached)
	for _, directions := range []Direction{Outgoing, Incoming, Outgoing | Incoming} {
		if err := p.ends[0].Block(2, directions); err != nil {
			t.Fatal(err)
		}
		listenertest.WaitUntil(t, "both ends notice", func() bool {
			return !p.ends[0].Peers()[0].Reachable && !p.ends[1].Peers()[0].Reachable
		})
		heard := len(p.inboxes[1].ops())
		p.ends[0].Send(2, []*peerv1.Message{{Op: uint64(directions)}})
		if directions == Incoming {
			listenertest.WaitUntil(t, "the open direction carries", func() bool {
				return len(p.inboxes[1].ops()) == heard+1
			})
		} else if p.ends[0].Peers()[0].Dropped == 0 {
			t.Error("a blocked message is not counted")
		}
		if err := p.ends[0].Block(2, 0); err != nil {
			t.Fatal(err)
		}
		listenertest.WaitUntil(t, "both ways work again", reached)
	}
	if slices.Contains(p.inboxes[1].ops(), uint64(Outgoing)) {
		t.Error("a blocked message arrived")
	}
	if err := p.ends[0].Block(9, Outgoing); err == nil {
		t.Error("an unknown peer can be blocked")
	}
}

func TestDelayHoldsAndKeepsOrder(t *testing.T) {
	const delay = 20 * time.Millisecond
	p := newPair(t, func(_ int, o *Options) {
		o.OneWayDelay = func(view.MemberID) time.Duration { return delay }
		o.Jitter = func(view.MemberID) time.Duration { return 5 * time.Millisecond }
	})
	listenertest.WaitUntil(t, "the round trip is measured", func() bool { return p.ends[0].Peers()[0].RTT > 0 })
	if rtt := p.ends[0].Peers()[0].MinRTT; rtt < 2*delay {
		t.Errorf("a round trip of %s with %s each way", rtt, delay)
	}
	const n = 200
	begun := make([]time.Time, n)
	for i := range n {
		begun[i] = time.Now()
		p.ends[0].Send(2, []*peerv1.Message{{Op: uint64(i)}})
	}
	listenertest.WaitUntil(t, "all arrive", func() bool { return len(p.inboxes[1].ops()) == n })
	if !slices.IsSorted(p.inboxes[1].ops()) {
		t.Error("jitter reorders a link")
	}
	for i, at := range p.inboxes[1].at {
		if at.Sub(begun[i]) < delay {
			t.Fatalf("message %d took %s, less than the delay of %s", i, at.Sub(begun[i]), delay)
		}
	}
}

func TestAFullQueueDropsAndCounts(t *testing.T) {
	l := newLane(&peer{link: &link{}})
	messages := make([]*peerv1.Message, queueMessages+10)
	for i := range messages {
		messages[i] = &peerv1.Message{}
	}
	l.put(messages)
	if queue, _, _ := l.take(nil); len(queue) != queueMessages || l.peer.dropped.Load() != 10 {
		t.Errorf("%d queued, %d dropped", len(queue), l.peer.dropped.Load())
	}
	l.put([]*peerv1.Message{{Value: make([]byte, queueBytes/2)}, {Value: make([]byte, queueBytes/2)}, {}})
	if queue, _, _ := l.take(nil); len(queue) != 2 || l.peer.dropped.Load() != 11 {
		t.Errorf("%d messages queued although one does not fit, %d dropped", len(queue), l.peer.dropped.Load())
	}
}

func TestStartRefusesNonsense(t *testing.T) {
	v := view.View{Cluster: "c", Epoch: 1, Members: []view.Member{{ID: 1}}}
	for says, o := range map[string]Options{
		"member 2 is not in the view":         {View: v, Self: 2},
		"a listener and a handler are needed": {View: v, Self: 1},
	} {
		if _, err := Start(o); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}
