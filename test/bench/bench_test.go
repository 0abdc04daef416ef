package main

import (
	"context"
	"fmt"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/workload/bench"
)

// BenchmarkCluster runs three replicas and their clients in this process, so that -benchmem and -cpuprofile show
// what an operation costs all of them together.
func BenchmarkCluster(b *testing.B) {
	for _, durability := range []storage.Durability{storage.Memory, storage.Sync} {
		for _, listener := range []string{"redis", "stream", "grpc"} {
			for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
				b.Run(fmt.Sprintf("%s/%s/%s", durability, listener, kind), func(b *testing.B) {
					benchmarkCluster(b, durability, listener, kind)
				})
			}
		}
	}
}

func benchmarkCluster(b *testing.B, durability storage.Durability, listener string, kind register.Kind) {
	const clients, keys = 128, 10000
	c := &cluster{addresses: map[string][]string{}, dir: b.TempDir()}
	configs, err := c.configure(flags{protocol: "Gryff", shards: 4}, durability)
	if err != nil {
		b.Fatal(err)
	}
	ctx, stop := context.WithCancel(b.Context())
	running, ctx := errgroup.WithContext(ctx)
	for _, config := range configs {
		running.Go(func() error { return node.Run(ctx, config, node.Options{}) })
	}
	defer func() {
		stop()
		if err := running.Wait(); err != nil {
			b.Error(err)
		}
	}()
	if err := c.answers(ctx, "replica", listener); err != nil {
		b.Fatal(err)
	}
	dialer, err := bench.FindDialer(listener)
	if err != nil {
		b.Fatal(err)
	}
	var workers errgroup.Group
	var next atomic.Int64
	b.ReportAllocs()
	b.ResetTimer()
	before := cpuTime(b)
	for i := range clients {
		workers.Go(func() error {
			conn, err := dialer.Dial(ctx, c.addresses[listener][i%members])
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // everything was answered
			value := make(register.Value, 16)
			for n := next.Add(1); n <= int64(b.N); n = next.Add(1) {
				op := register.Operation{
					Kind: kind, Key: fmt.Sprintf("%s/%d", kind, n%keys), Value: value,
					Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}},
				}
				if err := conn.Do(ctx, []register.Operation{op}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := workers.Wait(); err != nil {
		b.Fatal(err)
	}
	b.StopTimer()
	b.ReportMetric(float64(cpuTime(b)-before)/float64(b.N), "cpu-ns/op")
}

// cpuTime is what this process has used so far: unlike the time on the wall, it hardly depends on what else the
// machine does.
func cpuTime(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
