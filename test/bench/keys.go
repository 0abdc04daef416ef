package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

// mix is a named workload: one of its kinds is drawn for each operation. Keys are drawn evenly, which is harder for a
// cache than what YCSB draws.
type mix struct {
	name  string
	kinds []register.Kind
}

func mixes() []mix {
	read, write, rmw := register.Read, register.Write, register.RMW
	return []mix{
		{"reads", []register.Kind{read}},
		{"writes", []register.Kind{write}},
		{"YCSB-A", []register.Kind{read, write}},
		{"YCSB-B", append(slices.Repeat([]register.Kind{read}, 19), write)},
		{"YCSB-F", []register.Kind{read, rmw}},
	}
}

// growing are the flags of `bench keys`.
type growing struct {
	flags
	binaries, mixes string
	unread          bool // by the third member: it learns of a key when somebody asks there
	counts          []int
	valueBytes      int
}

// store is a cluster with a number of keys.
type store struct {
	system
	keys int
}

// fillDepthOfStores is how many writes a client that fills a store sends together, where the listener takes so many.
const fillDepthOfStores = 16

// measureKeys compares throughput with few and with many keys: a cluster for each number, which take turns.
func measureKeys(ctx context.Context, args []string) error {
	f, err := parseStores("keys", args, "10000,200000,1000000", func(*flag.FlagSet) {})
	if err != nil {
		return err
	}
	stores, stop, err := f.start(ctx)
	defer stop()
	if err != nil {
		return err
	}
	fmt.Printf("# Few and many keys, three members of each and their clients on one machine: %s\n\n", machine())
	fmt.Printf("%d clients, values of %d random bytes, durability %s, medians of %d.\n\n", f.clients[0], f.valueBytes,
		f.durabilities[0], f.rounds)
	fmt.Print("Before that every key was written once, and read once through each member: a write goes to two of the " +
		"three, and the first\nread through the third brings it the value.\n\n")
	fmt.Printf("| workload | store | keys | operations/s | to %d keys | to etcd | p50 ms | p99 ms | p99.9 ms |\n",
		f.counts[0])
	fmt.Println("|---|---|---:|---:|---:|---:|---:|---:|---:|")
	for _, m := range f.chosen() {
		if err := f.measure(ctx, m, stores); err != nil {
			return fmt.Errorf("%s: %w", m.name, err)
		}
	}
	return nil
}

// chosen are the workloads to measure.
func (f growing) chosen() []mix {
	return slices.DeleteFunc(mixes(), func(m mix) bool { return !slices.Contains(split(f.mixes), m.name) })
}

// parseStores reads the flags of a command that fills stores, and of that command alone.
func parseStores(name string, args []string, counts string, own func(*flag.FlagSet)) (growing, error) {
	var f growing
	set := flag.NewFlagSet(name, flag.ContinueOnError)
	own(set)
	set.StringVar(&f.binaries, "binary", "bin/georegister", "the programs to measure, comma separated")
	set.StringVar(&f.etcd, "etcd", "bin/etcd", "the etcd to compare with; built if it does not exist; empty: none")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	set.StringVar(&f.protocol, "protocol", "Gryff", "the protocol of the replicas")
	set.StringVar(&f.mixes, "mixes", "reads,writes,YCSB-A,YCSB-B,YCSB-F", "the workloads, comma separated")
	set.IntVar(&f.shards, "shards", int(v1alpha1.DefaultShards), "how many shards the replicas have")
	set.IntVar(&f.valueBytes, "value-bytes", 100, "how long values are")
	set.IntVar(&f.rounds, "rounds", 3, "how often each cell is measured, in turn; the table shows the medians")
	set.DurationVar(&f.duration, "duration", 5*time.Second, "how long each cell is measured")
	set.DurationVar(&f.warmup, "warmup", 2*time.Second, "how long each cell runs before that")
	f.data.flag(set)
	keys := set.String("keys", counts, "numbers of keys, comma separated; ratios are to the first")
	clients := set.Int("clients", typical, "how many clients, spread over the members")
	durability := set.String("durability", "Sync", "of the members")
	if err := set.Parse(args); err != nil {
		return f, err
	}
	f.counts, f.clients, f.durabilities = numbers("keys", *keys), []int{*clients}, []string{*durability}
	return f, nil
}

// start runs a cluster of each program for each number of keys, and writes all keys.
func (f growing) start(ctx context.Context) (stores []store, stop func(), err error) {
	stop = func() {
		for _, s := range stores {
			s.cluster.stop()
		}
	}
	run := func(name, listener string, keys int, begin func() (*cluster, error)) error {
		c, err := begin()
		if err != nil {
			return err
		}
		s := store{system{name, listener, c}, keys}
		stores = append(stores, s)
		begun := time.Now()
		o := f.options(s, mix{kinds: []register.Kind{register.Write}})
		if s.pipelines() {
			o.Depth = fillDepthOfStores
		}
		written := showProgress(name+": written", keys)
		o.Answered = written.add
		err = bench.Fill(ctx, o)
		written.end()
		if err != nil {
			return fmt.Errorf("fill %s: %w", name, err)
		}
		if s.pipelines() && f.mixes != "writes" && !f.unread { // etcd's members have all that was written
			if err := bench.ReadAll(ctx, o); err != nil {
				return fmt.Errorf("read all of %s: %w", name, err)
			}
		}
		fmt.Fprintf(os.Stderr, "%s: %d keys are there after %s\n", name, keys, time.Since(begun).Round(time.Second))
		return nil
	}
	if f.etcd != "" {
		if err := buildEtcd(ctx, f.etcd); err != nil {
			return nil, stop, err
		}
	}
	for _, keys := range f.counts {
		for _, binary := range split(f.binaries) {
			own := f.flags
			own.binary = binary
			err := run(filepath.Base(binary), "redis", keys,
				func() (*cluster, error) { return startGeoregister(ctx, own, f.durabilities[0]) })
			if err != nil {
				return stores, stop, err
			}
		}
		if f.etcd != "" {
			err := run("etcd", "etcd", keys,
				func() (*cluster, error) { return startEtcd(ctx, f.flags, f.durabilities[0]) })
			if err != nil {
				return stores, stop, err
			}
		}
	}
	return stores, stop, nil
}

func (f growing) options(s store, m mix) bench.Options {
	own := f.flags
	own.keys = s.keys
	o := s.system.options(own, cell{valueBytes: f.valueBytes, clients: f.clients[0], depth: 1})
	o.Kinds = m.kinds
	return o
}

// measure prints the rows of a workload.
func (f growing) measure(ctx context.Context, m mix, stores []store) error {
	results := make([][]bench.Result, len(stores))
	for range f.rounds {
		for i, s := range stores {
			o := f.options(s, m)
			result, err := f.data.run(ctx, "bench keys", s.name, m.name, f.durabilities[0], o)
			if err != nil {
				return fmt.Errorf("%s, %d keys: %w", s.name, s.keys, err)
			}
			results[i] = append(results[i], result)
			fmt.Fprintf(os.Stderr, "%s, %s, %d keys: %.0f/s, p99 %s, CPU %s\n", m.name, s.name, s.keys,
				result.Throughput(), result.P99, result.CPUPerOperation())
		}
	}
	middle := make([]bench.Result, len(stores))
	for i := range stores {
		middle[i] = medianOf(results[i])
	}
	of := func(name string, keys int) bench.Result {
		at := slices.IndexFunc(stores, func(s store) bool { return s.name == name && s.keys == keys })
		if at < 0 {
			return bench.Result{}
		}
		return middle[at]
	}
	for i, s := range stores {
		fmt.Printf("| %s | %s | %d | %.0f | %.0f%% | %s | %.1f | %.1f | %.1f |\n", m.name, s.name, s.keys,
			middle[i].Throughput(), 100*middle[i].Throughput()/of(s.name, f.counts[0]).Throughput(),
			ratio(middle[i], of("etcd", s.keys)), ms(middle[i].P50), ms(middle[i].P99), ms(middle[i].P999))
	}
	return nil
}

// progress shows every few seconds how far a long task is.
type progress struct {
	done    atomic.Int64
	stopped chan struct{}
}

func showProgress(what string, all int) *progress {
	p := &progress{stopped: make(chan struct{})}
	go func() {
		ticker := time.NewTicker(10 * time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				fmt.Fprintf(os.Stderr, "%s %d of %d\n", what, p.done.Load(), all)
			case <-p.stopped:
				return
			}
		}
	}()
	return p
}

func (p *progress) add(n int) { p.done.Add(int64(n)) }

func (p *progress) end() { close(p.stopped) }
