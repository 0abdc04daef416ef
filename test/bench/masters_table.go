package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/witness"
	"github.com/georegister/georegister/workload/bench"
)

// mastering are the flags of `bench masters`.
type mastering struct {
	witnesses          witness.Durability // empty: Sync
	binary, dir        string
	rounds, operations int
	clients            string
	duration           time.Duration
	valueBytes         int
}

// measureMasters compares CURP with one durable replica and with a master that waits for its backups, on the same code
// and processes (figure 5 of the paper), and what the master pays for an operation.
func measureMasters(ctx context.Context, args []string) error {
	var f mastering
	set := flag.NewFlagSet("masters", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the processes keep their data")
	set.IntVar(&f.rounds, "rounds", 10, "how often each mode is measured, in turn")
	set.IntVar(&f.operations, "operations", 200, "how many writes a round has, one after the other")
	set.StringVar(&f.clients, "clients", "1,16,64",
		"numbers of clients for the CPU time of the master, comma separated")
	set.DurationVar(&f.duration, "duration", 3*time.Second, "how long each of these is measured")
	set.IntVar(&f.valueBytes, "value", 100, "size of values in bytes")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("# Writes at a master, on one machine: %s\n\nValues of %d bytes, data in %s.\n\n", machine(),
		f.valueBytes, f.dir)
	for _, link := range []time.Duration{0, time.Millisecond} {
		if err := f.latencies(ctx, link); err != nil {
			return err
		}
	}
	return f.processorTime(ctx)
}

// modes are those whose latencies are compared; the first is what they are compared with.
func modes() []mode {
	all := []mode{{"one durable replica", 0, 0}}
	for f := 1; f <= 3; f++ {
		all = append(all, mode{fmt.Sprintf("CURP, f = %d", f), f, f},
			mode{fmt.Sprintf("primary-backup, f = %d", f), f, 0})
	}
	return all
}

// asynchronous is a mode of processes of its own: its master answers before anybody else has the operation.
func asynchronous() []mode { return []mode{{"asynchronous, f = 3", 3, 0}} }

// latencies prints what a client that writes one value after the other waits.
func (f mastering) latencies(ctx context.Context, link time.Duration) error {
	safe, err := startTier(ctx, f, modes(), link, node.CURP{})
	if err != nil {
		return err
	}
	defer safe.stop()
	unsafe, err := startTier(ctx, f, asynchronous(), link, node.CURP{Asynchronous: true})
	if err != nil {
		return err
	}
	defer unsafe.stop()
	type line struct {
		tier *tier
		mode int
		all  []time.Duration
	}
	var lines []*line
	for _, t := range []*tier{safe, unsafe} {
		for i := range t.modes {
			lines = append(lines, &line{tier: t, mode: i})
		}
	}
	for round := range f.rounds + 1 {
		for _, l := range lines {
			latencies, err := l.tier.write(ctx, l.mode, round, f)
			if err != nil {
				return fmt.Errorf("%s: %w", l.tier.modes[l.mode].name, err)
			}
			if round > 0 { // the first is to warm up
				l.all = append(l.all, latencies...)
			}
		}
		fmt.Fprintf(os.Stderr, "links of %s: round %d of %d\n", link, round, f.rounds)
	}
	fmt.Printf("## One client, links of %s (round trip)\n\n", link)
	fmt.Println("| mode | p50 ms | p90 ms | p99 ms | p50, of one durable replica's |\n|---|---:|---:|---:|---:|")
	for _, l := range lines {
		slices.Sort(l.all)
		fmt.Printf("| %s | %.2f | %.2f | %.2f | %.2f |\n", l.tier.modes[l.mode].name, ms(quantile(l.all, 0.5)),
			ms(quantile(l.all, 0.9)),
			ms(quantile(l.all, 0.99)), ms(quantile(l.all, 0.5))/ms(quantile(lines[0].all, 0.5)))
	}
	fmt.Println()
	return nil
}

// quantile is of sorted durations.
func quantile(all []time.Duration, q float64) time.Duration { return all[int(q*float64(len(all)-1))] }

// write writes one value after the other to keys of a mode that nobody wrote lately.
func (t *tier) write(ctx context.Context, mode, round int, f mastering) (latencies []time.Duration, err error) {
	conn, err := dialRedis(ctx, t.redis)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }() // everything was answered
	l := load{valueBytes: f.valueBytes}
	draw := rand.New(rand.NewPCG(5, uint64(round)))
	for _, key := range t.keys(mode, round*f.operations*len(t.modes)*2, f.operations) {
		op := register.Operation{Kind: register.Write, Key: key, Value: l.value(draw)}
		begun := time.Now()
		if err := conn.Do(ctx, []register.Operation{op}); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(begun))
	}
	return latencies, nil
}

func dialRedis(ctx context.Context, address string) (bench.Conn, error) {
	dialer, err := bench.FindDialer("redis")
	if err != nil {
		return nil, err
	}
	return dialer.Dial(ctx, address)
}

// processorTime prints what an operation costs the master's process, with syncs of up to 50 operations and with one for
// each.
func (f mastering) processorTime(ctx context.Context) error {
	batched, err := startTier(ctx, f,
		[]mode{{"CURP, f = 3, syncs of 50", 3, 3}, {"primary-backup, f = 3", 3, 0}}, 0, node.CURP{})
	if err != nil {
		return err
	}
	defer batched.stop()
	single, err := startTier(ctx, f, []mode{{"CURP, f = 3, a sync for each", 3, 3}}, 0, node.CURP{SyncAfter: 1})
	if err != nil {
		return err
	}
	defer single.stop()
	fmt.Println("## CPU time of the master, loopback\n\n| clients | mode | operations/s | µs/operation " +
		"|\n|---:|---|---:|---:|")
	for _, clients := range numbers("clients", f.clients) {
		for _, t := range []*tier{batched, single} {
			for i, m := range t.modes {
				rate, cpu, err := t.drive(ctx, i, clients, f)
				if err != nil {
					return fmt.Errorf("%s, %d clients: %w", m.name, clients, err)
				}
				fmt.Printf("| %d | %s | %.0f | %d |\n", clients, m.name, rate, cpu.Microseconds())
			}
		}
	}
	fmt.Println()
	return nil
}

// drive lets clients write keys of their own for a while, and returns the operations in a second and the master's CPU
// time for each.
func (t *tier) drive(ctx context.Context, mode, clients int, f mastering) (rate float64, cpu time.Duration, err error) {
	var done atomic.Int64
	var stop atomic.Bool
	group, ctx := errgroup.WithContext(ctx)
	keys := t.keys(mode, 0, 20_000)
	for client := range clients {
		group.Go(func() error {
			conn, err := dialRedis(ctx, t.redis)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // everything was answered
			l := load{valueBytes: f.valueBytes}
			draw := rand.New(rand.NewPCG(6, uint64(client)))
			for i := client; !stop.Load(); i += clients {
				op := register.Operation{Kind: register.Write, Key: keys[i%len(keys)], Value: l.value(draw)}
				if err := conn.Do(ctx, []register.Operation{op}); err != nil {
					return err
				}
				done.Add(1)
			}
			return nil
		})
	}
	group.Go(func() error {
		defer stop.Store(true)
		if err := pause(ctx, f.duration/3); err != nil {
			return err
		}
		pid := t.servers[masterMember]
		before, err := bench.ProcessCPU(ctx, pid)
		if err != nil {
			return err
		}
		begun, from := time.Now(), done.Load()
		if err := pause(ctx, f.duration); err != nil {
			return err
		}
		operations, span := done.Load()-from, time.Since(begun)
		after, err := bench.ProcessCPU(ctx, pid)
		if err != nil {
			return err
		}
		if operations == 0 {
			return fmt.Errorf("no write was answered within %s", f.duration)
		}
		rate, cpu = float64(operations)/span.Seconds(), (after-before)/time.Duration(operations)
		return nil
	})
	return rate, cpu, group.Wait()
}
