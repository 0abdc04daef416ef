// Command bench compares a cluster of three Georegister replicas with one of three etcd members. Both run on this
// machine, as processes of their own, with equal durability; both are driven by the same clients, in turn, cell
// by cell. It prints tables in Markdown.
//
// `bench keys` compares throughput with few and many keys, `bench change` measures what clients feel while members
// change, `bench transfer` how fast a member fetches the state, `bench losses` how long a shard is not served when a
// backup or its master is lost, `bench masters` what a write costs with CURP and with what it replaces, `bench redis`
// does that beside Redis, `bench protocols` compares the throughput of protocols, and `bench memory` measures what a
// key takes of memory and disk with each.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload/bench"
)

type flags struct {
	binary, etcd, dir string
	redis             string
	echo              bool
	protocol          string
	durabilities      []string
	kinds             []register.Kind
	through           []string // listeners of the replicas
	clients, values   []int
	shards, rounds    int
	warmup, duration  time.Duration
	keys              int
	limit             int64 // of a replica's memory; 0: the machine's
	data              dataFile
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	var err error
	switch command := append(os.Args, "")[1]; command {
	case "change":
		err = measureChanges(ctx, os.Args[2:])
	case "echo":
		err = serveEcho(ctx, os.Args[2:])
	case "keys":
		err = measureKeys(ctx, os.Args[2:])
	case "losses":
		err = measureLosses(ctx, os.Args[2:])
	case "masters":
		err = measureMasters(ctx, os.Args[2:])
	case "memory":
		err = measureMemory(ctx, os.Args[2:])
	case "protocols":
		err = measureProtocols(ctx, os.Args[2:])
	case "redis":
		err = measureRedis(ctx, os.Args[2:])
	case "sustained":
		err = measureSustained(ctx, os.Args[2:])
	case "transfer":
		err = measureTransfers(ctx, os.Args[2:])
	default:
		err = run(ctx, parse())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

func parse() flags {
	var f flags
	durabilities := flag.String("durability", "Memory,Sync", "what to compare, comma separated")
	clients := flag.String("clients", "1,16,128,1024", "numbers of clients, comma separated")
	values := flag.String("values", "16,1024", "sizes of values in bytes, comma separated")
	kinds := flag.String("kinds", "read,write,rmw", "the operations to measure, comma separated")
	through := flag.String("through", "grpc,stream,redis", "the listeners of the replicas to measure, comma separated")
	flag.StringVar(&f.binary, "binary", "bin/georegister", "the programs to measure, comma separated; empty: none")
	flag.StringVar(&f.etcd, "etcd", "bin/etcd", "the etcd to compare with; built if it does not exist; empty: none")
	flag.StringVar(&f.redis, "redis", "",
		"the redis-server to compare with, whose clients WAIT for one of two replicas; empty: none")
	flag.BoolVar(&f.echo, "echo", false, "measure the listeners over a store that answers at once, too")
	flag.StringVar(&f.dir, "dir", os.TempDir(), "where the members keep their data; it should be a real disk")
	flag.StringVar(&f.protocol, "protocol", "Gryff", "the protocol of the replicas")
	flag.IntVar(&f.shards, "shards", int(v1alpha1.DefaultShards), "how many shards the replicas have")
	flag.DurationVar(&f.duration, "duration", 2*time.Second, "how long each cell is measured")
	flag.DurationVar(&f.warmup, "warmup", 500*time.Millisecond, "how long each cell runs before that")
	flag.IntVar(&f.rounds, "rounds", 1, "how often each cell is measured, in turn; the tables show the medians")
	flag.IntVar(&f.keys, "keys", 10000, "how many keys there are")
	f.data.flag(flag.CommandLine)
	flag.Parse()
	f.durabilities = strings.Split(*durabilities, ",")
	for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
		if slices.Contains(strings.Split(*kinds, ","), kind.String()) {
			f.kinds = append(f.kinds, kind)
		}
	}
	f.through = strings.Split(*through, ",")
	f.clients, f.values = numbers("clients", *clients), numbers("values", *values)
	return f
}

func numbers(name, list string) []int {
	var all []int
	for word := range strings.SplitSeq(list, ",") {
		n, err := strconv.Atoi(strings.TrimSpace(word))
		if err != nil || n < 1 {
			fmt.Fprintf(os.Stderr, "bench: -%s: %q is no number above 0\n", name, word)
			os.Exit(2)
		}
		all = append(all, n)
	}
	return all
}

func run(ctx context.Context, f flags) error {
	if f.etcd != "" {
		if err := buildEtcd(ctx, f.etcd); err != nil {
			return err
		}
	}
	fmt.Printf("# Three members and their clients on one machine: %s\n\n", machine())
	var tables []*table
	for _, durability := range f.durabilities {
		measured, err := compare(ctx, f, durability)
		if err != nil {
			return fmt.Errorf("%s: %w", durability, err)
		}
		tables = append(tables, measured...)
	}
	summarize(os.Stdout, tables)
	return nil
}

// compare measures every cell with one durability.
func compare(ctx context.Context, f flags, durability string) (tables []*table, err error) {
	var systems []system
	var binaries []string
	if f.binary != "" {
		binaries = split(f.binary)
	}
	for _, binary := range binaries {
		f.binary = binary
		ours, err := startGeoregister(ctx, f, durability)
		if err != nil {
			return nil, err
		}
		defer ours.stop()
		of := "" // which program, if there are several
		if len(binaries) > 1 {
			of = filepath.Base(binary) + ", "
		}
		for _, s := range []system{
			{of + "gRPC call", "grpc", ours}, {of + "gRPC stream", "stream", ours}, {of + "Redis", "redis", ours},
		} {
			if slices.Contains(f.through, s.listener) {
				systems = append(systems, s)
			}
		}
	}
	if f.etcd != "" {
		etcd, err := startEtcd(ctx, f, durability)
		if err != nil {
			return nil, err
		}
		defer etcd.stop()
		systems = append(systems, system{"etcd", "etcd", etcd})
	}
	if f.redis != "" {
		redis, err := startReplicatedRedis(ctx, f, durability)
		if err != nil {
			return nil, err
		}
		defer redis.stop()
		systems = append(systems, system{"Redis with WAIT", "WAIT", redis})
	}
	if f.echo {
		echoes, err := startEchoes(ctx, f)
		if err != nil {
			return nil, err
		}
		defer echoes.stop()
		systems = append(systems, system{"echo, gRPC call", "grpc", echoes},
			system{"echo, gRPC stream", "stream", echoes}, system{"echo, Redis", "redis", echoes})
	}
	for _, valueBytes := range f.values {
		t := newTable(durability, valueBytes, systems)
		filled := map[*cluster]bool{} // never ranged over
		for _, s := range systems {
			if filled[s.cluster] {
				continue
			}
			filled[s.cluster] = true
			if err := bench.Fill(ctx, s.options(f, cell{register.Write, valueBytes, 1, 1})); err != nil {
				return nil, fmt.Errorf("fill %s: %w", s.name, err)
			}
		}
		for _, c := range cells(f, valueBytes) {
			if err := t.measure(ctx, f, c); err != nil {
				return nil, err
			}
		}
		t.print(os.Stdout)
		tables = append(tables, t)
	}
	return tables, nil
}

// cell is one row of a table.
type cell struct {
	kind       register.Kind
	valueBytes int
	clients    int
	depth      int
}

// pipelined are the cells that show what pipelining is worth: as many operations in flight, over few connections.
const (
	pipelineClients = 16
	pipelineDepth   = 64
)

func cells(f flags, valueBytes int) []cell {
	var all, pipelined []cell
	can, err := capability.Find(f.protocol)
	for _, kind := range f.kinds {
		if err != nil || can.CheckOperation(kind) != nil {
			continue
		}
		if kind == register.RMW {
			all = append(all, cell{kind, valueBytes, typical, 1})
			continue
		}
		for _, clients := range f.clients {
			all = append(all, cell{kind, valueBytes, clients, 1})
		}
		pipelined = append(pipelined, cell{kind, valueBytes, pipelineClients, pipelineDepth})
	}
	return append(all, pipelined...)
}

// system is one way into one cluster.
type system struct {
	name     string
	listener string
	cluster  *cluster
}

func (s system) pipelines() bool {
	return s.listener == "stream" || s.listener == "redis" || s.listener == "WAIT"
}

func (s system) options(f flags, c cell) bench.Options {
	dialer, err := bench.FindDialer(s.listener)
	if err != nil {
		panic(err) // the names are this program's
	}
	return bench.Options{
		Dialer: dialer, Addresses: s.cluster.addresses[s.listener], Clients: c.clients, Depth: c.depth,
		Kinds: []register.Kind{c.kind}, Keys: f.keys, ValueBytes: c.valueBytes,
		Warmup: f.warmup, Duration: f.duration, Servers: s.cluster.pids(),
	}
}
