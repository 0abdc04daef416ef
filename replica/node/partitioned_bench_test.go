package node

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// BenchmarkPartitionedWrite is writes of many clients at a member that is neither master nor backup of the keys'
// partition.
func BenchmarkPartitionedWrite(b *testing.B) {
	p := newPartitioned(b, 3)
	client := p.members[p.order[2]].node
	keys := p.keys(0, 10_000)
	for _, clients := range []int{1, 64, 1024} {
		b.Run(fmt.Sprint("clients-", clients), func(b *testing.B) {
			var started, fast atomic.Int64
			ended := make(chan struct{}, clients)
			begin := time.Now()
			b.ResetTimer()
			for range clients {
				var next func(register.Result)
				next = func(r register.Result) {
					if r.Status != register.OK {
						b.Errorf("%s: %s", r.Status, r.Message)
					}
					if r.Fast {
						fast.Add(1)
					}
					n := started.Add(1)
					if n > int64(b.N) {
						ended <- struct{}{}
						return
					}
					client.Submit(
						register.Operation{Kind: register.Write, Key: keys[n%int64(len(keys))],
							Value: register.Value("value")}, patience, next)
				}
				next(register.Result{Status: register.OK})
			}
			for range clients {
				<-ended
			}
			b.StopTimer()
			took := time.Since(begin)
			b.ReportMetric(float64(b.N)/took.Seconds(), "ops/s")
			b.ReportMetric(100*float64(fast.Load())/float64(b.N), "%fast")
		})
	}
}
