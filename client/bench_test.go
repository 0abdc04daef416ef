package client

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// instant is a store that answers every operation at once, from one other goroutine.
type instant struct{ work chan func() }

func (i *instant) Submit(op register.Operation, _ time.Duration, done func(register.Result)) {
	i.work <- func() { done(register.Result{Status: register.OK, Value: op.Value}) }
}

// BenchmarkSet writes 16 bytes over loopback, one operation at a time in each of many goroutines that share
// one client. Allocations are those of the client and of the replica's listener together.
func BenchmarkSet(b *testing.B) {
	for _, goroutines := range []int{1, 16, 128} {
		b.Run(fmt.Sprintf("goroutines=%d", goroutines), func(b *testing.B) {
			store := &instant{work: make(chan func(), 4096)}
			go func() {
				for f := range store.work {
					f()
				}
			}()
			c := dial(b, serve(b, store))
			ctx := within(b, 10*time.Minute)
			var left atomic.Int64
			left.Store(int64(b.N))
			var wg sync.WaitGroup
			b.ReportAllocs()
			b.ResetTimer()
			for g := range goroutines {
				wg.Go(func() {
					key, value := fmt.Sprint("key", g), []byte("0123456789abcdef")
					for left.Add(-1) >= 0 {
						if err := c.Set(ctx, key, value); err != nil {
							b.Error(err)
							return
						}
					}
				})
			}
			wg.Wait()
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "ops/s")
		})
	}
}
