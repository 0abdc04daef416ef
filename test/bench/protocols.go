package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// comparing are the flags of `bench protocols`.
type comparing struct {
	binary, dir, protocols, durability string
	operations                         string
	clients, depth, keys, values       int
	rounds                             int
	warmup, duration                   time.Duration
	data                               dataFile
}

// contender is a protocol's cluster.
type contender struct {
	can       capability.Protocol
	cluster   *dev.Cluster
	addresses []string // of the Redis listeners, by site
	servers   []int    // process ids of members and witnesses
}

// writable are the protocols that have plain writes, by which clusters are filled.
func writable() []string {
	return slices.DeleteFunc(capability.Names(), func(name string) bool {
		can, err := capability.Find(name)
		return err != nil || can.CheckOperation(register.Write) != nil
	})
}

// measureProtocols compares the throughput of protocols: three members of each run on this machine, and take turns cell
// by cell.
func measureProtocols(ctx context.Context, args []string) (err error) {
	var f comparing
	set := flag.NewFlagSet("protocols", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	set.StringVar(&f.protocols, "protocols", strings.Join(writable(), ","),
		"the protocols, comma separated; ratios are to the first")
	set.StringVar(&f.operations, "operations", "read,write,rmw", "what is measured, comma separated")
	set.StringVar(&f.durability, "durability", "Sync", "of the members; CURP has no other")
	set.IntVar(&f.clients, "clients", typical, "how many clients, spread over the members")
	set.IntVar(&f.depth, "depth", 1, "how many operations a client sends together")
	set.IntVar(&f.keys, "keys", 10_000, "how many keys there are")
	set.IntVar(&f.values, "value-bytes", 16, "how long values are")
	set.IntVar(&f.rounds, "rounds", 3, "how often each cell is measured, in turn; the table shows the medians")
	set.DurationVar(&f.warmup, "warmup", time.Second, "how long each cell runs before it is measured")
	set.DurationVar(&f.duration, "duration", 5*time.Second, "how long each cell is measured")
	f.data.flag(set)
	if err := set.Parse(args); err != nil {
		return err
	}
	data, err := os.MkdirTemp(f.dir, "bench-protocols-")
	if err != nil {
		return fmt.Errorf("make a directory for the data: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(data)) }()
	var all []*contender
	defer func() {
		for _, c := range all {
			err = errors.Join(err, c.cluster.Close())
		}
	}()
	for _, name := range split(f.protocols) {
		c, err := f.start(ctx, data, name)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		all = append(all, c)
	}
	fmt.Printf("# Protocols beside each other, three members of each and their clients on one machine: %s\n\n",
		machine())
	fmt.Printf("%d clients x %d operations through the Redis port, %d keys, values of %d bytes, durability %s. In "+
		"operations per second, and as a\n"+
		"multiple of %s's.\n\n", f.clients, f.depth, f.keys, f.values, f.durability, all[0].can.Name)
	fmt.Println("| protocol | reads | ratio | p50 ms | p99 ms | writes | ratio | p50 ms | p99 ms | rmws | ratio | " +
		"p50 ms | p99 ms |")
	fmt.Println("|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|")
	return f.compare(ctx, all)
}

// start runs three members of a protocol, and writes all keys.
func (f comparing) start(ctx context.Context, data, name string) (*contender, error) {
	can, err := capability.Find(name)
	if err != nil {
		return nil, err
	}
	cluster, err := openDev(ctx, f.binary, filepath.Join(data, can.Name), fmt.Sprintf(
		`{protocol: %s, sites: [{name: a}, {name: b}, {name: c}], storage: {durability: %s}}`, can.Name, f.durability))
	if err != nil {
		return nil, err
	}
	c := &contender{can: can, cluster: cluster}
	for _, o := range cluster.Observe(ctx) {
		c.addresses, c.servers = append(c.addresses, o.Redis), append(c.servers, o.PID)
		if o.Witness != nil {
			c.servers = append(c.servers, o.Witness.PID)
		}
	}
	options, err := f.options(c, register.Write)
	if err == nil {
		err = bench.Fill(ctx, options)
	}
	if err != nil {
		return nil, errors.Join(err, cluster.Close())
	}
	return c, nil
}

func (f comparing) options(c *contender, kind register.Kind) (bench.Options, error) {
	dialer, err := bench.FindDialer("redis")
	return bench.Options{
		Dialer: dialer, Addresses: c.addresses, Clients: f.clients, Depth: f.depth,
		Kinds: []register.Kind{kind}, Keys: f.keys, ValueBytes: f.values, Warmup: f.warmup, Duration: f.duration,
		Servers: c.servers,
	}, err
}

// compare measures each kind of operation with all protocols in turn, and prints the table.
func (f comparing) compare(ctx context.Context, all []*contender) error {
	lines := make([]string, len(all))
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
		results := make([][]bench.Result, len(all))
		for range f.rounds {
			for i, c := range all {
				if !slices.Contains(split(f.operations), kind.String()) || c.can.CheckOperation(kind) != nil {
					continue
				}
				options, err := f.options(c, kind)
				if err != nil {
					return err
				}
				result, err := f.data.run(ctx, "bench protocols", c.can.Name, kind.String(), f.durability, options)
				if err != nil {
					return fmt.Errorf("%s, %s: %w", c.can.Name, kind, err)
				}
				results[i] = append(results[i], result)
				fmt.Fprintf(os.Stderr, "%s, %s: %.0f/s, p50 %s, p99 %s, CPU %s\n", c.can.Name, kind,
					result.Throughput(), result.P50, result.P99, result.CPUPerOperation())
			}
		}
		var first bench.Result
		for i := range all {
			if len(results[i]) == 0 {
				lines[i] += " - | - | - | - | - |"
				continue
			}
			middle := medianOf(results[i])
			if i == 0 {
				first = middle
			}
			lines[i] += fmt.Sprintf(" %.0f | %s | %.1f | %.1f | %.0f |", middle.Throughput(), ratio(middle, first),
				ms(middle.P50), ms(middle.P99), float64(middle.CPUPerOperation().Nanoseconds())/1e3)
		}
	}
	for i, c := range all {
		fmt.Printf("| %s |%s\n", c.can.Name, lines[i])
	}
	return nil
}
