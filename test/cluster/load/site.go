package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/checked"
)

const (
	// probeFor bounds one attempt to reach a site that does not serve.
	probeFor = time.Second
	// probeEvery is the time between two such attempts.
	probeEvery = 50 * time.Millisecond
	// operationFor bounds an operation.
	operationFor = 10 * time.Second
)

// site is a site that may not serve yet, or no longer. All its clients share one connection.
// While the site does not serve, it is probed with reads that no history has: operations that are then refused
// certainly have no effect, so that the history does not fill with writes of unknown outcome.
type site struct {
	endpoint client.Endpoint
	out      io.Writer
	open     atomic.Bool // the last operation got its outcome

	mu        sync.Mutex // held while probing
	connected *client.Client
	probed    time.Time
	served    bool // once
}

// visitor is one client of a site.
type visitor struct {
	site    *site
	through *client.Client
	session *client.Session // over that connection
}

// Do implements workload.Doer.
func (v *visitor) Do(ctx context.Context, op register.Operation) register.Result {
	connected, err := v.site.connection(ctx)
	if err == nil && connected != v.through {
		v.through = connected
		v.session, err = connected.NewSession()
	}
	if err != nil {
		return register.Result{Status: register.Unavailable, Message: err.Error()}
	}
	result := checked.Doer(v.session).Do(ctx, op)
	if result.Status == register.Unavailable || result.Status == register.Unknown {
		v.site.open.Store(false)
	}
	return result
}

// connection returns the connection, once the site serves.
func (s *site) connection(ctx context.Context) (*client.Client, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.open.Load() {
		if err := s.probe(ctx); err != nil {
			return nil, err
		}
	}
	return s.connected, nil
}

// probe reads at the site. A connection that does not serve is replaced at the next probe, which asks for the site's
// address again.
func (s *site) probe(ctx context.Context) error {
	if wait := probeEvery - time.Since(s.probed); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { s.probed = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, probeFor)
	defer cancel()
	if s.connected == nil {
		connected, err := client.Dial(ctx, client.Options{
			Endpoints: []client.Endpoint{s.endpoint}, InOrder: true, Timeout: operationFor,
		})
		if err != nil {
			return err
		}
		s.connected = connected
	}
	if _, err := s.connected.Get(ctx, "probe"); err != nil {
		// Operations of other clients are still under way on it: closed now, it would make their outcome unknown.
		given := s.connected
		time.AfterFunc(2*operationFor, func() { _ = given.Close() }) // nothing is left to lose then
		s.connected = nil
		return err
	}
	s.open.Store(true)
	if !s.served {
		s.served = true
		fmt.Fprintf(s.out, "site %s serves\n", s.endpoint.Site)
	}
	return nil
}

// teller tells how many operations have ended, now and then.
type teller struct {
	out   io.Writer
	start time.Time
	next  atomic.Int64 // since start
	ended atomic.Int64
}

func newTeller(out io.Writer, start time.Time) *teller {
	t := &teller{out: out, start: start}
	t.next.Store(int64(tellEvery))
	return t
}

// progress is called by several goroutines at once.
func (t *teller) progress(history.Operation) {
	ended := t.ended.Add(1)
	since, next := time.Since(t.start), t.next.Load()
	if int64(since) >= next && t.next.CompareAndSwap(next, next+int64(tellEvery)) {
		fmt.Fprintf(t.out, "%4.0f s: %d operations\n", since.Seconds(), ended)
	}
}
