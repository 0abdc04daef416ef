package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// transferring are the flags of `bench transfer`.
type transferring struct {
	binary, dir, protocol, durability string
	keys                              int
	values                            string
	clients                           int
	every, window                     time.Duration
	rates                             string
}

// measureTransfers has a member without state replace one of three, and prints how long it takes to fetch the state,
// beside what the machine's disk and loopback interface do on their own.
func measureTransfers(ctx context.Context, args []string) error {
	var f transferring
	set := flag.NewFlagSet("transfer", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	set.StringVar(&f.protocol, "protocol", "Gryff", "the protocol")
	set.StringVar(&f.durability, "durability", "Sync", "of the members")
	set.IntVar(&f.keys, "keys", 1_000_000, "how many keys there are")
	set.StringVar(&f.values, "values", "16,1024", "sizes of values in bytes, comma separated")
	set.StringVar(&f.rates, "rates", "1Ti,32Mi",
		"spec.storage.transferRate, one after the other, comma separated; 1Ti is no bound")
	set.IntVar(&f.clients, "clients", 8, "how many clients each site has")
	set.DurationVar(&f.every, "every", 20*time.Millisecond, "the least time between two operations of a client")
	set.DurationVar(&f.window, "window", 5*time.Second, "how long to measure before and after")
	if err := set.Parse(args); err != nil {
		return err
	}
	fmt.Printf("# A member fetches the state, on one machine: %s\n\n", machine())
	fmt.Printf("%d keys, %s, durability %s; %d clients at each of the 2 sites that stay, with an operation every %s "+
		"at most.\n\n",
		f.keys, f.protocol, f.durability, f.clients, f.every)
	fmt.Println("| value bytes | rate | fetched | compared only | took s | MiB/s | disk MiB/s | loopback MiB/s | CPU " +
		"s | p50 ms | p99 ms | longest gap ms | failed |")
	fmt.Println("|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	for _, valueBytes := range numbers("values", f.values) {
		if err := f.measure(ctx, valueBytes); err != nil {
			return fmt.Errorf("values of %d bytes: %w", valueBytes, err)
		}
	}
	fmt.Println("\nLatencies and gaps are those before / during / after, of the clients at the two sites that stay. " +
		"The CPU time is the newcomer's.")
	return nil
}

// space is what the members need, all together and with what compactions hold on to meanwhile, in copies of the data.
const space = 15

func (f transferring) measure(ctx context.Context, valueBytes int) (err error) {
	var disk syscall.Statfs_t
	if err := syscall.Statfs(f.dir, &disk); err != nil {
		return fmt.Errorf("how much space %s has: %w", f.dir, err)
	}
	if free, need := disk.Bavail*uint64(disk.Bsize), uint64(space*f.keys*(valueBytes+100)); free < need {
		return fmt.Errorf("%s has %d MiB free, and %d MiB may be needed; give another -dir, or fewer -keys",
			f.dir, free>>20, need>>20)
	}
	data, err := os.MkdirTemp(f.dir, "bench-transfer-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	at := machineBounds{}
	if at.disk, err = diskBound(data); err != nil {
		return err
	}
	if at.loopback, err = loopbackBound(); err != nil {
		return err
	}
	leaves, joins := "c", "d"
	for i, rate := range split(f.rates) {
		if err := f.transfer(ctx, data, rate, valueBytes, i == 0, leaves, joins, at); err != nil {
			return fmt.Errorf("rate %s: %w", rate, err)
		}
		leaves, joins = joins, leaves
	}
	return nil
}

// transfer runs the cluster with a rate, and has a member at one site take the place of the one at another.
func (f transferring) transfer(
	ctx context.Context, data, rate string, valueBytes int, fill bool, leaves, joins string, at machineBounds,
) (err error) {
	c, err := openDev(ctx, f.binary, filepath.Join(data, "dev"), fmt.Sprintf(
		`{protocol: %s, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: %s, transferRate: %s}}`,
		f.protocol, f.durability, rate))
	if err != nil {
		return err
	}
	l := newLoad(f.keys, valueBytes, []register.Kind{register.Read, register.Write})
	l.every = f.every
	defer func() {
		l.end()
		err = errors.Join(err, c.Close())
	}()
	addresses := redisAddresses(ctx, c)
	if fill {
		if err := l.fill(ctx, []string{addresses["a"], addresses["b"]}); err != nil {
			return err
		}
	}
	for _, site := range []string{"a", "b"} {
		l.at(ctx, site, addresses[site], f.clients)
	}
	if err := pause(ctx, f.window+2*time.Second); err != nil {
		return err
	}
	watching, stop := context.WithCancel(ctx)
	defer stop()
	fetched := make(chan fetch, 1)
	go func() { fetched <- watch(watching, c, joins) }()
	begun := time.Now()
	if err := change(ctx, c,
		func(ctx context.Context, c *dev.Cluster) (string, error) {
			return c.Replace(ctx, leaves, joins)
		}); err != nil {
		return err
	}
	over := time.Now()
	if err := pause(ctx, f.window); err != nil {
		return err
	}
	stop()
	result := <-fetched
	took := result.end.Sub(result.begin)
	before, during, after := l.window("", begun.Add(-f.window), begun), l.window("", begun, over),
		l.window("", over, over.Add(f.window))
	fmt.Fprintf(os.Stderr,
		"joint view after %s, fetched after %s, over after %s; the longest gap, %s, ended after %s\n",
		result.begin.Sub(begun), result.end.Sub(begun), over.Sub(begun), during.gap, during.gapEnd.Sub(begun))
	fmt.Printf("| %d | %s | %.0f MiB | %.0f MiB | %.1f | %.1f | %.0f | %.0f | %.1f | %.1f / %.1f / %.1f | %.1f / "+
		"%.1f / %.1f | %.0f / %.0f / %.0f | %d |\n",
		valueBytes, rate, mib(result.change.GetBytes()), mib(result.change.GetSameBytes()), took.Seconds(),
		mib(result.change.GetBytes()+result.change.GetSameBytes())/took.Seconds(), at.disk, at.loopback,
		result.cpu.Seconds(),
		ms(before.p50), ms(during.p50), ms(after.p50), ms(before.p99), ms(during.p99), ms(after.p99),
		ms(before.gap), ms(during.gap), ms(after.gap), before.failed+during.failed+after.failed)
	return nil
}

func mib(n uint64) float64 { return float64(n) / (1 << 20) }

// fetch is how a member fetched the state.
type fetch struct {
	begin, end time.Time     // when it was in the joint view first, and when it had everything
	before     time.Duration // the CPU time that its process had used
	cpu        time.Duration // that it used meanwhile
	change     *adminv1.Change
}

// watch looks at a site's member until it has fetched the state, or the context ends.
func watch(ctx context.Context, c *dev.Cluster, site string) (f fetch) {
	for ctx.Err() == nil {
		for _, o := range c.Observe(ctx) {
			if o.Site != site || o.Status == nil {
				continue
			}
			change := o.Status.Change
			if change != nil && change.Transfers {
				f.change = change
			} else if f.change == nil {
				continue // the change has not begun
			}
			used, _ := bench.ProcessCPU(ctx, o.PID) // it answered just now
			if f.begin.IsZero() {
				f.begin, f.before = time.Now(), used
			}
			// The change may be over before the member was seen to have everything.
			if f.end, f.cpu = time.Now(), used-f.before; change == nil || change.Fetched {
				return f
			}
		}
		_ = pause(ctx, 50*time.Millisecond) // the loop sees the end of the context
	}
	return f
}
