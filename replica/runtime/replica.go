// Package runtime is the real world of the protocols: it runs the shards of one member over its disk, its
// network and its clock.
package runtime

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cespare/xxhash/v2"
	"go.uber.org/zap"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

// drainFor bounds how long Close waits for operations that are under way.
const drainFor = 2 * time.Second

// Replica is one running member.
type Replica struct {
	options   Options
	store     *storage.Store
	transport *transport.Transport
	shards    []*shard
	metrics   *metrics
	start     time.Time
	clock     clock

	barriers    barriers    // of operations that wait for fences
	refusing    atomic.Bool // no more operations
	refusals    refusals
	handingOver atomic.Bool // operations go over to another replica
	stopping    context.Context
	halt        context.CancelFunc // tells the shards to stop
	loops       sync.WaitGroup
	closing     sync.Once
	closed      error

	working context.Context // ends when the replica has failed, and says why
	cancel  context.CancelCauseFunc
}

// Start runs a member on its disk until Close, or until it fails. The context bounds the start alone. Starting does not
// wait for peers.
func Start(ctx context.Context, o Options) (*Replica, error) {
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	if err := o.complete(); err != nil {
		return nil, fmt.Errorf("replica: %w", err)
	}
	r := &Replica{options: o, store: o.Store, start: time.Now(), clock: newClock(o.elapsed)}
	r.stopping, r.halt = context.WithCancel(context.Background())
	r.working, r.cancel = context.WithCancelCause(context.Background())
	if err := r.open(); err != nil {
		return nil, fmt.Errorf("replica of member %d: %w", o.Self, errors.Join(err, o.Listener.Close()))
	}
	for _, s := range r.shards {
		r.loops.Go(s.run)
	}
	go r.watch()
	return r, nil
}

// open makes everything but runs nothing of it, except that peers may connect.
func (r *Replica) open() (err error) {
	o := &r.options
	r.metrics = newMetrics(r)
	r.store.Observe(r.metrics.observeCommit)
	if err := r.splitDisk(); err != nil {
		r.condemn(err)
		return err
	}
	for i := range o.shardCount() {
		s, err := newShard(r, i)
		if err != nil {
			r.condemn(err)
			return fmt.Errorf("shard %d: %w", i, err)
		}
		r.shards = append(r.shards, s)
	}
	r.transport, err = transport.Start(transport.Options{
		View: o.View, Self: o.Self, Protocol: o.spoken(), Shards: o.Shards, Listener: o.Listener,
		Handler: r.receive, Distances: o.Distances, Newer: o.Newer, Dial: o.Dial,
		OneWayDelay: o.OneWayDelay, Jitter: o.Jitter, Logger: o.Logger,
	})
	if err != nil {
		return err
	}
	if o.Metrics == nil {
		return nil
	}
	if err := o.Metrics.Register(r.metrics); err != nil {
		return errors.Join(fmt.Errorf("register metrics: %w", err), r.transport.Close())
	}
	return nil
}

// founded reports that an empty disk of this member votes: the cluster is being created on it.
func (r *Replica) founded() bool {
	o := &r.options
	self := o.View.Members[o.View.Index(o.Self)]
	// By name, a disk is founded even if this member lost one earlier: what was lost had no part in the cluster.
	return self.Disk != "" && self.Disk == r.store.Disk() || o.Bootstrap && !r.store.Lost()
}

// spoken names what members must agree on to talk: with another number of faults, others count other quorums, and with
// other fragments they don't know values from names.
func (o *Options) spoken() string {
	spoken := o.Protocol
	if o.Faults != 0 {
		spoken += fmt.Sprintf(" with faultTolerance %d", o.Faults)
	}
	if f := o.Fragments; f.Data != 0 {
		spoken += fmt.Sprintf(" with erasureCoding of %d fragments above %d bytes", f.Data, f.Threshold)
	}
	return spoken
}

// config is what the protocol of a shard is told.
func (r *Replica) config(shard int) protocol.Config {
	o := &r.options
	return protocol.Config{
		Self: o.Self, View: o.View, Shard: shard, Boot: r.store.Boot(), Nearest: o.first(),
		Functions: o.Functions, Limits: o.Limits, Faults: o.Faults, Fragments: o.Fragments, Sync: o.Sync,
		Retry: o.Retry, Suspect: o.Suspect,
		Seed:      o.Seed + uint64(o.Self)<<32 + uint64(shard),
		Nonce:     rand.Uint64(),
		Bootstrap: r.founded(),
		Undoubted: r.store.Durability() == storage.Memory, // nothing outlives its process
		Continued: o.Continued,
		Promised:  r.promised(shard),
		Count:     r.metrics.paths(),

		TransferRate: o.shardRate(),
	}
}

// watch turns a failure of the disk into one of the replica, and a failure of the replica into a stop.
func (r *Replica) watch() {
	select {
	case <-r.store.Done():
		r.fail(r.store.Err())
	case <-r.Done():
	case <-r.stopping.Done():
		return
	}
	r.halt()
	if err := r.transport.Close(); err != nil {
		r.options.Logger.Warn("stop after a failure", zap.Error(err))
	}
}

// fail stops the member: it answers no one any more, neither clients nor peers.
func (r *Replica) fail(err error) {
	if r.failed() {
		return // the first reason counts
	}
	r.refusing.Store(true)
	r.options.Logger.Error("replica stopped", zap.Error(err))
	r.cancel(fmt.Errorf("replica of member %d stopped: %w", r.options.Self, err))
}

func (r *Replica) failed() bool { return r.Err() != nil }

// Done is closed when the replica failed; Err says why. It answers nothing from then on.
func (r *Replica) Done() <-chan struct{} { return r.working.Done() }

// Err is why the replica failed, or nil.
func (r *Replica) Err() error { return context.Cause(r.working) }

// Shard is the shard of a key: xxhash64 of the key, modulo the number of shards. This never changes, since
// the disks depend on it. Where partitions were split, view.View.Shard says it.
func Shard(key string, shards int) int { return view.Shard(hash(key), shards, shards) }

func hash(key string) uint64 { return xxhash.Sum64String(key) }

// place is the shard of a key here.
func (r *Replica) place(key string) int {
	if r.options.partitioned != nil {
		return r.options.View.Shard(hash(key))
	}
	return Shard(key, len(r.shards))
}

// Submit starts an operation and returns at once. What it comes after (register.Operation.After) is at quorums before
// it has any effect, and before it is answered. Done is called exactly once, from another goroutine, soon after timeout
// at the latest (0: there is no limit); it must not block. What it is given must not be changed.
//
// It is false, and nothing happens, if the replica has stopped to carry its operations over (HandOver): the next one is
// who to ask.
func (r *Replica) Submit(op register.Operation, timeout time.Duration, done func(register.Result)) bool {
	if err := r.options.check(&op); err != nil {
		go done(register.Result{Status: register.Invalid, Message: err.Error()})
		return true
	}
	if r.refusing.Load() {
		go done(stopping)
		return true
	}
	now := r.clock.now()
	q := request{operation: op, submission: submission{done: done, begun: now, kind: op.Kind}}
	if timeout > 0 {
		q.submission.deadline = now.Add(timeout)
	}
	if op.Kind == register.Fence || len(op.After) > 0 {
		return r.submitAfter(q)
	}
	return r.home(&op).submit(q)
}

// What is refused was not begun.
var (
	stopping = register.Result{Status: register.Unavailable, Message: "this member is stopping; ask another one"}
	tooMany  = register.Result{Status: register.Unavailable,
		Message: "too many operations are under way at this member; slow down or ask another one"}
)

// receive sorts what a peer sent by shard.
func (r *Replica) receive(from view.MemberID, messages []*peerv1.Message) {
	for begin := 0; begin < len(messages); {
		number := messages[begin].Shard
		end := begin + 1
		for end < len(messages) && messages[end].Shard == number {
			end++
		}
		if int(number) < len(r.shards) {
			r.shards[number].receive(from, messages[begin:end])
		}
		begin = end
	}
}

// Close stops in order: it refuses new operations, and lets those under way finish for a moment. After a failure it
// returns the reason.
func (r *Replica) Close() error { return r.CloseWithin(drainFor) }

// CloseWithin is Close with another bound on the time that operations under way have. What has not ended by then
// ends as unknown.
func (r *Replica) CloseWithin(drain time.Duration) error {
	r.closing.Do(func() { r.closed = r.close(drain) })
	return r.closed
}

func (r *Replica) close(drain time.Duration) error {
	r.refusing.Store(true)
	late := time.NewTimer(drain)
	defer late.Stop()
	for _, s := range r.shards {
		s.drain()
	}
	for _, s := range r.shards {
		select {
		case <-s.drained.Done():
		case <-late.C:
			late.Reset(0) // no more patience with the other shards
		case <-r.Done():
		}
	}
	return r.end()
}

// end stops the loops, and leaves the disk and the network.
func (r *Replica) end() error {
	r.halt()
	if !r.failed() {
		r.loops.Wait()
	}
	if r.options.Metrics != nil {
		r.options.Metrics.Unregister(r.metrics)
	}
	if r.failed() {
		// A loop may be held for ever by the failed disk, so it is not waited for.
		return errors.Join(r.Err(), r.transport.Close())
	}
	r.store.Observe(nil)
	if err := r.transport.Close(); err != nil {
		return fmt.Errorf("replica of member %d: close: %w", r.options.Self, err)
	}
	return nil
}
