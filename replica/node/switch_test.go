package node

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// How long clients wait while all members take on a view: from the moment that it is given to all of them at once, or
// to one, from which the others learn it, until an operation that came in then is answered.
func BenchmarkTakingOnAView(b *testing.B) {
	for name, told := range map[string][]view.MemberID{"all": {1, 2, 3}, "one": {1}} {
		for _, durability := range []storage.Durability{storage.Sync, storage.Memory} {
			b.Run(name+", "+durability.String(), func(b *testing.B) {
				all := newCast(b, "Gryff", durability, 3)
				v := all.found(b, 1, 2, 3)
				var configured, served time.Duration
				for b.Loop() {
					v.Epoch++
					begin := time.Now()
					all.tell(b, v, told...)
					configured += time.Since(begin)
					done := make(chan register.Result, 1)
					all[1].node.Submit(register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")},
						patience, func(r register.Result) { done <- r })
					if r := <-done; r.Status != register.OK {
						b.Fatal(r)
					}
					served += time.Since(begin)
				}
				b.ReportMetric(configured.Seconds()*1e3/float64(b.N), "ms/configured")
				b.ReportMetric(served.Seconds()*1e3/float64(b.N), "ms/served")
			})
		}
	}
}
