package main

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// load is clients in a closed loop, each of one site, that go on after errors. Every operation is remembered.
type load struct {
	dialer     bench.Dialer
	keys       int
	valueBytes int
	mix        []register.Kind // one of them is drawn for each operation
	every      time.Duration   // the least time between two operations of a client; 0: none
	stop       atomic.Bool
	clients    sync.WaitGroup

	mutex   sync.Mutex
	samples map[string][]sample // by site, in the order in which they ended
}

type sample struct {
	end     time.Time
	latency time.Duration
	failed  bool
}

const (
	// operationWithin bounds one operation of a load.
	operationWithin = 10 * time.Second
	// redialAfter is the pause of a client after an error.
	redialAfter = 20 * time.Millisecond
	fillers     = 4
	fillDepth   = 256
)

func newLoad(keys, valueBytes int, mix []register.Kind) *load {
	dialer, err := bench.FindDialer("redis")
	if err != nil {
		panic(err) // the name is this program's
	}
	return &load{dialer: dialer, keys: keys, valueBytes: valueBytes, mix: mix, samples: map[string][]sample{}}
}

// fill writes every key once.
func (l *load) fill(ctx context.Context, addresses []string) error {
	group, ctx := errgroup.WithContext(ctx)
	for filler := range fillers {
		group.Go(func() error {
			conn, err := l.dialer.Dial(ctx, addresses[filler%len(addresses)])
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // everything was answered
			draw := rand.New(rand.NewPCG(3, uint64(filler)))
			var batch []register.Operation
			for i := filler; i < l.keys; i += fillers {
				batch = append(batch, register.Operation{Kind: register.Write, Key: valueKey(i), Value: l.value(draw)})
				if len(batch) == fillDepth || i+fillers >= l.keys {
					if err := conn.Do(ctx, batch); err != nil {
						return fmt.Errorf("fill: %w", err)
					}
					batch = batch[:0]
				}
			}
			return nil
		})
	}
	return group.Wait()
}

func valueKey(i int) string { return fmt.Sprintf("value/%07d", i) }

// value is random: what is all alike would cost a disk that compresses nothing.
func (l *load) value(draw *rand.Rand) register.Value {
	v := make(register.Value, l.valueBytes)
	for i := range v {
		v[i] = byte(draw.Uint32())
	}
	return v
}

// at starts clients of a site.
func (l *load) at(ctx context.Context, site, address string, clients int) {
	for i := range clients {
		l.clients.Go(func() { l.run(ctx, site, address, rand.New(rand.NewPCG(4, uint64(i)))) })
	}
}

func (l *load) run(ctx context.Context, site, address string, draw *rand.Rand) {
	var conn bench.Conn
	defer func() {
		if conn != nil {
			_ = conn.Close()
		}
	}()
	for !l.stop.Load() && ctx.Err() == nil {
		begun := time.Now()
		within, cancel := context.WithTimeout(ctx, operationWithin)
		err := error(nil)
		if conn == nil {
			conn, err = l.dialer.Dial(within, address)
		}
		if err == nil {
			err = conn.Do(within, []register.Operation{l.next(draw)})
		}
		cancel()
		end := time.Now()
		l.mutex.Lock()
		l.samples[site] = append(l.samples[site], sample{end, end.Sub(begun), err != nil})
		l.mutex.Unlock()
		if err != nil {
			if conn != nil {
				_ = conn.Close()
			}
			conn = nil
			time.Sleep(redialAfter)
		}
		time.Sleep(time.Until(begun.Add(l.every)))
	}
}

func (l *load) next(draw *rand.Rand) register.Operation {
	op := register.Operation{Kind: l.mix[draw.IntN(len(l.mix))], Key: valueKey(draw.IntN(l.keys))}
	switch op.Kind {
	case register.Write:
		op.Value = l.value(draw)
	case register.RMW:
		op.Key = fmt.Sprintf("integer/%d", draw.IntN(l.keys))
		op.Call = register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}}
	}
	return op
}

func (l *load) end() {
	l.stop.Store(true)
	l.clients.Wait()
}

// window is what a site's clients saw in a span of time.
type window struct {
	span         time.Duration
	done, failed int
	p50, p99     time.Duration
	gap          time.Duration // the longest time without a success
	gapEnd       time.Time
}

func (w window) throughput() float64 { return float64(w.done) / w.span.Seconds() }

// window is what clients of a site saw; of all sites, if none is named. The gap is then the longest of any site.
func (l *load) window(site string, from, to time.Time) window {
	if site != "" {
		return l.seen([]string{site}, from, to)
	}
	l.mutex.Lock()
	sites := slices.Sorted(maps.Keys(l.samples))
	l.mutex.Unlock()
	all := l.seen(sites, from, to)
	for _, site := range sites {
		if w := l.window(site, from, to); w.gap > all.gap {
			all.gap, all.gapEnd = w.gap, w.gapEnd
		}
	}
	return all
}

func (l *load) seen(sites []string, from, to time.Time) window {
	l.mutex.Lock()
	defer l.mutex.Unlock()
	w := window{span: to.Sub(from)}
	var latencies []time.Duration
	latest := from
	success := func(at time.Time) {
		if at.Sub(latest) > w.gap {
			w.gap, w.gapEnd = at.Sub(latest), at
		}
		latest = at
	}
	var samples []sample
	for _, site := range sites {
		samples = append(samples, l.samples[site]...)
	}
	slices.SortFunc(samples, func(a, b sample) int { return a.end.Compare(b.end) })
	for _, s := range samples {
		switch {
		case s.end.Before(from) || s.end.After(to):
		case s.failed:
			w.failed++
		default:
			w.done++
			latencies = append(latencies, s.latency)
			success(s.end)
		}
	}
	success(to)
	if slices.Sort(latencies); len(latencies) > 0 {
		w.p50, w.p99 = latencies[len(latencies)/2], latencies[len(latencies)*99/100]
	}
	return w
}
