package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

const (
	// operations bound the workload; faults come after these shares of them.
	operations = 5000
	killAfter  = operations / 5
	wipeAfter  = 2 * operations / 5
	backAfter  = 3 * operations / 5
	keys       = 50
)

// One site is killed and another one's disk is lost while clients of all sites work; both come back. What
// was acknowledged stays, and all answers fit one order.
func TestFaultsUnderLoad(t *testing.T) {
	c := start(t, manifest(t, "Gryff"), t.TempDir())
	recorder := history.NewRecorder(nil)
	var ended atomic.Int64
	load := workload.Loop{
		Spec: workload.Spec{
			Mix: workload.Mix{Read: 40, Write: 40, RMW: 20}, Keys: workload.Uniform, KeyCount: keys,
			ValueBytes: 8, RMWs: workload.RMWAdd,
		},
		Clients: 2, Seed: 1, Operations: operations, Duration: 2 * patience, Recorder: recorder,
		Progress: func(history.Operation) { ended.Add(1) },
	}
	for _, site := range c.sites {
		load.Sites = append(load.Sites,
			workload.Site{Name: site, Connect: func(context.Context, int) (workload.Doer, error) {
				return &doer{c.connect(site)}, nil
			}})
	}
	counters := newCounters(c)
	var report *workload.Report
	group, ctx := errgroup.WithContext(t.Context())
	loading, loaded := context.WithCancel(ctx)
	group.Go(func() (err error) {
		defer loaded()
		report, err = load.Run(ctx)
		return err
	})
	for _, counter := range counters {
		group.Go(func() error { counter.run(loading); return nil })
	}
	reached := func(n int64) func() (string, bool) {
		return func() (string, bool) {
			return fmt.Sprintf("%d operations ended", ended.Load()), ended.Load() >= n
		}
	}
	c.await(t, "the load is under way", reached(killAfter))
	c.must(t, "kill", "jp")
	c.await(t, "the load goes on without jp", reached(wipeAfter))
	c.must(t, "wipe", "va")
	c.await(t, "the load goes on without jp and va's disk", reached(backAfter))
	c.must(t, "restart", "jp")
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
	c.await(t, "all members serve again", c.serving)
	t.Logf("%v", report.Outcomes())

	for i := range keys {
		for _, site := range c.sites {
			readBack(t, c, recorder, site, "key-"+strconv.Itoa(i))
		}
	}
	for _, counter := range counters {
		counter.verify(t, c)
	}
	verdict := history.Check(t.Context(), recorder.Operations(), history.Options{Timeout: patience})
	if !verdict.OK() {
		t.Fatalf("verdict %s, key %q: %s", verdict.Outcome, verdict.Key, verdict.Explanation)
	}
	if answered := report.Operations(); answered < backAfter {
		t.Errorf("only %d of %d operations were answered: %v", answered, operations, report.Outcomes())
	}
	t.Logf("%s: %d operations, %d of unknown outcome, on %d keys", verdict.Outcome, verdict.Operations,
		verdict.Unknown, verdict.Keys)
}

func readBack(t *testing.T, c *cluster, recorder *history.Recorder, site, key string) {
	t.Helper()
	d := &doer{c.connect(site)}
	defer d.Close()
	op := register.Operation{Kind: register.Read, Key: key}
	invocation := recorder.Invoke("read-back-"+site, site, op)
	result := d.Do(t.Context(), op)
	invocation.Return(result)
	if result.Status != register.OK {
		t.Errorf("read %s back at %s: %s: %s", key, site, result.Status, result.Message)
	}
}

// counter increments a key of its own through one site, and counts what it was told.
type counter struct {
	key            string
	client         *redis.Client
	acked, unknown int64
}

func newCounters(c *cluster) []*counter {
	var counters []*counter
	for _, site := range c.sites {
		counters = append(counters, &counter{key: "counter-" + site, client: c.connect(site)})
	}
	return counters
}

func (c *counter) run(ctx context.Context) {
	defer c.client.Close()
	for ctx.Err() == nil {
		switch result := resultOf(c.client.Incr(context.WithoutCancel(ctx), c.key)); result.Status {
		case register.OK:
			c.acked++
		case register.Unknown:
			c.unknown++
		default:
			pause(ctx)
		}
	}
}

// verify reads the counter at every site: each acknowledged increment counts once, each unknown one at most.
func (c *counter) verify(t *testing.T, in *cluster) {
	t.Helper()
	if c.acked == 0 {
		t.Errorf("%s was never incremented", c.key)
	}
	for _, site := range in.sites {
		client := in.connect(site)
		value, err := client.Get(t.Context(), c.key).Int64()
		if err != nil || value < c.acked || value > c.acked+c.unknown {
			t.Errorf("%s at %s is %d (%v) after %d acknowledged and %d unknown increments",
				c.key, site, value, err, c.acked, c.unknown)
		}
		_ = client.Close()
	}
}

// doer does a workload's operations with go-redis.
type doer struct{ client *redis.Client }

// Do implements workload.Doer.
func (d *doer) Do(ctx context.Context, op register.Operation) register.Result {
	ctx = context.WithoutCancel(ctx) // a broken off command would have an unknown outcome for no reason
	var result register.Result
	switch op.Kind {
	case register.Read:
		result = resultOf(d.client.Get(ctx, op.Key))
	case register.Write:
		result = resultOf(d.client.Set(ctx, op.Key, string(op.Value), 0))
		result.Value = nil
	default: // the spec asks for additions of 1
		result = resultOf(d.client.Incr(ctx, op.Key))
	}
	if result.Status != register.OK && result.Status != register.Failed {
		pause(ctx)
	}
	return result
}

// Close implements io.Closer.
func (d *doer) Close() error { return d.client.Close() }

// pause keeps clients of a site that is down from spinning.
func pause(ctx context.Context) {
	select {
	case <-time.After(poll):
	case <-ctx.Done():
	}
}

// reply is a redis.Cmder that holds an answer.
type reply interface {
	redis.Cmder
	Err() error
}

// resultOf is what a reply means for the operation.
func resultOf(r reply) register.Result {
	err := r.Err()
	var dial *net.OpError
	switch {
	case err == nil:
		return register.Result{Status: register.OK, Value: register.Value(text(r))}
	case errors.Is(err, redis.Nil):
		return register.Result{Status: register.OK}
	case errors.As(err, &dial) && dial.Op == "dial", strings.HasPrefix(err.Error(), "TRYAGAIN "):
		return register.Result{Status: register.Unavailable, Message: err.Error()}
	case strings.HasPrefix(err.Error(), "ERR "):
		return register.Result{Status: register.Failed, Message: strings.TrimPrefix(err.Error(), "ERR ")}
	}
	return register.Result{Status: register.Unknown, Message: err.Error()}
}

func text(r reply) string {
	switch r := r.(type) {
	case *redis.StringCmd:
		return r.Val()
	case *redis.IntCmd:
		return strconv.FormatInt(r.Val(), 10)
	}
	return ""
}
