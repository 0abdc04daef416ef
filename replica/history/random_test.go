package history

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/georegister/georegister/replica/register"
)

// shape says what random histories look like.
type shape struct {
	operations int
	clients    int
	keys       int
	unknown    float64 // how many of the outcomes are unknown
	hints      bool    // whether there are carstamps
	blank      bool    // whether rmws have none of them
	blind      bool    // whether there are only reads and writes
	counted    bool    // whether carstamps count, as those of EPaxos, and most writes have none
}

// atomic makes a history that is linearizable, by executing every operation on real registers at one
// instant between its invocation and its return.
func atomic(rng *rand.Rand, s shape) []Operation {
	registry := register.NewRegistry()
	type pending struct {
		at time.Duration
		o  *Operation
	}
	var history []*Operation
	var effects []pending
	for c := range s.clients {
		now := time.Duration(rng.IntN(100))
		client := fmt.Sprint("c", c)
		for i := range s.operations / s.clients {
			o := &Operation{Client: client, Request: request(rng, fmt.Sprint(client, "-", i), s), Invoked: now}
			effect := now + time.Duration(1+rng.IntN(100))
			o.Returned = effect + time.Duration(1+rng.IntN(100))
			o.Result.Status = register.OK
			if rng.Float64() < s.unknown {
				o.Result.Status = register.Unknown
				effect += time.Duration(rng.IntN(1000))
			}
			history = append(history, o)
			if o.Known() || rng.IntN(2) == 0 {
				effects = append(effects, pending{effect, o})
			}
			now = o.Returned + time.Duration(1+rng.IntN(100))
		}
	}
	slices.SortFunc(effects, func(a, b pending) int { return cmp.Compare(a.at, b.at) })
	values, counts := map[string]register.Value{}, map[string]register.Carstamp{}
	for i, e := range effects {
		result := execute(registry, values, e.o.Request)
		if s.counted {
			result.Carstamp = counts[e.o.Request.Key].Next()
			switch e.o.Request.Kind {
			case register.Read:
				result.Carstamp.RMWs--
			case register.Write:
				result.Carstamp = register.Carstamp{
					Timestamp: result.Carstamp.Timestamp + 1, Writer: register.Writer(i + 1),
				}
			}
			counts[e.o.Request.Key] = result.Carstamp
			if e.o.Request.Kind == register.Write && rng.IntN(4) > 0 {
				result.Carstamp = register.Carstamp{}
			}
		}
		if s.hints && !(s.blank && e.o.Request.Kind == register.RMW) {
			result.Carstamp.Timestamp = uint64(i + 1)
		}
		if e.o.Known() {
			e.o.Result = result
		}
	}
	operations := make([]Operation, len(history))
	for i, o := range history {
		operations[i] = *o
	}
	return operations
}

// request draws an operation; token is unique.
func request(rng *rand.Rand, token string, s shape) register.Operation {
	o := register.Operation{Kind: register.RMW, Key: fmt.Sprint("k", rng.IntN(s.keys))}
	kinds, numbers := 12, 3
	if s.counted {
		numbers = 1_000_000 // what reads find of writes without carstamps tells which
	}
	if s.blind {
		kinds = 8
	}
	call := func(function string, args ...string) {
		o.Call.Function = function
		for _, arg := range args {
			o.Call.Args = append(o.Call.Args, []byte(arg))
		}
	}
	switch rng.IntN(kinds) {
	case 0, 1, 2, 3:
		o.Kind = register.Read
	case 4, 5:
		o.Kind, o.Value = register.Write, register.Value(token)
	case 6:
		o.Kind, o.Value = register.Write, register.Value(fmt.Sprint(rng.IntN(numbers)))
	case 7:
		o.Kind = register.Write
	case 8:
		call(register.Add, "1")
	case 9:
		call(register.Append, token)
	case 10:
		call(register.CompareAndSwap, fmt.Sprint(rng.IntN(3)), token)
	case 11:
		call(register.GetAndSet, token)
	}
	return o
}

func execute(registry *register.Registry, values map[string]register.Value, o register.Operation) register.Result {
	result := register.Result{Status: register.OK}
	switch o.Kind {
	case register.Read:
		result.Value = values[o.Key]
	case register.Write:
		values[o.Key] = o.Value
	case register.RMW:
		out, err := registry.Apply(values[o.Key], o.Call)
		if err != nil {
			panic(err)
		}
		if out.Refused != "" {
			return register.Result{Status: register.Failed, Message: out.Refused}
		}
		if out.Changed {
			values[o.Key] = out.Next
		}
		result.Value = out.Reply
	}
	return result
}

func TestAtomicHistoriesAreAccepted(t *testing.T) {
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 0))
		s := shape{
			operations: 100, clients: 1 + rng.IntN(8), keys: 1 + rng.IntN(4), unknown: 0.15 * rng.Float64(),
			hints: seed%3 > 0, blank: seed%3 > 1, counted: seed%6 == 0,
		}
		if v := Check(t.Context(), atomic(rng, s), Options{Timeout: time.Minute}); !v.OK() {
			t.Fatalf("seed %d: %s\n%s", seed, v.Outcome, v.Explanation)
		}
	}
}

// TestMutationsAreRefused spoils one answer so that nothing can explain it.
func TestMutationsAreRefused(t *testing.T) {
	for seed := range uint64(200) {
		rng := rand.New(rand.NewPCG(seed, 1))
		history := atomic(rng,
			shape{operations: 60, clients: 4, keys: 2, unknown: 0.05, hints: seed%3 > 0, blank: seed%3 > 1})
		i := rng.IntN(len(history))
		for !(history[i].Request.Kind == register.Read && history[i].Known()) {
			i = (i + 1) % len(history)
		}
		history[i].Result.Value = register.Value("never written")
		if v := Check(t.Context(), history, Options{Timeout: time.Minute, Brief: true}); v.Outcome != Violation {
			t.Fatalf("seed %d: a read of what no one wrote is %s", seed, v.Outcome)
		}
	}
}

// TestCheckAgreesWithPlainSearch compares with a search that takes no short cut: no carstamps, nothing left
// out, every unknown effect tried everywhere. Answers are spoilt at random, so that both outcomes occur.
func TestCheckAgreesWithPlainSearch(t *testing.T) {
	counts := map[Outcome]int{}
	for seed := range uint64(1500) {
		rng := rand.New(rand.NewPCG(seed, 2))
		history := atomic(rng,
			shape{
				operations: 9 + rng.IntN(4), clients: 3, keys: 1, unknown: 0.3, hints: seed%3 > 0, blank: seed%2 == 0,
				counted: seed%3 == 0,
			})
		for range rng.IntN(6) {
			a, b := &history[rng.IntN(len(history))], &history[rng.IntN(len(history))]
			if a.Result.Status == register.OK && b.Known() && a.Request.Kind != register.Write {
				a.Result.Value = b.Result.Value
			}
			if rng.IntN(2) == 0 {
				a.Result.Carstamp, b.Result.Carstamp = b.Result.Carstamp, a.Result.Carstamp
			}
		}
		want := Violation
		if plain(history) {
			want = Linearizable
		}
		counts[want]++
		if v := Check(t.Context(), history, Options{}); v.Outcome != want {
			t.Fatalf("seed %d: got %s, the plain search %s:\n%s", seed, v.Outcome, want, list(history))
		}
	}
	if counts[Linearizable] < 400 || counts[Violation] < 400 {
		t.Errorf("the histories are too much alike to compare by: %v", counts)
	}
}

func plain(history []Operation) bool {
	registry := register.NewRegistry()
	var operations []porcupine.Operation
	for i := range history {
		o := history[i]
		if !o.Known() {
			o.Returned = never
		}
		operations = append(operations,
			porcupine.Operation{Input: o, Call: int64(o.Invoked), Return: int64(o.Returned)})
	}
	return porcupine.CheckOperations(porcupine.Model{
		Init: func() any { return register.Value(nil) },
		Step: func(current, input, _ any) (bool, any) {
			o, values := input.(Operation), map[string]register.Value{}
			values[o.Request.Key] = current.(register.Value)
			result := execute(registry, values, o.Request)
			fits := o.Request.Kind == register.Write ||
				result.Status == o.Result.Status && result.Value.Equal(o.Result.Value)
			return fits || !o.Known(), values[o.Request.Key]
		},
		Equal: func(a, b any) bool { return a.(register.Value).Equal(b.(register.Value)) },
	}, operations)
}

// TestManyUnknownOutcomesOnOneKey is what killing sites under load leaves behind.
func TestManyUnknownOutcomesOnOneKey(t *testing.T) {
	for seed := range uint64(20) {
		rng := rand.New(rand.NewPCG(seed, 3))
		history := atomic(rng,
			shape{operations: 2000, clients: 16, keys: 1, unknown: 0.02, hints: true, blind: seed%2 == 0})
		v := Check(t.Context(), history, Options{Timeout: time.Minute})
		if !v.OK() || v.Unknown < 10 {
			t.Fatalf("seed %d: %s with %d unknown\n%s", seed, v.Outcome, v.Unknown, v.Explanation)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, hints := range []bool{true, false} {
		b.Run(fmt.Sprintf("operations=100000/keys=1000/hints=%t", hints), func(b *testing.B) {
			history := atomic(rand.New(rand.NewPCG(1, 1)),
				shape{operations: 100_000, clients: 64, keys: 1000, unknown: 0.001, hints: hints})
			for b.Loop() {
				if v := Check(b.Context(), history, Options{}); !v.OK() {
					b.Fatal(v.Outcome, v.Explanation)
				}
			}
		})
	}
}

func BenchmarkCheckOneHotKey(b *testing.B) {
	for _, s := range []shape{{blind: true}, {}} {
		s.operations, s.clients, s.keys, s.hints = 20_000, 64, 1, true
		b.Run(fmt.Sprintf("operations=20000/rmws=%t", !s.blind), func(b *testing.B) {
			history := atomic(rand.New(rand.NewPCG(1, 1)), s)
			for b.Loop() {
				if v := Check(b.Context(), history, Options{Timeout: 20 * time.Second}); !v.OK() {
					b.Fatal(v.Outcome, v.Explanation)
				}
			}
		})
	}
}
