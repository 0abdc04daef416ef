package client

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	registerv1 "github.com/georegister/georegister/api/register/v1"
	"github.com/georegister/georegister/replica/register"
)

// router sends operations to replicas, nearest first.
type router struct {
	options   Options
	endpoints []*endpoint
	order     atomic.Pointer[[]*endpoint] // by preference; replaced, never changed
	limits    atomic.Pointer[register.Limits]

	ctx     context.Context // the client's life
	cancel  context.CancelFunc
	probing sync.WaitGroup
	sorting sync.Mutex
	first   chan struct{} // closed when a replica has answered
	once    sync.Once
	closing sync.Once
	closed  error
}

func newRouter(options Options) (*router, error) {
	r := &router{options: options, first: make(chan struct{})}
	r.ctx, r.cancel = context.WithCancel(context.Background())
	for _, e := range options.Endpoints {
		endpoint, err := newEndpoint(e, options.DialOptions)
		if err != nil {
			return nil, errors.Join(err, r.close())
		}
		r.endpoints = append(r.endpoints, endpoint)
	}
	r.sort()
	for _, e := range r.endpoints {
		r.probing.Go(func() { r.probe(e) })
	}
	return r, nil
}

// probe measures one endpoint until the client is closed. The first time counts twice, as it includes
// the setting up of the connection.
func (r *router) probe(e *endpoint) {
	for again := true; ; {
		ctx, cancel := context.WithTimeout(r.ctx, r.options.AttemptTimeout)
		info, err := e.measure(ctx)
		cancel()
		r.sort()
		if err == nil {
			r.limits.Store(&register.Limits{KeyBytes: int(info.KeyBytes), ValueBytes: int(info.ValueBytes)})
			r.once.Do(func() { close(r.first) })
			if again {
				again = false
				continue
			}
		}
		select {
		case <-r.ctx.Done():
			return
		case <-time.After(r.pause(err)):
		}
	}
}

// pause is the time to the next ping; one that failed is repeated sooner.
func (r *router) pause(err error) time.Duration {
	if err != nil {
		return min(r.options.PingInterval, 500*time.Millisecond)
	}
	return r.options.PingInterval
}

func (r *router) sort() {
	r.sorting.Lock()
	defer r.sorting.Unlock()
	sorted := byPreference(r.endpoints, r.options.InOrder)
	r.order.Store(&sorted)
}

// awaitOne waits until a replica has answered.
func (r *router) awaitOne(ctx context.Context) error {
	select {
	case <-r.first:
		return nil
	case <-ctx.Done():
	}
	causes := []error{ErrUnavailable, ctx.Err()}
	for _, e := range r.replicas() {
		causes = append(causes, fmt.Errorf("%s %s: %w", e.Site, e.Address, e.Err))
	}
	return fmt.Errorf("client: no replica answers: %w", errors.Join(causes...))
}

func (r *router) replicas() []Replica {
	var all []Replica
	for _, e := range *r.order.Load() {
		all = append(all, e.snapshot())
	}
	return all
}

// close ends everything; the first time, as io.Closer leaves the second open.
func (r *router) close() error {
	r.closing.Do(func() {
		r.cancel()
		for _, e := range r.endpoints {
			e.stream.close()
			r.closed = errors.Join(r.closed, e.conn.Close())
		}
		r.probing.Wait()
	})
	return r.closed
}

// check refuses what no replica would take.
func (r *router) check(op register.Operation) error {
	limits := r.limits.Load()
	if limits == nil || op.Kind == register.Fence {
		return nil // no one has answered yet, so the replica will say it; a fence is of no key
	}
	size := len(op.Value)
	for _, argument := range op.Call.Args {
		size += len(argument)
	}
	err := limits.CheckValue(size)
	if err != nil && op.Kind == register.RMW {
		err = fmt.Errorf("arguments, all together: %w", err)
	}
	err = errors.Join(limits.CheckKey(op.Key), err)
	if err != nil && !errors.Is(err, ErrTooLarge) {
		return fmt.Errorf("%w: %w", ErrInvalid, err)
	}
	return err
}

// do carries out an operation: it tries the replicas by preference, round after round, until one gives the
// outcome, the time is up, or nothing that can be done would be safe.
func (r *router) do(ctx context.Context, op register.Operation) (register.Result, error) {
	if err := r.check(op); err != nil {
		return register.Result{}, err
	}
	deadline, ok := ctx.Deadline()
	if !ok {
		deadline = time.Now().Add(r.options.Timeout)
	}
	t := task{op: op}
	for round := 0; ; round++ {
		for _, e := range *r.order.Load() {
			left := time.Until(deadline)
			if left <= 0 || ctx.Err() != nil {
				return register.Result{}, t.giveUp(ctx)
			}
			if result, final, err := r.try(ctx, e, &t, left); final {
				return result, err
			}
		}
		if !wait(ctx, min(pauseOf(round), time.Until(deadline))) {
			return register.Result{}, t.giveUp(ctx)
		}
	}
}

// pauseOf is how long to wait when all replicas have failed: longer each time, and never alike, so that
// clients do not come in waves.
func pauseOf(round int) time.Duration {
	most := 20 * time.Millisecond << min(round, 5)
	return most/2 + rand.N(most/2)
}

// wait reports whether ctx let it.
func wait(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// margin is how much longer than the replica the client waits, beside the round trip: the replica's answer
// that it failed is worth more than the client's own guess.
const margin = 250 * time.Millisecond

// try sends a task to one replica.
func (r *router) try(ctx context.Context, e *endpoint, t *task, left time.Duration) (register.Result, bool, error) {
	ping := e.snapshot().Ping
	timeout := max(min(r.options.AttemptTimeout, left-ping), time.Millisecond)
	patience, overdue := timeout+ping+margin, errSilent
	if patience >= left {
		patience, overdue = left, context.DeadlineExceeded
	}
	start := time.Now()
	response, err := e.stream.roundTrip(ctx, t.request(timeout), patience, overdue)
	result, final, err := t.judge(response, err)
	switch {
	case final && err == nil, response.GetStatus() == registerv1.Status_FAILED:
		if e.served() {
			r.sort()
		}
	case t.trouble != nil && r.ctx.Err() == nil && (left > r.options.AttemptTimeout || time.Since(start) < left/2):
		// A caller in a hurry says nothing about the replica.
		e.failed(t.trouble, r.options.PingInterval)
		r.sort()
	}
	return result, final, err
}
