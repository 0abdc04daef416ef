package node

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"go.uber.org/zap"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/runtime"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// drainFor bounds how long the member's end waits for operations under way: with a quorum they end within a round trip,
// and the listeners have waited for them before.
const drainFor = 250 * time.Millisecond

// memberState is what the member is at one time. It is never changed, only replaced.
type memberState struct {
	view    view.View        // epoch 0: none yet
	replica *runtime.Replica // nil: it serves nobody, as role and why say
	role    adminv1.Role     // without a replica
	why     string
	backlog *backlog  // not nil: a replica follows, and serves what comes in until then
	before  []updates // by partition: those of earlier replicas of this process
}

// updates counts those that clients submitted to this member, of one partition.
type updates struct{ fast, slow uint64 }

// site is where a member or a witness is, as far as the view tells.
func (m *memberState) site(id view.MemberID) string { return site(m.view, id) }

func site(v view.View, id view.MemberID) string {
	if i := v.Index(id); i >= 0 {
		return v.Members[i].Site
	}
	w, _ := v.Witness(id)
	return w.Site
}

// counted adds up what the replica of the moment and those before it counted.
func (m *memberState) counted() (all []updates) {
	all = make([]updates, len(m.before))
	copy(all, m.before)
	if m.replica == nil {
		return all
	}
	for i, p := range m.replica.Partitions() {
		if i == len(all) {
			all = append(all, updates{})
		}
		all[i].fast += p.Fast
		all[i].slow += p.Slow
	}
	return all
}

// Submit implements server.Store: operations go to the replica of the moment, or to the one that follows.
func (n *node) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) {
	for {
		switch now := n.now.Load(); {
		case now.replica != nil:
			if now.replica.Submit(op, timeout, done) {
				return
			} // it is not the one of the moment any more
		case now.backlog != nil:
			if now.backlog.add(op, timeout, done) {
				return
			} // nor is this
		default:
			go done(register.Result{Status: register.Unavailable, Message: now.refusal()})
			return
		}
	}
}

// refusal tells a client why nobody serves it here.
func (m *memberState) refusal() string { return m.why + "; ask another one" }

// openDisk opens the disk, and notes the view to start with.
func (n *node) openDisk() error {
	c := &n.config
	store, err := storage.Open(storage.Options{
		Directory: c.Directory,
		Identity: storage.Identity{
			Cluster: c.Cluster, Member: c.Self, Protocol: strings.ToLower(c.Protocol), Shards: c.Shards,
		},
		Durability: c.Durability, FlushEvery: time.Duration(c.FlushEvery), Logger: n.log, FileSystem: fileSystem(),
		Cache: cmp.Or(int64(c.Cache), n.options.Cache),
	})
	if err != nil {
		return err
	}
	if lies {
		n.log.Warn("Member loses what it acknowledged when it is killed: this binary was built with the tag lyingdisk")
	}
	n.store = store
	v, err := latest(store.View(), c.View(), c.Self)
	if err == nil && v.Epoch > 0 && v.Digest() != store.View().Digest() {
		err = store.SaveView(v)
	}
	if err != nil {
		return errors.Join(err, store.Close())
	}
	return nil
}

// begin makes the member what the view on its disk says. Nothing of an earlier view may run any more; handovers is what
// was under way in it, which goes on before the replica takes anything else, if there is one.
func (n *node) begin(ctx context.Context, from runtime.Inheritance, handovers []*runtime.Handover) error {
	v := n.store.View()
	switch {
	case v.Epoch == 0:
		n.now.Store(&memberState{role: adminv1.Role_WAITING, why: "this member waits to be given its first view"})
		n.log.Info("Member waits to be given a view", zap.String("disk", n.store.Disk()))
		return nil
	case removed(v, n.config.Self):
		n.now.Store(&memberState{view: v, role: adminv1.Role_REMOVED,
			why: fmt.Sprintf("this member was removed by epoch %d, and never serves again", v.Epoch)})
		n.log.Warn("Member was removed from the cluster", zap.Uint64("epoch", v.Epoch))
		return nil
	}
	c := &n.config
	peers, err := n.peerListener()
	if err != nil {
		return err
	}
	replica, err := runtime.Start(ctx, runtime.Options{
		View: v, Self: c.Self, Protocol: strings.ToLower(c.Protocol), Shards: c.Shards,
		Store: n.store, Inheritance: from,
		Sync: c.CURP.sync(), Listener: peers, Dial: n.options.Dial, Newer: n.learn,
		TransferRate: int(c.transferRate()),
		OneWayDelay:  func(from view.MemberID) time.Duration { return time.Duration(c.distance(site(v, from)).Delay) },
		Jitter:       func(from view.MemberID) time.Duration { return time.Duration(c.distance(site(v, from)).Jitter) },
		Limits:       c.limits(), Faults: c.FaultTolerance, Fragments: c.ErasureCoding.fragments(),
		Bootstrap: c.Bootstrap, Seed: uint64(c.Self), Metrics: n.registry, Logger: n.log,
	})
	if err != nil {
		return err
	}
	n.linking.Lock()
	defer n.linking.Unlock()
	for _, id := range append(ids(v), witnesses(v)...) {
		if n.cut[id] {
			if err := replica.Block(id, transport.Outgoing|transport.Incoming); err != nil {
				return errors.Join(err, replica.Close())
			}
		}
	}
	replica.Resume(handovers)
	var before []updates
	if last := n.now.Load(); last != nil {
		before = last.before
	}
	n.now.Store(&memberState{view: v, replica: replica, before: before})
	n.log.Info("Member acts in a view", zap.Uint64("epoch", v.Epoch), zap.String("digest", v.Digest()),
		zap.Int("members", v.Size()), zap.Bool("joint", v.Joint()), zap.Int("partitions", len(v.Partitions)))
	return nil
}

// end stops the replica, if there is one, for good.
func (n *node) end() error {
	now := n.now.Load()
	n.now.Store(&memberState{view: n.store.View(), role: now.role, why: "this member is stopping"})
	if now.replica == nil {
		return nil
	}
	return now.replica.CloseWithin(drainFor)
}

// offer is a view that somebody offers.
type offer struct {
	view   view.View
	answer chan error // capacity 1
}

// runViews runs the member in one view after the other, until the context ends (nil) or it fails.
func (n *node) runViews(ctx context.Context) error {
	defer close(n.viewsEnded)
	for {
		var failed <-chan struct{}
		replica := n.now.Load().replica
		if replica != nil {
			failed = replica.Done()
		}
		select {
		case <-ctx.Done():
			return nil
		case <-failed:
			return replica.Err()
		case <-n.store.Done():
			return n.store.Err()
		case o := <-n.offers:
			refused, err := n.accept(ctx, o.view)
			if err != nil {
				refused = status.Error(codes.Internal, err.Error())
			}
			o.answer <- refused
			if err != nil {
				return err
			}
		case v := <-n.learned:
			refused, err := n.accept(ctx, v)
			if err != nil {
				return err
			}
			if reason := fmt.Sprint(refused); refused != nil && n.mistrusted != reason { // it is told again and again
				n.mistrusted = reason
				n.log.Warn("A view that a peer told is refused", zap.Error(refused))
			}
		}
	}
}

// learn takes a view from a peer. It does not wait until the member acts in it, since that ends the connection
// over which it came; what comes too fast is told again.
func (n *node) learn(v view.View) {
	select {
	case n.learned <- v:
	default:
	}
}

// accept takes on a view, or says why it is refused. After an error of its own the member can't go on. Clients notice
// nothing but that their operations take longer.
func (n *node) accept(ctx context.Context, v view.View) (refused, err error) {
	fits, refused := takesOn(n.store.View(), v, &n.config)
	if !fits {
		return refused, nil
	}
	// What the disk says counts from here on, whatever happens to this process.
	if err := n.store.SaveView(v); err != nil {
		return nil, err
	}
	before := n.now.Load()
	waiting := &backlog{}
	n.now.Store(&memberState{view: v, role: adminv1.Role_LEARNER, backlog: waiting,
		why: fmt.Sprintf("this member takes on the view of epoch %d", v.Epoch)})
	handovers, err := n.replace(ctx, before)
	if err != nil {
		n.now.Store(&memberState{view: v, role: adminv1.Role_LEARNER, why: "this member failed"})
	}
	now := n.now.Load()
	late := waiting.release()
	if now.replica != nil {
		now.replica.Resume(late)
		return nil, nil
	}
	for _, c := range append(handovers, late...) {
		c.End(now.refusal())
	}
	return nil, err
}

// replace ends the replica, if there is one, and begins what the view on the disk says. The operations that were under
// way go on there; whoever finds no replica then has to end them.
func (n *node) replace(ctx context.Context, last *memberState) (handovers []*runtime.Handover, err error) {
	var from runtime.Inheritance
	if replica := last.replica; replica != nil {
		if handovers, from, err = replica.HandOver(); err != nil {
			return handovers, err
		}
		if err := n.store.Reboot(); err != nil {
			return handovers, err
		}
		next := *n.now.Load()
		next.before = last.counted()
		n.now.Store(&next)
	}
	return handovers, n.begin(context.WithoutCancel(ctx), from, handovers)
}

// configure offers a view, and waits until the member acts in it.
func (n *node) configure(ctx context.Context, v view.View) error {
	o := offer{v, make(chan error, 1)}
	select {
	case n.offers <- o:
	case <-n.viewsEnded:
		return status.Error(codes.Unavailable, "this member is stopping")
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
	select {
	case err := <-o.answer:
		return err
	case <-ctx.Done():
		return status.FromContextError(ctx.Err()).Err()
	}
}
