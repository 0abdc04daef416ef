package runtime

import (
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// A machine that was suspended wakes: its protocols are told, and so are deadlines that go over to another replica.
func TestSuspensionCounts(t *testing.T) {
	var slept atomic.Int64
	c := newCluster(t, 3, Options{elapsed: func() time.Duration { return elapsed() + time.Duration(slept.Load()) }})
	r := c.replicas[0]
	before := time.Now().Add(time.Hour)
	if ahead := r.clock.instant(before).Sub(r.clock.now()); ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("an hour ahead is %v ahead on the protocols' clock", ahead)
	}
	c.stop(1)
	c.stop(2)
	ended := make(chan register.Result, 1)
	write := register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}
	r.Submit(write, time.Hour, func(result register.Result) { ended <- result })
	slept.Store(int64(2 * time.Hour))
	select {
	case result := <-ended:
		if result.Status != register.Unknown {
			t.Errorf("ended as %v: %s", result.Status, result.Message)
		}
	case <-time.After(time.Minute):
		t.Error("two hours of suspension were not noticed")
	}
	if ahead := time.Until(r.clock.moment(r.clock.now().Add(time.Hour))); ahead < 59*time.Minute || ahead > time.Hour {
		t.Errorf("after it, an hour ahead on the protocols' clock is %v ahead", ahead)
	}
}

// A process may be stopped between two readings of its clocks. What it promised then seems to end later, and never
// earlier than it does for others.
func TestNoPromiseEndsEarlierForAPause(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		begun, pause := time.Now(), time.Second
		r := &Replica{clock: clock{elapsed: func() time.Duration {
			time.Sleep(pause)
			defer time.Sleep(pause)
			return time.Since(begun)
		}}}
		const until = protocol.Instant(time.Hour)
		there := r.clock.moment(until)
		if end := begun.Add(time.Duration(until)); there.Before(end) || there.After(end.Add(2*pause)) {
			t.Errorf("it ends %v before it does", end.Sub(there))
		}
		if back := r.clock.instant(begun.Add(time.Duration(until))); back < until || back > until.Add(2*pause) {
			t.Errorf("for the next replica it ends %v before it does", until.Sub(back))
		}
	})
}
