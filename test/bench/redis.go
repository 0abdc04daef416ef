package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/witness"
)

// besideRedis are the flags of `bench redis`.
type besideRedis struct {
	mastering
	requests int
	link     time.Duration
}

// measureRedis drives Redis and a master's Redis port by the same redis-benchmark, one after the other (section 5.4 of
// CURP's paper: witnesses hide the disk of a single server).
func measureRedis(ctx context.Context, args []string) error {
	var f besideRedis
	set := flag.NewFlagSet("redis", flag.ContinueOnError)
	set.StringVar(&f.binary, "binary", "bin/georegister", "the program to measure")
	set.StringVar(&f.dir, "dir", os.TempDir(), "where the processes keep their data; it should be a real disk")
	set.IntVar(&f.rounds, "rounds", 3, "how often each cell is measured, in turn; the table shows the medians")
	set.IntVar(&f.requests, "requests", 20_000, "how many SETs a cell has")
	set.StringVar(&f.clients, "clients", "1,16,64", "numbers of clients, comma separated")
	set.IntVar(&f.valueBytes, "value", 100, "size of values in bytes")
	set.DurationVar(&f.link, "link", 0,
		"the round trip between a master, its backups and its witnesses, as if on machines of their own")
	if err := set.Parse(args); err != nil {
		return err
	}
	for _, program := range []string{"redis-server", "redis-benchmark"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%s is needed (Debian: redis-server and redis-tools): %w", program, err)
		}
	}
	servers, stop, err := f.servers(ctx)
	defer stop()
	if err != nil {
		return err
	}
	fmt.Printf("# SET by redis-benchmark, on one machine: %s\n\nValues of %d bytes, random keys of 100000, data in "+
		"%s, links of %s (round trip).\n\n", machine(), f.valueBytes, f.dir, f.link)
	fmt.Println("| clients | server | SET/s | p50 ms | p99 ms |\n|---:|---|---:|---:|---:|")
	for _, clients := range numbers("clients", f.clients) {
		all := map[string][]redisResult{}
		for range f.rounds {
			for _, s := range servers {
				r, err := f.drive(ctx, s.address, clients)
				if err != nil {
					return fmt.Errorf("%s, %d clients: %w", s.name, clients, err)
				}
				all[s.name] = append(all[s.name], r)
			}
		}
		for _, s := range servers {
			r := median(all[s.name], func(a, b redisResult) int { return cmp.Compare(a.rate, b.rate) })
			fmt.Printf("| %d | %s | %.0f | %.2f | %.2f |\n", clients, s.name, r.rate, r.p50, r.p99)
		}
	}
	fmt.Println()
	return nil
}

type redisServer struct{ name, address string }

// servers starts all that are compared. Stop ends what was started, also after an error.
func (f besideRedis) servers(ctx context.Context) (all []redisServer, stop func(), err error) {
	var stops []func()
	stop = func() {
		for _, s := range stops {
			s()
		}
	}
	for _, policy := range []string{"everysec", "always"} {
		c, err := newCluster(flags{dir: f.dir}, "redis")
		if err != nil {
			return nil, stop, err
		}
		stops = append(stops, c.stop)
		ports, err := freePorts(1)
		if err != nil {
			return nil, stop, err
		}
		if err := c.spawnRedis("redis", "redis-server", ports[0], c.dir, policy); err != nil {
			return nil, stop, err
		}
		all = append(all, redisServer{"redis-server, appendfsync " + policy, ports[0]})
	}
	for _, m := range []struct {
		mode
		witnesses witness.Durability
	}{
		{mode{"one durable replica", 0, 0}, witness.Sync},
		{mode{"one with a witness (f = 0)", 0, 1}, witness.Sync},
		{mode{"one with a witness in memory (f = 0)", 0, 1}, witness.Memory},
		{mode{"CURP, f = 1", 1, 1}, witness.Sync},
		{mode{"primary-backup, f = 1", 1, 0}, witness.Sync},
	} {
		with := f.mastering
		with.witnesses = m.witnesses
		t, err := startTier(ctx, with, []mode{m.mode}, f.link, node.CURP{})
		if err != nil {
			return nil, stop, fmt.Errorf("%s: %w", m.name, err)
		}
		stops = append(stops, t.stop)
		all = append(all, redisServer{"Georegister, " + m.name, t.masterRedis})
	}
	for _, s := range all {
		if err := ready(ctx, s.name, func(ctx context.Context) error {
			conn, err := dialRedis(ctx, s.address)
			if err == nil {
				err = conn.Close()
			}
			return err
		}); err != nil {
			return nil, stop, err
		}
	}
	return all, stop, nil
}

type redisResult struct{ rate, p50, p99 float64 }

// drive runs redis-benchmark to its end.
func (f besideRedis) drive(ctx context.Context, address string, clients int) (r redisResult, err error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return r, err
	}
	requests := f.requests
	if clients == 1 {
		requests /= 4
	}
	command := exec.CommandContext(ctx, "redis-benchmark", "-h", host, "-p", port, "-t", "set", "-c",
		strconv.Itoa(clients),
		"-n", strconv.Itoa(requests), "-d", strconv.Itoa(f.valueBytes), "-r", "100000", "--csv")
	out, err := command.Output()
	if err != nil {
		return r, fmt.Errorf("redis-benchmark: %w", err)
	}
	rows, err := csv.NewReader(strings.NewReader(string(out))).ReadAll()
	if err != nil || len(rows) < 2 {
		return r, errors.Join(fmt.Errorf("redis-benchmark printed no table: %s", out), err)
	}
	for i, name := range rows[0] {
		value, err := strconv.ParseFloat(rows[1][i], 64)
		switch name {
		case "rps":
			r.rate = value
		case "p50_latency_ms":
			r.p50 = value
		case "p99_latency_ms":
			r.p99 = value
		default:
			continue
		}
		if err != nil {
			return r, fmt.Errorf("redis-benchmark: %s: %w", name, err)
		}
	}
	return r, nil
}
