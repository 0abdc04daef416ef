// Package bench measures a running store with clients that each have a connection of their own and wait for the answer
// to one operation, or one batch of them, before they send the next: in a closed loop at once, in an open one when that
// is due.
package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"time"

	hdr "github.com/HdrHistogram/hdrhistogram-go"
	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/register"
)

// Options say what to measure. All fields but Rate, Answered and Servers are needed.
type Options struct {
	Dialer     Dialer
	Addresses  []string // where the store listens; clients are spread over them evenly
	Clients    int
	Depth      int             // operations that a client sends together; more than 1 needs one that takes batches
	Kinds      []register.Kind // one of them is drawn for each operation
	Keys       int             // operations draw one of so many keys, all alike
	ValueBytes int             // Write: how long values are; they are random
	// Rate is how many operations a second become due, at random times, whether or not those before were answered;
	// whichever client is free sends the next. A latency counts from when its operation was due. 0: a closed loop.
	Rate     float64
	Warmup   time.Duration
	Duration time.Duration
	// Answered is told of operations of Fill or ReadAll that were answered, by any goroutine; nil: nobody is.
	Answered func(operations int)
	// Servers are the process ids of the store, all on this machine, whose CPU time is measured.
	Servers []int
}

// Result is what was measured.
type Result struct {
	Operations int64 // answered within the measured time
	Elapsed    time.Duration
	Latency                  // of a batch, which with Depth 1 is an operation
	CPU        time.Duration // of all Servers together
}

// Latency is what so many of a hundred, or of a thousand, took at most.
type Latency struct{ P50, P99, P999 time.Duration }

// Throughput is in operations per second.
func (r Result) Throughput() float64 { return float64(r.Operations) / r.Elapsed.Seconds() }

// CPUPerOperation is the CPU time of the servers that one operation took, or 0 if none was measured.
func (r Result) CPUPerOperation() time.Duration {
	if r.Operations == 0 {
		return 0
	}
	return r.CPU / time.Duration(r.Operations)
}

// answerWithin bounds how long the clients wait for their last answers once the measured time is over.
const answerWithin = 30 * time.Second

// Run measures. It fails at the first operation that is not answered as it should be.
func Run(ctx context.Context, o Options) (Result, error) {
	if err := o.validate(); err != nil {
		return Result{}, err
	}
	clients, err := dial(ctx, o)
	defer func() {
		for _, c := range clients {
			_ = c.conn.Close() // it served its purpose
		}
	}()
	if err != nil {
		return Result{}, err
	}
	ctx, cancel := context.WithTimeout(ctx, o.Warmup+o.Duration+answerWithin)
	defer cancel()

	w := &window{begin: time.Now().Add(o.Warmup)}
	w.end = w.begin.Add(o.Duration)
	group, ctx := errgroup.WithContext(ctx) // once one has failed, the others need not go on
	for _, c := range clients {
		group.Go(func() error { return c.run(ctx, w) })
	}
	cpu, err := sampleCPU(ctx, o.Servers, w)
	if err := cmp.Or(group.Wait(), err); err != nil {
		return Result{}, err
	}
	result := Result{Elapsed: o.Duration, CPU: cpu}
	latency := newHistogram()
	for _, c := range clients {
		result.Operations += c.operations
		latency.Merge(c.latency)
	}
	at := func(percent float64) time.Duration {
		return time.Duration(latency.ValueAtPercentile(percent)) * time.Microsecond
	}
	result.Latency = Latency{at(50), at(99), at(99.9)}
	return result, nil
}

// fillers are how many clients write or read all keys.
const fillers = 64

// Fill writes every key once, so that reads find a value; each client sends Depth writes together.
func Fill(ctx context.Context, o Options) error {
	values := newPool(o.ValueBytes)
	return o.each(ctx, 1, func(rng *rand.Rand, k int) register.Operation {
		return register.Operation{Kind: register.Write, Key: key(false, k), Value: values.draw(rng)}
	})
}

// ReadAll reads every key once at every address. A store of which a write reaches a quorum, and a read the others, is
// at rest then.
func ReadAll(ctx context.Context, o Options) error {
	return o.each(ctx, len(o.Addresses), func(_ *rand.Rand, k int) register.Operation {
		return register.Operation{Kind: register.Read, Key: key(false, k)}
	})
}

// each sends the operation of every key to so many of the addresses.
func (o Options) each(ctx context.Context, times int, operation func(*rand.Rand, int) register.Operation) error {
	if err := o.validate(); err != nil {
		return err
	}
	group, ctx := errgroup.WithContext(ctx) // the first error tells enough: a store that is down fails all alike
	for i := range fillers {
		group.Go(func() error {
			rng := rand.New(rand.NewPCG(2, uint64(i)))
			for at := range times {
				if err := o.part(ctx, o.Addresses[(i+at)%len(o.Addresses)], i, rng, operation); err != nil {
					return err
				}
			}
			return nil
		})
	}
	return group.Wait()
}

// part sends what one filler does at one address.
func (o Options) part(
	ctx context.Context, address string, filler int, rng *rand.Rand, operation func(*rand.Rand, int) register.Operation,
) error {
	conn, err := o.Dialer.Dial(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }() // everything was answered
	var batch []register.Operation
	for k := filler; k < o.Keys; k += fillers {
		batch = append(batch, operation(rng, k))
		if len(batch) == o.Depth || k+fillers >= o.Keys {
			if err := conn.Do(ctx, batch); err != nil {
				return err
			}
			if o.Answered != nil {
				o.Answered(len(batch))
			}
			batch = batch[:0]
		}
	}
	return nil
}

func (o Options) validate() error {
	for _, field := range []struct {
		name  string
		value int
	}{{"clients", o.Clients}, {"depth", o.Depth}, {"keys", o.Keys}, {"addresses", len(o.Addresses)}} {
		if field.value < 1 {
			return fmt.Errorf("%s: at least 1 is needed", field.name)
		}
	}
	switch {
	case len(o.Kinds) == 0:
		return errors.New("kinds: at least 1 is needed")
	case o.Duration <= 0:
		return errors.New("duration: it must be above 0")
	case o.Rate < 0:
		return errors.New("rate: it must not be below 0")
	}
	return nil
}

// window is the time in which answers count.
type window struct {
	begin, end time.Time
}

type client struct {
	conn       Conn
	options    Options
	rng        *rand.Rand
	values     pool
	integers   bool           // there are rmws, which want integers
	latency    *hdr.Histogram // microseconds
	operations int64
	arrivals   *arrivals // nil: a closed loop
}

func newHistogram() *hdr.Histogram { return hdr.New(1, int64(time.Minute/time.Microsecond), 2) }

// dial opens the connections, a few at a time.
func dial(ctx context.Context, o Options) ([]*client, error) {
	const atOnce = 32
	clients := make([]*client, o.Clients)
	values := newPool(o.ValueBytes)
	var open *arrivals
	if o.Rate > 0 {
		open = &arrivals{rng: rand.New(rand.NewPCG(3, 0)), between: float64(o.Depth) / o.Rate * float64(time.Second)}
	}
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i := range clients {
		group.Go(func() error {
			conn, err := o.Dialer.Dial(ctx, o.Addresses[i%len(o.Addresses)])
			if err == nil {
				clients[i] = &client{
					conn: conn, options: o, rng: rand.New(rand.NewPCG(1, uint64(i))),
					values: values, integers: slices.Contains(o.Kinds, register.RMW), latency: newHistogram(),
					arrivals: open,
				}
			}
			return err
		})
	}
	err := group.Wait()
	return slices.DeleteFunc(clients, func(c *client) bool { return c == nil }), err
}

func (c *client) run(ctx context.Context, w *window) error {
	ops := make([]register.Operation, c.options.Depth)
	begun, err := c.begin(ctx, time.Now())
	for err == nil && begun.Before(w.end) {
		for i := range ops {
			ops[i] = c.next()
		}
		if err := c.conn.Do(ctx, ops); err != nil {
			return err
		}
		now := time.Now()
		if !now.Before(w.begin) && now.Before(w.end) {
			c.operations += int64(len(ops))
			// Clamped, so that no operation is left out.
			_ = c.latency.RecordValue(min(max(now.Sub(begun).Microseconds(), 1), c.latency.HighestTrackableValue()))
		}
		if !now.Before(w.end) {
			return nil // what a slow store left undone of an open loop is not caught up with: it would not count
		}
		begun, err = c.begin(ctx, now)
	}
	return err
}

// begin waits until operations are due that no other client has taken, and returns that time.
func (c *client) begin(ctx context.Context, now time.Time) (time.Time, error) {
	if c.arrivals == nil {
		return now, ctx.Err()
	}
	due := c.arrivals.take(now)
	select {
	case <-time.After(due.Sub(now)):
		return due, ctx.Err()
	case <-ctx.Done():
		return due, ctx.Err()
	}
}

// arrivals are when the operations of an open loop are due, as a Poisson process. All clients share them, so that one
// that waits long for an answer keeps no operation from being sent while others are free.
type arrivals struct {
	mutex   sync.Mutex
	rng     *rand.Rand
	between float64 // nanoseconds, on average
	latest  time.Time
}

// take returns when the next are due; the first are soon.
func (a *arrivals) take(now time.Time) time.Time {
	a.mutex.Lock()
	defer a.mutex.Unlock()
	if a.latest.IsZero() {
		a.latest = now
	}
	a.latest = a.latest.Add(time.Duration(a.rng.ExpFloat64() * a.between))
	return a.latest
}

func (c *client) next() register.Operation {
	kind := c.options.Kinds[c.rng.IntN(len(c.options.Kinds))]
	op := register.Operation{Kind: kind, Key: key(c.integers, c.rng.IntN(c.options.Keys))}
	switch kind {
	case register.Write:
		op.Value = c.values.draw(c.rng)
	case register.RMW:
		op.Call = register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}}
	}
	return op
}

// key keeps the integers of rmws apart from what writes leave behind.
func key(integer bool, i int) string {
	if integer {
		return "bench/integer/" + strconv.Itoa(i)
	}
	return "bench/value/" + strconv.Itoa(i)
}

// pool is random bytes of which values are pieces: a store would compress what repeats.
type pool struct {
	bytes []byte
	size  int // of a value
}

func newPool(size int) pool {
	p := pool{make([]byte, 1<<20+size), size}
	_, _ = rand.NewChaCha8([32]byte{}).Read(p.bytes) // it never fails
	return p
}

func (p pool) draw(rng *rand.Rand) register.Value {
	at := rng.IntN(len(p.bytes) - p.size)
	return p.bytes[at : at+p.size]
}

// sampleCPU returns the CPU time that processes used within the window, when it is over.
func sampleCPU(ctx context.Context, pids []int, w *window) (time.Duration, error) {
	var at [2]time.Duration
	for i, when := range []time.Time{w.begin, w.end} {
		select {
		case <-time.After(time.Until(when)):
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		for _, pid := range pids {
			used, err := ProcessCPU(ctx, pid)
			if err != nil {
				return 0, err
			}
			at[i] += used
		}
	}
	return at[1] - at[0], nil
}
