package history

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// TestCheckRSCAgreesWithPlainSearch compares with a search of all orders that knows only the definition. Answers,
// carstamps and times are spoilt at random, so that both outcomes occur.
func TestCheckRSCAgreesWithPlainSearch(t *testing.T) {
	counts := map[Outcome]int{}
	for seed := range uint64(3000) {
		history, options := smallHistory(seed)
		want := Violation
		if plainRSC(history, options) {
			want = RegularSequential
		}
		counts[want]++
		if v := checkRSC(t, history, options); v.Outcome != want {
			t.Fatalf("seed %d: got %s, the plain search %s:\n%s\n%+v\n%s", seed, v.Outcome, want, list(history),
				options, v.Explanation)
		}
	}
	if counts[RegularSequential] < 800 || counts[Violation] < 800 {
		t.Errorf("the histories are too much alike to compare by: %v", counts)
	}
}

func smallHistory(seed uint64) ([]Operation, RSCOptions) {
	rng := rand.New(rand.NewPCG(seed, 13))
	s := shape{
		operations: 4 + rng.IntN(5), clients: 3, keys: 1 + rng.IntN(2), unknown: 0.2,
		hints: seed%4 > 0, blank: seed%4 > 2,
	}
	d := delays(rng, s, rng.IntN(3), rng.IntN(2))
	for range rng.IntN(12) {
		a, b := &d.operations[rng.IntN(len(d.operations))], &d.operations[rng.IntN(len(d.operations))]
		switch rng.IntN(4) {
		case 0:
			if a.Result.Status == register.OK && b.Known() && a.Request.Kind != register.Write {
				a.Result.Value = b.Result.Value
			}
		case 1:
			if a.Result.Status == register.OK && a.Request.Kind != register.Write && b.Request.Kind == register.Write {
				a.Result.Value = b.Request.Value
			}
		case 2:
			a.Result.Carstamp, b.Result.Carstamp = b.Result.Carstamp, a.Result.Carstamp
		case 3:
			a.Returned = a.Invoked + 1
		}
	}
	return shuffled(rng, d.operations), d.options
}

// plainRSC tries all orders, with or without each operation of unknown outcome.
func plainRSC(history []Operation, options RSCOptions) bool {
	var ops []Operation
	for _, o := range history {
		if o.Known() || o.Request.Kind != register.Read {
			ops = append(ops, o)
		}
	}
	// knows reports whether a client knows at one time of what another one knew at another.
	var knows func(from string, sent time.Duration, to string, received time.Duration) bool
	knows = func(from string, sent time.Duration, to string, received time.Duration) bool {
		if from == to && sent < received {
			return true
		}
		return slices.ContainsFunc(options.Messages, func(m Message) bool {
			return m.From == from && sent < m.Sent && knows(m.To, m.Received, to, received)
		})
	}
	precedes := func(a, b Operation) bool {
		if !a.Known() {
			return false
		}
		if knows(a.Client, a.Returned, b.Client, b.Invoked) {
			return true
		}
		for _, f := range options.Fences {
			if knows(a.Client, a.Returned, f.Client, f.Invoked) && f.Returned < b.Invoked {
				return true
			}
		}
		return a.Request.Kind != register.Read && a.Returned < b.Invoked &&
			(b.Request.Kind != register.Read || a.Request.Key == b.Request.Key)
	}
	registry := register.NewRegistry()
	taken := make([]bool, len(ops))
	// since is when an operation was invoked that left the value of a key.
	var search func(values map[string]register.Value, since map[string]time.Duration) bool
	search = func(values map[string]register.Value, since map[string]time.Duration) bool {
		complete := true
		for i, o := range ops {
			complete = complete && (taken[i] || !o.Known())
		}
		if complete {
			return true
		}
	next:
		for i, o := range ops {
			if taken[i] {
				continue
			}
			for j, other := range ops {
				if !taken[j] && i != j && precedes(other, o) {
					continue next
				}
			}
			after := map[string]register.Value{}
			for k, v := range values { // order is irrelevant: a copy
				after[k] = v
			}
			result := execute(registry, after, o.Request)
			if o.Known() && o.Request.Kind != register.Write &&
				(result.Status != o.Result.Status || !result.Value.Equal(o.Result.Value)) {
				continue
			}
			if at, written := since[o.Request.Key]; written && o.Request.Kind == register.Read && o.Returned < at {
				continue
			}
			left := maps.Clone(since)
			switch at, written := since[o.Request.Key]; {
			case !after[o.Request.Key].Equal(values[o.Request.Key]):
				left[o.Request.Key] = o.Invoked
			case written && leavesAgain(o, values[o.Request.Key]):
				left[o.Request.Key] = min(at, o.Invoked)
			}
			taken[i] = true
			if search(after, left) {
				return true
			}
			taken[i] = false
		}
		return false
	}
	return search(map[string]register.Value{}, map[string]time.Duration{})
}

// leavesAgain reports whether an operation leaves the value that is there, whatever it finds.
func leavesAgain(o Operation, value register.Value) bool {
	left, kind := leaves(&rscOp{step: &step{Operation: o, known: o.Known()}})
	return kind == leavesValue && left.Equal(value)
}

func FuzzCheckRSC(f *testing.F) {
	for seed := range uint64(5) {
		f.Add(seed, []byte{1, 2, 3})
	}
	f.Fuzz(func(t *testing.T, seed uint64, changes []byte) {
		history, options := smallHistory(seed)
		for i, b := range changes[:min(len(changes), 20)] {
			o := &history[(int(b)+i)%len(history)]
			switch b % 5 {
			case 0:
				o.Invoked = min(o.Invoked+time.Duration(b), o.Returned)
			case 1:
				o.Returned += time.Duration(b)
			case 2:
				o.Client = fmt.Sprint("c", b%4)
			case 3:
				o.Result.Carstamp.Timestamp = uint64(b % 7)
			case 4:
				if o.Result.Status == register.OK && o.Request.Kind == register.Read {
					o.Result.Value = history[(i+int(b)/5)%len(history)].Request.Value
				}
			}
		}
		v, err := CheckRSC(t.Context(), history, options)
		if err != nil {
			t.Fatal(err)
		}
		if want := plainRSC(history, options); v.OK() != want || v.Outcome == Undecided {
			t.Fatalf("got %s, the plain search %t:\n%s\n%+v", v.Outcome, want, list(history), options)
		}
		// What is linearizable is regular sequential, unless a message or a fence says otherwise.
		w, _ := CheckRSC(t.Context(), history, RSCOptions{})
		if Check(t.Context(), history, Options{Brief: true}).OK() && !w.OK() && !overlaps(history) {
			t.Fatalf("linearizable, and %s:\n%s", w.Outcome, list(history))
		}
	})
}

// overlaps reports whether a client had two operations at once, which the linearizability checker need not take.
func overlaps(history []Operation) bool {
	for i, a := range history {
		for j, b := range history {
			if i != j && a.Client == b.Client && a.Invoked <= b.Invoked && (!a.Known() || b.Invoked <= a.Returned) {
				return true
			}
		}
	}
	return false
}

func BenchmarkCheckRSC(b *testing.B) {
	for _, s := range []shape{{keys: 1000, blind: true}, {keys: 1000}, {keys: 10, blind: true}} {
		s.operations, s.clients, s.unknown, s.hints = 100_000, 64, 0.001, true
		d := delays(rand.New(rand.NewPCG(1, 1)), s, 1000, 100)
		b.Run(fmt.Sprintf("operations=100000/keys=%d/rmws=%t", s.keys, !s.blind), func(b *testing.B) {
			for b.Loop() {
				if v := checkRSC(b, d.operations, d.options); !v.OK() || v.Searched {
					b.Fatal(v.Outcome, v.Explanation)
				}
			}
		})
	}
}

// A history of 100,000 operations is decided: one that is legal, with rmws and unknown outcomes, without a search; and
// one that is not, with the cycle. It says nothing of how long that takes: see BenchmarkCheckRSC.
func TestCheckRSCOfManyOperations(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("it takes some seconds")
	}
	s := shape{operations: 100_000, clients: 64, keys: 1000, unknown: 0.001, hints: true}
	d := delays(rand.New(rand.NewPCG(1, 1)), s, 1000, 100)
	if v := checkRSC(t, d.operations, d.options); !v.OK() || v.Searched || v.Operations != s.operations {
		t.Errorf("%s of %d operations, searched %t: %s", v.Outcome, v.Operations, v.Searched, v.Explanation)
	}
	d = manyWithViolation()
	v := checkRSC(t, d.operations, d.options)
	if v.Outcome != Violation || v.Operations != s.operations || len(v.Cycle) < 2 {
		t.Fatalf("%s of %d operations, a cycle of %d: %s", v.Outcome, v.Operations, len(v.Cycle), v.Explanation)
	}
	for i, e := range v.Cycle {
		next := v.Cycle[(i+1)%len(v.Cycle)]
		if e.To.Client != next.From.Client || e.To.Invoked != next.From.Invoked || e.Why == "" {
			t.Errorf("edge %d of the cycle: %+v, then %+v", i, e, next)
		}
	}
	if !slices.ContainsFunc(v.Cycle,
		func(e RSCEdge) bool { return e.From.Request.Kind == register.Read && e.From.Result.Value == nil }) {
		t.Errorf("the read that found nothing is not in the cycle %+v", v.Cycle)
	}
}

// manyWithViolation has 100,000 operations, and a read that missed a write of its key that had ended.
func manyWithViolation() delayed {
	d := delays(rand.New(rand.NewPCG(1, 1)),
		shape{operations: 100_000, clients: 64, keys: 1000, hints: true, blind: true}, 1000, 100).unique()
	for i := range slices.Backward(d.operations) { // by the last read there was a write of its key that had ended
		if o := &d.operations[i]; o.Request.Kind == register.Read {
			o.Result.Value, o.Result.Carstamp = nil, register.Carstamp{}
			break
		}
	}
	return d
}

func BenchmarkCheckRSCViolation(b *testing.B) {
	d := manyWithViolation()
	for b.Loop() {
		if v := checkRSC(b, d.operations, d.options); v.Outcome != Violation {
			b.Fatal(v.Outcome, v.Explanation)
		}
	}
}
