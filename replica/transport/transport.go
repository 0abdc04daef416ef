// Package transport carries batches of messages between members, in frames over connections, one per ordered pair and
// lane, and to witnesses and back, over a gRPC stream to each. Messages may be lost, duplicated by retries above, and
// reordered whenever a connection is replaced; protocols stand all of it.
package transport

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"sync"
	"time"

	"go.uber.org/zap"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/wire"
)

// WireVersion is the meaning of the frames that this code speaks. Another one is refused.
const WireVersion = 2

const (
	// maxFrameBytes is above any message: an instance carries several commands, each up to a value's limit.
	maxFrameBytes = 64 << 20
	// frameBytes is where a batch ends, so that a long queue does not become one endless frame.
	frameBytes = 512 << 10
	// bulkBytes is the size from which a message travels on the lane of large ones, where it delays no
	// small one.
	bulkBytes = 64 << 10
	// queueMessages and queueBytes bound what waits for a peer that does not take it. A message that could
	// not even fill a frame alone does not fit the queue either.
	queueMessages = 64 << 10
	queueBytes    = maxFrameBytes - 1<<10
	// pingEvery is how often the round trip to a peer is measured.
	pingEvery = 200 * time.Millisecond
)

// Handler takes messages that arrived. It is called from one goroutine per peer and lane, and must not keep
// the slice; a handler that blocks holds up that peer.
type Handler func(from view.MemberID, messages []*peerv1.Message)

// Dial connects to the address of a peer in the view, over TCP or what lies over that, such as TLS. It is called at
// each attempt, so that a name that leads elsewhere by now is followed.
type Dial func(ctx context.Context, address string) (net.Conn, error)

// Delay is how long what comes from a peer, or from a witness, is held. Nil: it is not.
type Delay func(from view.MemberID) time.Duration

// Of is the delay of what comes from one.
func (d Delay) Of(from view.MemberID) time.Duration {
	if d == nil {
		return 0
	}
	return d(from)
}

// Options say who talks to whom.
type Options struct {
	View     view.View
	Self     view.MemberID
	Protocol string
	Shards   int
	Listener net.Listener // where peers reach this member, as Dial connects; the transport closes it
	Handler  Handler
	Dial     Dial // nil: over TCP
	// OneWayDelay emulates the distance to each peer: what arrives from it is held that long. With the same at the
	// other end, a round trip takes twice as long. What goes to a witness, which emulates nothing, and what comes from
	// it are both held that long. Nil: none.
	OneWayDelay Delay
	// Jitter is up to how much is added to each delay, at random, without reordering a link. Nil: nothing.
	Jitter Delay
	// Distances are those of the transport of the view before, which has ended. Nil: nothing is known.
	Distances *Distances
	// Newer is told each view of a later epoch that a peer answers with. It is called from the transport's own
	// goroutines, so it must not wait for Close. Nil: nobody is told.
	Newer  func(view.View)
	Logger *zap.Logger // nil: none
}

// remote is a peer or a witness, over its link.
type remote interface {
	run(ctx context.Context)
	send(messages []*peerv1.Message)
	to() *link
	end() error // once the context has ended
}

// Transport is a member's connections to all others, and to the view's witnesses.
type Transport struct {
	options   Options
	view      []byte // encoded, for those that are behind
	peers     map[view.MemberID]*peer
	remotes   map[view.MemberID]remote // peers and witnesses
	distances *Distances
	cancel    context.CancelFunc
	tasks     sync.WaitGroup
	closing   sync.Once
	closed    error
}

// Start listens, and begins to connect to every other member of the view.
func Start(o Options) (*Transport, error) {
	if o.View.Index(o.Self) < 0 {
		return nil, fmt.Errorf("transport: member %d is not in the view", o.Self)
	}
	if o.Listener == nil || o.Handler == nil {
		return nil, errors.New("transport: a listener and a handler are needed")
	}
	o.Logger = cmp.Or(o.Logger, zap.NewNop())
	if o.Dial == nil {
		o.Dial = dialTCP
	}
	if o.Newer == nil {
		o.Newer = func(view.View) {}
	}
	encoded, err := wire.Marshal(o.View)
	if err != nil {
		return nil, fmt.Errorf("transport: encode the view: %w", err)
	}
	t := &Transport{
		options: o, view: encoded, peers: map[view.MemberID]*peer{}, remotes: map[view.MemberID]remote{},
		distances: &Distances{start: time.Now(), of: map[view.MemberID]*roundTrips{}},
	}
	if d := o.Distances; d != nil {
		t.distances.start = d.start
		maps.Copy(t.distances.of, d.of)
	}
	for _, m := range o.View.Members {
		if m.ID == o.Self {
			continue
		}
		p := newPeer(t, m)
		t.peers[m.ID], t.remotes[m.ID] = p, p
	}
	for _, of := range o.View.Witnesses {
		w, err := newWitnessLink(t, of)
		if err != nil {
			return nil, fmt.Errorf("transport: witness %d: %w", of.ID, err)
		}
		t.remotes[of.ID] = w
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	a := &acceptor{transport: t, strangers: newStrangers(len(o.View.Members), o.Logger)}
	t.tasks.Go(func() { a.run(ctx) })
	for _, r := range t.remotes {
		r.run(ctx)
	}
	return t, nil
}

// Send queues messages for a member, or for a witness of the view, and returns at once. The messages must not be
// changed any more; the slice is free again. What does not fit the queue is dropped and counted. A witness is asked
// what is in the messages' Witness, and its answers come as messages of that kind from its ID.
func (t *Transport) Send(to view.MemberID, messages []*peerv1.Message) {
	if r := t.remotes[to]; r != nil {
		r.send(messages)
	}
}

// Peers tells how the other members are reached, in the view's order.
func (t *Transport) Peers() (all []Peer) {
	for _, m := range t.options.View.Members {
		if p := t.peers[m.ID]; p != nil {
			all = append(all, p.status())
		}
	}
	return all
}

// Witnesses tells how the witnesses of the view are reached, in its order.
func (t *Transport) Witnesses() (all []Peer) {
	for _, w := range t.options.View.Witnesses {
		all = append(all, t.remotes[w.ID].to().status())
	}
	return all
}

// Distance is the smallest round trip to a peer, or to a witness, among the latest, and whether it answered a ping
// lately. The round trip is 0 before the first.
func (t *Transport) Distance(id view.MemberID) (rtt time.Duration, reachable bool) {
	if r := t.remotes[id]; r != nil {
		_, rtt, reachable = r.to().rtts.read(t.clock())
	}
	return rtt, reachable
}

// Direction is a way of a link, as this member sees it.
type Direction uint8

// The directions; they can be joined with |.
const (
	Outgoing Direction = 1 << iota
	Incoming
)

// Block cuts the link to a peer or a witness in the given directions and mends it in the others, as a partition would:
// messages vanish, nobody is told. Block(peer, 0) heals the link.
func (t *Transport) Block(id view.MemberID, directions Direction) error {
	r := t.remotes[id]
	if r == nil {
		return fmt.Errorf("transport: member %d has no peer or witness %d", t.options.Self, id)
	}
	r.to().blocked.Store(uint32(directions))
	return nil
}

// Close ends all streams. What is queued is lost.
func (t *Transport) Close() error {
	t.closing.Do(func() { t.closed = t.close() })
	return t.closed
}

func (t *Transport) close() error {
	t.cancel()
	errs := []error{t.options.Listener.Close()}
	for _, r := range t.remotes {
		errs = append(errs, r.end())
	}
	t.tasks.Wait()
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("transport: close: %w", err)
	}
	return nil
}

// clock is this member's own time, for round trips.
func (t *Transport) clock() time.Duration { return time.Since(t.distances.start) }

func (t *Transport) hello(to view.MemberID) *peerv1.Hello {
	o := &t.options
	return &peerv1.Hello{
		Cluster: o.View.Cluster, Member: uint32(o.Self), To: uint32(to), WireVersion: WireVersion,
		Protocol: o.Protocol, Shards: uint32(o.Shards), Epoch: o.View.Epoch,
		Members: ids(o.View, func(view.Member) bool { return true }),
		Joining: ids(o.View, func(m view.Member) bool { return m.Joining }),
		Leaving: ids(o.View, func(m view.Member) bool { return m.Leaving }),
	}
}
