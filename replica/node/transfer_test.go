package node

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/view"
)

// pace is an open load on the three members of a cluster, until the condition is true; it returns the times that
// operations took, sorted.
func (c cast) pace(until func() bool) []time.Duration {
	var mutex sync.Mutex
	var took []time.Duration
	var flying sync.WaitGroup
	ticker := time.NewTicker(4 * time.Millisecond)
	defer ticker.Stop()
	for n := 0; !until(); n++ {
		<-ticker.C
		op := register.Operation{Kind: register.Read, Key: fmt.Sprint("small-", n%50)}
		if n%2 == 0 {
			op.Kind, op.Value = register.Write, register.Value("v")
		}
		begin := time.Now()
		flying.Add(1)
		c[view.MemberID(n%3+1)].node.Submit(op, 0, func(register.Result) {
			mutex.Lock()
			defer mutex.Unlock()
			took = append(took, time.Since(begin))
			flying.Done()
		})
	}
	flying.Wait()
	slices.Sort(took)
	return took
}

// What clients feel while a newcomer fetches 125 MiB of large values, by the rate: one change of members each, with all
// members on one disk.
func BenchmarkClientsDuringATransfer(b *testing.B) {
	for _, rate := range []Bytes{8 << 20, 16 << 20, DefaultTransferRate, 64 << 20, 0} {
		b.Run(fmt.Sprintf("%dMi", rate>>20), func(b *testing.B) {
			for b.Loop() {
				transfer(b, rate)
			}
		})
	}
}

func transfer(b *testing.B, rate Bytes) {
	all := cast{}
	for id := range view.MemberID(4) {
		c := waiting(b, id+1, storage.Sync)
		c.Limits.ValueBytes, c.TransferRate = 1<<20, &rate
		all[id+1] = run(b, c)
	}
	v := all.found(b, 1, 2, 3)
	written := make(chan register.Result, 2000)
	for i := range cap(written) {
		value := []byte(fmt.Sprintf("%*d", 64<<10, i))
		all[1].node.Submit(register.Operation{Kind: register.Write, Key: fmt.Sprint("large-", i), Value: value}, 0,
			func(r register.Result) { written <- r })
		if i%8 == 7 {
			for range 8 {
				<-written
			}
		}
	}
	report := func(when string, took []time.Duration) {
		for _, part := range []int{500, 990, 999} {
			b.ReportMetric(took[len(took)*part/1000].Seconds()*1e3, fmt.Sprintf("ms/p%g-%s", float64(part)/10, when))
		}
	}
	end := time.Now().Add(5 * time.Second)
	report("before", all.pace(func() bool { return time.Now().After(end) }))
	joint := all.begin(b, v, []view.MemberID{4}, nil)
	begin := time.Now()
	report("during", all.pace(func() bool { return all[4].node.now.Load().replica.Complete() }))
	b.ReportMetric(time.Since(begin).Seconds(), "s/transfer")
	all.settle(b, joint)
}
