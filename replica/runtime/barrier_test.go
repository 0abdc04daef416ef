package runtime

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/storage"
	"github.com/georegister/georegister/replica/transport"
	"github.com/georegister/georegister/replica/view"
)

func sessions() Options {
	return Options{Protocol: "gryffrsc", Shards: 4}
}

// keyIn is a key of a shard of four.
func keyIn(shard int, name string) string {
	for i := 0; ; i++ {
		if key := fmt.Sprint(name, "-", i); Shard(key, 4) == shard {
			return key
		}
	}
}

// seen is what a session read in a shard, which nobody else has yet.
func seen(shard int) register.Dependency {
	return register.Dependency{Key: keyIn(shard, "seen"), Versioned: register.Versioned{
		Carstamp: register.Carstamp{Timestamp: 9, Writer: register.NewWriter(1, 1, 1)}, Value: register.Value(fmt.Sprint("of ", shard)),
	}}
}

func (c *cluster) mend(i int) {
	c.t.Helper()
	for _, m := range c.view.Members {
		if m.ID == view.MemberID(i+1) {
			continue
		}
		if err := c.replicas[i].Block(m.ID, transport.Direction(0)); err != nil {
			c.t.Fatal(err)
		}
	}
}

// idle waits until a replica holds nothing of what has ended.
func (c *cluster) idle(i int) {
	c.t.Helper()
	r := c.replicas[i]
	eventually(c.t, "nothing is under way", func() bool {
		r.barriers.mutex.Lock()
		n := len(r.barriers.waiting)
		r.barriers.mutex.Unlock()
		for _, s := range r.shards {
			n += int(s.state.inFlight.Load())
		}
		return n == 0
	})
}

func TestWhatIsOfOtherShardsIsFencedFirst(t *testing.T) {
	write := register.Operation{Kind: register.Write, Key: keyIn(0, "w"), Value: register.Value("v")}
	rmw := appending(keyIn(0, "n"))
	c := newCluster(t, 3, sessions(), memory)
	fenced := map[string]string{}
	for name, test := range map[string]struct {
		operation register.Operation
		shards    []int
		trips     int
	}{
		"a read":                      {register.Operation{Kind: register.Read, Key: keyIn(0, "r")}, []int{1, 2}, 2},
		"a write":                     {write, []int{1}, 3},
		"a write, after its own too":  {write, []int{0, 3, 1}, 3},
		"a write, after its own only": {write, []int{0}, 3},
		"an rmw":                      {rmw, []int{2}, 3},
		"an rmw, after its own too":   {rmw, []int{0, 2}, 3},
		"an rmw, after its own only":  {rmw, []int{0}, 3},
		"a fence":                     {register.Operation{Kind: register.Fence}, []int{0, 1, 2, 3}, 1},
		"a fence of one shard":        {register.Operation{Kind: register.Fence}, []int{3}, 1},
		"a fence of nothing":          {register.Operation{Kind: register.Fence}, nil, 0},
	} {
		for _, shard := range test.shards {
			d := seen(shard)
			d.Key = keyIn(shard, name)
			fenced[d.Key] = string(d.Value)
			test.operation.After = append(test.operation.After, d)
		}
		if r := c.do(0, test.operation); r.Status != register.OK || r.RoundTrips != test.trips {
			t.Errorf("%s: %s after %d round trips, want %d: %s", name, r.Status, r.RoundTrips, test.trips, r.Message)
		} else if r.Fast && test.operation.Kind == register.Read {
			t.Errorf("%s took the fast path, and %d round trips", name, test.trips)
		}
	}
	c.idle(0)
	c.stop(0) // what it alone had is gone
	for key, value := range fenced {
		c.expect(1, key, value)
	}
}

// What can't be fenced keeps the operation from having any effect.
func TestABarrierThatFailsEndsTheOperation(t *testing.T) {
	c := newCluster(t, 3, sessions(), memory)
	c.cut(0)
	w := keyIn(0, "w")
	write := register.Operation{Kind: register.Write, Key: w, Value: register.Value("v"), After: []register.Dependency{seen(1), seen(2)}}
	if r := c.doWithin(0, write, 10*time.Millisecond); r.Status != register.Unavailable || !strings.Contains(r.Message, "could not be fenced in shard") {
		t.Errorf("it ended as %s: %s", r.Status, r.Message)
	}
	fence := register.Operation{Kind: register.Fence, After: write.After}
	if r := c.doWithin(0, fence, 10*time.Millisecond); r.Status != register.Unavailable {
		t.Errorf("the fence ended as %s: %s", r.Status, r.Message)
	}
	c.idle(0)
	c.mend(0)
	c.expect(0, w, "")
	if r := c.do(0, write); r.Status != register.OK {
		t.Errorf("then it ended as %s: %s", r.Status, r.Message)
	}
	c.expect(1, w, "v")
}

// What waits for fences begins again at the next replica.
func TestBarriersGoOnAtTheNextReplica(t *testing.T) {
	c := newCluster(t, 3, sessions(), storage.Options{Durability: storage.Sync})
	answers := make(chan register.Result, 10)
	c.awaitVotes()
	c.cut(0)
	const n = 5
	for i := range n {
		op := register.Operation{Kind: register.Write, Key: fmt.Sprint("w-", i), Value: register.Value("v"), After: []register.Dependency{seen(1), seen(2)}}
		c.submit(0, op, patience, answers)
	}
	c.submit(0, register.Operation{Kind: register.Fence, After: []register.Dependency{seen(3)}}, 0, answers)
	before := c.replicas[0]
	carried, _, err := before.HandOver()
	if err != nil || len(carried) != n+1 || len(answers) > 0 {
		t.Fatalf("%d operations are carried over, %d ended, %v; want %d, 0", len(carried), len(answers), err, n+1)
	}
	late := register.Operation{Kind: register.Fence, After: []register.Dependency{seen(0)}}
	if before.Submit(late, 0, func(register.Result) { t.Error("it is answered") }) {
		t.Error("a replica that carried its operations over takes a fence")
	}
	carried = append(carried, NewHandover(late, patience, func(r register.Result) { answers <- r }))
	c.restart(0)
	c.replicas[0].Resume(carried)
	for range n + 2 {
		if r := <-answers; r.Status != register.OK {
			t.Errorf("an operation ended as %s: %s", r.Status, r.Message)
		}
	}
	if len(answers) > 0 {
		t.Errorf("%d answers too many", len(answers))
	}
	for shard := range 4 {
		c.expect(1, seen(shard).Key, fmt.Sprint("of ", shard))
	}
	for i := range n {
		c.expect(2, fmt.Sprint("w-", i), "v")
	}
	c.idle(0)
}

// A replica that closes lets what waits for fences end, also in shards that had nothing to do.
func TestCloseWaitsForBarriers(t *testing.T) {
	c := newCluster(t, 3, sessions(), memory)
	c.cut(0)
	answers, closed := make(chan register.Result, 1), make(chan error)
	r := c.replicas[0]
	c.submit(0, register.Operation{Kind: register.Write, Key: keyIn(0, "w"), Value: register.Value("v"), After: []register.Dependency{seen(1)}}, 0, answers)
	go func() { closed <- r.CloseWithin(patience) }()
	eventually(t, "the other shards are done", func() bool {
		for _, s := range []*shard{r.shards[2], r.shards[3]} {
			select {
			case <-s.drained.Done():
			default:
				return false
			}
		}
		return true
	})
	c.mend(0)
	if err := <-closed; err != nil {
		t.Error(err)
	}
	c.replicas[0] = nil
	if answer := <-answers; answer.Status != register.OK {
		t.Errorf("it ended as %s: %s", answer.Status, answer.Message)
	}
	c.expect(1, keyIn(0, "w"), "v")
}

// One that has no more patience ends them.
func TestBarriersEndWithTheReplica(t *testing.T) {
	c := newCluster(t, 3, sessions(), memory)
	c.cut(0)
	answers := make(chan register.Result, 2)
	c.submit(0, register.Operation{Kind: register.Read, Key: keyIn(0, "r"), After: []register.Dependency{seen(1)}}, 0, answers)
	c.submit(0, register.Operation{Kind: register.Fence, After: []register.Dependency{seen(1), seen(2)}}, 0, answers)
	r := c.replicas[0]
	c.replicas[0] = nil
	if err := r.CloseWithin(time.Nanosecond); err != nil {
		t.Error(err)
	}
	for range 2 {
		if answer := <-answers; answer.Status != register.Unavailable {
			t.Errorf("it ended as %s: %s", answer.Status, answer.Message)
		}
	}
}

func TestDependenciesAreChecked(t *testing.T) {
	regular, strict := newCluster(t, 1, sessions(), memory), newCluster(t, 1, Options{Protocol: "gryff"}, memory)
	of := func(change func(*register.Dependency)) []register.Dependency {
		d := seen(0)
		change(&d)
		return []register.Dependency{d}
	}
	good := of(func(*register.Dependency) {})
	many := make([]register.Dependency, register.MaxDependencies+1)
	for i := range many {
		many[i] = good[0]
	}
	for name, test := range map[string]struct {
		at    *cluster
		op    register.Operation
		wrong string // empty: nothing
	}{
		"of a cluster without": {strict, register.Operation{Kind: register.Read, Key: "k", After: good}, "protocol gryff of this one"},
		"a fence there":        {strict, register.Operation{Kind: register.Fence, After: good}, "another cluster"},
		"a fence of nothing":   {strict, register.Operation{Kind: register.Fence}, ""},
		"a regular read there": {strict, register.Operation{Kind: register.Read, Key: "k", Regular: true}, ""},
		"as many as there can": {regular, register.Operation{Kind: register.Fence, After: many[1:]}, ""},
		"one more":             {regular, register.Operation{Kind: register.Fence, After: many}, "carries 16 at most"},
		"a fence of a key":     {regular, register.Operation{Kind: register.Fence, Key: "k", After: good}, "a fence has no key"},
		"no key": {regular, register.Operation{Kind: register.Fence, After: of(func(d *register.Dependency) { d.Key = "" })},
			"key is empty"},
		"no carstamp": {regular, register.Operation{Kind: register.Fence, After: of(func(d *register.Dependency) { d.Carstamp = register.Carstamp{} })},
			"no carstamp"},
		"no writer": {regular, register.Operation{Kind: register.Fence, After: of(func(d *register.Dependency) { d.Carstamp.Writer = 0 })},
			"no member writes under carstamp"},
		"a writer of nothing": {regular, register.Operation{Kind: register.Fence, After: of(func(d *register.Dependency) { d.Carstamp.Timestamp = 0 })},
			"no member writes under carstamp"},
		"an rmw of nothing": {regular, register.Operation{Kind: register.Fence, After: of(func(d *register.Dependency) { d.Carstamp = register.Carstamp{RMWs: 1} })}, ""},
		"too large": {regular, register.Operation{Kind: register.Fence,
			After: of(func(d *register.Dependency) { d.Value = make(register.Value, register.MaxDependencyBytes+1) })}, "too large"},
	} {
		want := register.OK
		if test.wrong != "" {
			want = register.Invalid
		}
		if r := test.at.do(0, test.op); r.Status != want || !strings.Contains(r.Message, test.wrong) {
			t.Errorf("%s: %s %q, want %s %q", name, r.Status, r.Message, want, test.wrong)
		}
	}
}
