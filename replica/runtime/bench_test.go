package runtime

import (
	"fmt"
	stdruntime "runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
)

// BenchmarkReplicas drives three replicas of this process with closed-loop clients that call Submit, half
// reads, half writes, on keys of their own. It reports the processor time and the allocations of all
// three together per operation.
func BenchmarkReplicas(b *testing.B) {
	for _, protocol := range []string{"abd", "gryff"} {
		for _, durability := range []storage.Durability{storage.Memory, storage.Sync} {
			for _, load := range []struct{ clients, size int }{{1, 16}, {16, 16}, {128, 16}, {128, 1024}, {1024, 16}} {
				b.Run(fmt.Sprintf("%s/%s/%dclients/%dB", protocol, durability, load.clients, load.size), func(b *testing.B) {
					c := newCluster(b, 3, Options{Protocol: protocol, Shards: 2}, storage.Options{Durability: durability})
					for _, r := range c.replicas {
						eventually(b, "a quorum", r.Quorum)
					}
					value := make(register.Value, load.size)
					drive(b, c, load.clients, func(n int64, key string) register.Operation {
						if n%2 == 0 {
							return register.Operation{Kind: register.Write, Key: key, Value: value}
						}
						return register.Operation{Kind: register.Read, Key: key}
					})
				})
			}
		}
	}
}

// BenchmarkRMWs is BenchmarkReplicas with additions, on keys of their own or all on one.
func BenchmarkRMWs(b *testing.B) {
	for _, durability := range []storage.Durability{storage.Memory, storage.Sync} {
		for _, load := range []struct {
			name    string
			clients int
			shared  bool
		}{{"apart", 1, false}, {"apart", 128, false}, {"shared", 128, true}} {
			b.Run(fmt.Sprintf("%s/%s/%dclients", durability, load.name, load.clients), func(b *testing.B) {
				c := newCluster(b, 3, Options{Protocol: "gryff", Shards: 2}, storage.Options{Durability: durability})
				for _, r := range c.replicas {
					eventually(b, "a quorum", r.Quorum)
				}
				add := register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}}
				drive(b, c, load.clients, func(_ int64, key string) register.Operation {
					if load.shared {
						key = "shared"
					}
					return register.Operation{Kind: register.RMW, Key: key, Call: add}
				})
			})
		}
	}
}

// drive lets clients do what operation makes of its number and the client's key.
func drive(b *testing.B, c *cluster, clients int, operation func(n int64, key string) register.Operation) {
	var started, failed atomic.Int64
	var finished sync.WaitGroup
	var before, after stdruntime.MemStats
	stdruntime.ReadMemStats(&before)
	cpu := processorTime()
	begin := time.Now()
	b.ResetTimer()
	for client := range clients {
		finished.Add(1)
		replica := c.replicas[client%len(c.replicas)]
		key := fmt.Sprint("key-", client)
		var next func(register.Result)
		next = func(r register.Result) {
			if r.Status != register.OK {
				failed.Add(1)
			}
			n := started.Add(1)
			if n > int64(b.N) {
				finished.Done()
				return
			}
			replica.Submit(operation(n, key), 0, next)
		}
		next(register.Result{Status: register.OK})
	}
	finished.Wait()
	b.StopTimer()
	took := time.Since(begin)
	stdruntime.ReadMemStats(&after)
	n := float64(b.N)
	b.ReportMetric(n/took.Seconds(), "ops/s")
	b.ReportMetric((processorTime()-cpu).Seconds()*1e6/n, "cpu-µs/op")
	b.ReportMetric(float64(after.Mallocs-before.Mallocs)/n, "mallocs/op")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/n, "alloc-B/op")
	b.ReportMetric(0, "ns/op")
	if failed.Load() > 0 {
		b.Fatalf("%d operations failed", failed.Load())
	}
}

func processorTime() time.Duration {
	var use syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &use); err != nil {
		panic(err)
	}
	return time.Duration(use.Utime.Nano() + use.Stime.Nano())
}
