package runtime

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

func TestWritesReachAMajorityAndSurviveARestart(t *testing.T) {
	for _, protocol := range []string{"", "abd", "gryff"} {
		t.Run("protocol="+protocol, func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: protocol, Shards: 3})
			for i := range 20 {
				c.write(i%3, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
			for i := range 3 {
				c.stop(i)
			}
			for i := range 3 {
				c.restart(i)
			}
			for i := range 20 {
				c.expect(i%3, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
			if boot := c.replicas[0].Status().Boot; boot != 2 {
				t.Errorf("boot is %d, want 2", boot)
			}
		})
	}
}

func TestAMinorityIsEnough(t *testing.T) {
	for _, protocol := range []string{"abd", "gryff"} {
		t.Run(protocol, func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: protocol})
			c.write(0, "k", "before")
			c.stop(2)
			c.write(1, "k", "after")
			c.expect(0, "k", "after")
		})
	}
}

func TestReadModifyWrite(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "gryff", Shards: 2})
	add := register.Operation{Kind: register.RMW, Key: "n", Call: register.Call{Function: register.Add, Args: [][]byte{[]byte("1")}}}
	const each = 20
	var group sync.WaitGroup
	for i := range c.replicas {
		group.Go(func() {
			for range each {
				if r := c.do(i, add); r.Status != register.OK {
					t.Errorf("add: %s: %s", r.Status, r.Message)
				}
			}
		})
	}
	group.Wait()
	c.expect(1, "n", fmt.Sprint(3*each))
}

func TestAWipedDiskJoinsAgain(t *testing.T) {
	for _, protocol := range []string{"abd", "gryff"} {
		t.Run(protocol, func(t *testing.T) {
			c := newCluster(t, 3, Options{Protocol: protocol, Shards: 2})
			for i := range 50 {
				c.write(i%3, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
			c.stop(2)
			if err := os.RemoveAll(c.dirs[2]); err != nil {
				t.Fatal(err)
			}
			c.restart(2)
			eventually(t, "the wiped member votes again", c.replicas[2].Quorum)
			for _, s := range c.replicas[2].Status().Shards {
				if s.Incarnation != 2 {
					t.Errorf("shard %d has incarnation %d, want 2", s.Number, s.Incarnation)
				}
			}
			c.stop(0) // what follows needs the newcomer's vote
			for i := range 50 {
				c.expect(1+i%2, fmt.Sprint("key-", i), fmt.Sprint("value-", i))
			}
		})
	}
}

func TestMemoryIsLostAtARestart(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd"}, memory)
	c.write(0, "k", "v")
	c.stop(2)
	// Even if somebody says that the cluster is being created.
	if err := c.start(2, listen(t, c.view.Members[2].Address), true); err != nil {
		t.Fatal(err)
	}
	if !c.replicas[2].Status().Lost {
		t.Fatal("a restart in memory does not count as lost")
	}
	eventually(t, "the member joins again", c.replicas[2].Quorum)
	c.expect(2, "k", "v")
}

func TestRefusals(t *testing.T) {
	c := newCluster(t, 1, quick(), memory)
	tests := map[string]struct {
		op     register.Operation
		status register.Status
		says   string
	}{
		"no key":        {register.Operation{Kind: register.Read}, register.Invalid, "key is empty"},
		"long key":      {register.Operation{Kind: register.Read, Key: strings.Repeat("k", 5000)}, register.Invalid, "limit is 4096"},
		"large value":   {register.Operation{Kind: register.Write, Key: "k", Value: make([]byte, 2<<20)}, register.Invalid, "limit is 1048576"},
		"no kind":       {register.Operation{Key: "k"}, register.Invalid, "kind 0 is unknown"},
		"no function":   {register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{Function: "x.v1"}}, register.Invalid, "unknown rmw function"},
		"few arguments": {register.Operation{Kind: register.RMW, Key: "k", Call: register.Call{Function: register.Add}}, register.Invalid, "takes 1 arguments"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			r := c.do(0, test.op)
			if r.Status != test.status || !strings.Contains(r.Message, test.says) {
				t.Errorf("%s %q, want %s with %q", r.Status, r.Message, test.status, test.says)
			}
		})
	}
	if _, err := Start(t.Context(), Options{View: c.view, Self: 9}); err == nil || !strings.Contains(err.Error(), "member 9 is not in the view") {
		t.Errorf("a foreign member starts: %v", err)
	}
}

func TestForeignDiskIsRefused(t *testing.T) {
	c := newCluster(t, 1, Options{Shards: 2})
	c.stop(0)
	c.base.Shards = 3
	if err := c.start(0, listen(t, "127.0.0.1:0"), true); !errors.Is(err, storage.ErrForeign) || !strings.Contains(err.Error(), "shards is 2, this member's is 3") {
		t.Errorf("got %v", err)
	}
}

func TestAFaultStopsTheReplicaAlone(t *testing.T) {
	for key, says := range map[string]string{"panic": "poison", "fault": "a fault of its own"} {
		t.Run(key, func(t *testing.T) {
			c := newCluster(t, 3, quick(), memory)
			if r := c.do(0, register.Operation{Kind: register.Write, Key: key, Value: register.Value("v")}); r.Status != register.Unknown {
				t.Fatalf("what broke the member ended as %s", r.Status)
			}
			<-c.replicas[0].Done()
			if err := c.replicas[0].Err(); err == nil || !strings.Contains(err.Error(), says) {
				t.Errorf("the reason is %v", err)
			}
			if r := c.do(0, register.Operation{Kind: register.Read, Key: "k"}); r.Status != register.Unavailable {
				t.Errorf("a stopped replica answers %s", r.Status)
			}
			if c.replicas[0].Quorum() {
				t.Error("a stopped replica claims a quorum")
			}
			if err := c.replicas[0].Close(); err == nil {
				t.Error("Close hides the reason")
			}
			c.write(1, "k", "v")
		})
	}
}

// Whatever a step does, each operation of its turn is answered, and once.
func TestAFaultAnswersEveryone(t *testing.T) {
	o := quick()
	o.Shards = 1
	c := newCluster(t, 3, o, memory)
	const operations = 200
	answers := make(chan register.Result, 2*operations)
	for i := range operations {
		key := "k"
		if i == operations/2 {
			key = "panic"
		}
		c.replicas[0].Submit(register.Operation{Kind: register.Write, Key: key, Value: register.Value("v")}, 0,
			func(r register.Result) { answers <- r })
	}
	for range operations {
		<-answers
	}
	<-c.replicas[0].Done()
	if n := len(answers); n != 0 {
		t.Errorf("%d answers too many", n)
	}
}

func TestTooManyOperationsAreRefused(t *testing.T) {
	o := quick()
	o.Shards = 1
	c := newCluster(t, 3, o, memory)
	for _, id := range []view.MemberID{2, 3} {
		if err := c.replicas[0].Block(id, transport.Outgoing); err != nil {
			t.Fatal(err)
		}
	}
	const extra = 10
	ended := make(chan register.Result, maxOperations+extra)
	for range maxOperations + extra {
		c.replicas[0].Submit(register.Operation{Kind: register.Write, Key: "k", Value: register.Value("v")}, 0,
			func(r register.Result) { ended <- r })
	}
	for range extra {
		if r := <-ended; r.Status != register.Unavailable || !strings.Contains(r.Message, "too many operations") {
			t.Fatalf("refused as %s: %s", r.Status, r.Message)
		}
	}
	for _, id := range []view.MemberID{2, 3} {
		if err := c.replicas[0].Block(id, 0); err != nil {
			t.Fatal(err)
		}
	}
	for range maxOperations { // the protocol repeats what was blocked
		if r := <-ended; r.Status != register.OK {
			t.Fatalf("an accepted operation ended as %s: %s", r.Status, r.Message)
		}
	}
}

func TestBlockedLinksAndQuorum(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd"}, memory)
	for i, r := range c.replicas {
		eventually(t, fmt.Sprintf("member %d reaches a quorum", i+1), r.Quorum)
	}
	cut := func(directions transport.Direction) {
		for _, id := range []view.MemberID{2, 3} {
			if err := c.replicas[0].Block(id, directions); err != nil {
				t.Fatal(err)
			}
		}
	}
	cut(transport.Outgoing | transport.Incoming)
	eventually(t, "the cut is noticed", func() bool { return !c.replicas[0].Quorum() })
	if r := c.doWithin(0, register.Operation{Kind: register.Read, Key: "k"}, 50*time.Millisecond); r.Status != register.Unavailable {
		t.Errorf("a member that is cut off answers %s", r.Status)
	}
	c.write(1, "k", "v")
	cut(0)
	c.expect(0, "k", "v")
	eventually(t, "the link is mended", c.replicas[0].Quorum)
}

func TestARoundTripTakesTwiceTheDelay(t *testing.T) {
	const delay = 30 * time.Millisecond
	o := Options{Protocol: "abd", OneWayDelay: func(view.MemberID) time.Duration { return delay }}
	c := newCluster(t, 3, o, memory)
	c.write(0, "k", "v")
	begin := time.Now()
	r := c.do(0, register.Operation{Kind: register.Read, Key: "k"})
	if took := time.Since(begin); r.RoundTrips < 1 || took < time.Duration(r.RoundTrips)*2*delay {
		t.Errorf("%d round trips took %s, with %s each way", r.RoundTrips, took, delay)
	}
	eventually(t, "the round trip is measured", func() bool { return c.replicas[0].Status().Peers[0].MinRTT > 0 })
	if rtt := c.replicas[0].Status().Peers[0].MinRTT; rtt < 2*delay {
		t.Errorf("round trip of %s, with %s each way", rtt, delay)
	}
}

func TestADeadNeighbourIsNotWaitedForAgain(t *testing.T) {
	c := newCluster(t, 3, Options{Protocol: "abd", Retry: 3 * time.Second}, memory)
	retries := func() float64 {
		var m dto.Metric
		if err := c.replicas[0].metrics.taken.WithLabelValues("register.retry").Write(&m); err != nil {
			t.Fatal(err)
		}
		return m.GetCounter().GetValue()
	}
	c.write(0, "k", "v")
	c.stop(1) // the nearest of member 1
	eventually(t, "an operation asks the other member at once", func() bool {
		before := retries()
		c.expect(0, "k", "v")
		return retries() == before
	})
	before := retries()
	for range 20 {
		c.write(0, "k", "v")
	}
	if n := retries() - before; n > 0 {
		t.Errorf("%v of 20 operations still waited for the dead member", n)
	}
}

func TestMetricsTellWhatHappened(t *testing.T) {
	registry := prometheus.NewRegistry()
	o := quick()
	o.Metrics = registry
	c := newCluster(t, 1, o, memory)
	c.write(0, "k", "v")
	c.expect(0, "k", "v")
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, f := range families {
		for _, m := range f.Metric {
			if m.GetCounter().GetValue() > 0 || m.GetHistogram().GetSampleCount() > 0 || m.GetGauge().GetValue() > 0 {
				seen[f.GetName()] = true
			}
		}
	}
	for _, name := range []string{"georegister_operation_seconds", "georegister_operations_total", "georegister_operation_round_trips",
		"georegister_shard_iteration_inputs", "georegister_storage_bytes", "georegister_shard_voter", "georegister_quorum_reachable"} {
		if !seen[name] {
			t.Errorf("%s shows nothing", name)
		}
	}
	c.stop(0)
	if families, err := registry.Gather(); err != nil || len(families) != 0 {
		t.Errorf("a closed replica leaves %d metrics, %v", len(families), err)
	}
}
