package main

import (
	"context"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/checked"
)

const (
	// knockFor bounds one attempt to reach a site that does not serve.
	knockFor = time.Second
	// knockEvery is the time between two such attempts.
	knockEvery = 50 * time.Millisecond
	// operationFor bounds an operation.
	operationFor = 10 * time.Second
)

// door is the way into a site that may not be there yet, or no longer. All clients of the site share its connection.
// While the site does not serve, it is knocked at with reads that no history has: operations that are then refused
// certainly have no effect, so that the history does not fill with writes of unknown outcome.
type door struct {
	endpoint client.Endpoint
	out      io.Writer
	open     atomic.Bool // the last operation got its outcome

	mu        sync.Mutex // held while knocking
	connected *client.Client
	knocked   time.Time
	served    bool // once
}

// visitor is one client of a site.
type visitor struct {
	door    *door
	through *client.Client
	session *client.Session // over that connection
}

// Do implements workload.Doer.
func (v *visitor) Do(ctx context.Context, op register.Operation) register.Result {
	connected, err := v.door.enter(ctx)
	if err == nil && connected != v.through {
		v.through = connected
		v.session, err = connected.NewSession()
	}
	if err != nil {
		return register.Result{Status: register.Unavailable, Message: err.Error()}
	}
	result := checked.Doer(v.session).Do(ctx, op)
	if result.Status == register.Unavailable || result.Status == register.Unknown {
		v.door.open.Store(false)
	}
	return result
}

// enter returns the connection, once the site serves.
func (d *door) enter(ctx context.Context) (*client.Client, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.open.Load() {
		if err := d.knock(ctx); err != nil {
			return nil, err
		}
	}
	return d.connected, nil
}

// knock reads at the site. A connection that does not serve is replaced at the next knock, which asks for the site's
// address again.
func (d *door) knock(ctx context.Context) error {
	if wait := knockEvery - time.Since(d.knocked); wait > 0 {
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	defer func() { d.knocked = time.Now() }()
	ctx, cancel := context.WithTimeout(ctx, knockFor)
	defer cancel()
	if d.connected == nil {
		connected, err := client.Dial(ctx, client.Options{
			Endpoints: []client.Endpoint{d.endpoint}, InOrder: true, Timeout: operationFor,
		})
		if err != nil {
			return err
		}
		d.connected = connected
	}
	if _, err := d.connected.Get(ctx, "knock"); err != nil {
		// Operations of other clients are still under way on it: closed now, it would make their outcome unknown.
		given := d.connected
		time.AfterFunc(2*operationFor, func() { _ = given.Close() }) // nothing is left to lose then
		d.connected = nil
		return err
	}
	d.open.Store(true)
	if !d.served {
		d.served = true
		fmt.Fprintf(d.out, "site %s serves\n", d.endpoint.Site)
	}
	return nil
}

// teller tells how many operations have ended, now and then.
type teller struct {
	out   io.Writer
	start time.Time
	next  atomic.Int64 // since start
}

func newTeller(out io.Writer, start time.Time) *teller {
	t := &teller{out: out, start: start}
	t.next.Store(int64(tellEvery))
	return t
}

// progress is called by several goroutines at once.
func (t *teller) progress(ended int64) {
	since, next := time.Since(t.start), t.next.Load()
	if int64(since) >= next && t.next.CompareAndSwap(next, next+int64(tellEvery)) {
		fmt.Fprintf(t.out, "%4.0f s: %d operations\n", since.Seconds(), ended)
	}
}
