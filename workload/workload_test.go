package workload

import (
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/register"
)

func TestParseMix(t *testing.T) {
	tests := []struct {
		text, err string
		want      Mix
	}{
		{text: "ycsb-a", want: Mix{Read: 50, Write: 50}},
		{text: "YCSB-B", want: Mix{Read: 95, Write: 5}},
		{text: "gryff-a", want: Mix{Read: 49.5, Write: 49.5, RMW: 1}},
		{text: "gryff-b", want: Mix{Read: 94.5, Write: 4.5, RMW: 1}},
		{text: "tail-at-scale", want: Mix{Read: 99, Write: 0.9, RMW: 0.1}},
		{text: "1:2:0.5", want: Mix{Read: 1, Write: 2, RMW: 0.5}},
		{text: "ycsb-z", err: `unknown workload "ycsb-z"`},
		{text: "1:2", err: "READ:WRITE:RMW"},
		{text: "1:x:2", err: `the weight of writes, "x", is not a number`},
		{text: "1:1:-2", err: "the weight of rmws is -2"},
		{text: "NaN:1:1", err: "the weight of reads is NaN"},
		{text: "0:0:0", err: "all weights are 0"},
	}
	for _, test := range tests {
		got, err := ParseMix(test.text)
		if test.err == "" && (err != nil || got != test.want) {
			t.Errorf("%s: got %v, %v, want %v", test.text, got, err, test.want)
		}
		if test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("%s: got %v, want %q", test.text, err, test.err)
		}
	}
}

func TestSpecValidate(t *testing.T) {
	tests := []struct {
		spoil func(*Spec)
		err   string
	}{
		{func(*Spec) {}, ""},
		{func(s *Spec) { s.Conflict = 1.5 }, "conflict rate is 1.5"},
		{func(s *Spec) { s.Conflict = math.NaN() }, "conflict rate is NaN"},
		{func(s *Spec) { s.Keys = "some" }, `unknown keys "some"`},
		{func(s *Spec) { s.Keys, s.KeyCount = Uniform, 0 }, "key count is 0"},
		{func(s *Spec) { s.Keys, s.Theta = Zipf, -1 }, "theta is -1"},
		{func(s *Spec) { s.RMWs = "all" }, `unknown rmws "all"`},
		{func(s *Spec) { s.ValueBytes = -1 }, "values of -1 bytes"},
		{func(s *Spec) { s.ValueBytes = 1024 }, ""},
		{func(s *Spec) { s.ValueBytes, s.Mix.RMW = 1024, 1 }, "values of 1024 bytes can't be added to"},
		{func(s *Spec) { s.Mix = Mix{} }, "all weights are 0"},
	}
	for _, test := range tests {
		s := Default()
		test.spoil(&s)
		err := s.Validate()
		if test.err == "" && err != nil || test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)) {
			t.Errorf("got %v, want %q", err, test.err)
		}
	}
}

// draw makes operations of several clients.
func draw(t *testing.T, s Spec, clients, each int) []register.Operation {
	t.Helper()
	var all []register.Operation
	for client := range clients {
		g, err := s.Generator(client)
		if err != nil {
			t.Fatal(err)
		}
		rng := rand.New(rand.NewPCG(1, uint64(client)))
		for range each {
			all = append(all, g.Next(rng))
		}
	}
	return all
}

// near allows a count of draws five standard deviations.
func near(got int, probability, draws float64) bool {
	return math.Abs(float64(got)-draws*probability) <= 5*math.Sqrt(draws*probability*(1-probability))+1
}

func TestGeneratorKeepsToTheMixAndTheConflictRate(t *testing.T) {
	s := Default()
	s.Mix, s.Conflict = Mix{Read: 60, Write: 30, RMW: 10}, 0.25
	kinds, shared, keys := map[register.Kind]int{}, 0, map[string]bool{}
	for _, o := range draw(t, s, 4, 5000) {
		kinds[o.Kind]++
		keys[o.Key] = true
		if o.Key == "shared" {
			shared++
		}
	}
	if !near(kinds[register.Read], 0.6, 20000) || !near(kinds[register.Write], 0.3, 20000) ||
		!near(kinds[register.RMW], 0.1, 20000) {
		t.Errorf("the mix is %v of 20000", kinds)
	}
	if !near(shared, 0.25, 20000) || len(keys) != 5 {
		t.Errorf("%d of 20000 operations are on the shared key, %d keys in all", shared, len(keys))
	}
}

func TestWrittenValuesAreUniqueAndLongEnough(t *testing.T) {
	for _, rmws := range []RMWs{RMWAdd, RMWAppend, RMWCAS, RMWGetAndSet, RMWMixed} {
		for _, size := range []int{0, 1, 16, 18} {
			s := Default()
			s.Mix, s.RMWs, s.ValueBytes = Mix{Write: 2, RMW: 1}, rmws, size
			seen := map[string]bool{}
			for _, o := range draw(t, s, 20, 300) {
				if o.Kind != register.Write {
					continue
				}
				if seen[string(o.Value)] {
					t.Fatalf("%s: value %q is written twice", rmws, o.Value)
				}
				seen[string(o.Value)] = true
				if len(o.Value) < size {
					t.Fatalf("%s: value %q is shorter than %d bytes", rmws, o.Value, size)
				}
			}
		}
	}
}

func TestRMWsAreCallsThatTheRegistryTakes(t *testing.T) {
	registry := register.NewRegistry()
	for _, rmws := range []RMWs{RMWAdd, RMWAppend, RMWCAS, RMWGetAndSet, RMWIdempotent, RMWMixed} {
		s := Default()
		s.Mix, s.RMWs, s.Conflict = Mix{Write: 1, RMW: 3}, rmws, 1
		functions := map[string]bool{}
		refused := 0
		var value register.Value
		for _, o := range draw(t, s, 1, 2000) {
			if o.Kind == register.Write {
				value = o.Value
				continue
			}
			out, err := registry.Apply(value, o.Call)
			if err != nil {
				t.Fatal(err)
			}
			if out.Refused != "" {
				refused++
			} else if out.Changed {
				value = out.Next
			}
			functions[o.Call.Function] = true
		}
		if want := map[bool]int{false: 1, true: 8}[rmws == RMWMixed]; len(functions) != want {
			t.Errorf("%s: functions %v, want %d", rmws, functions, want)
		}
		if rmws == RMWAdd && refused > 0 {
			t.Errorf("%d additions are refused, though values are integers", refused)
		}
	}
}

func TestSwapsExpectWhatWasSeen(t *testing.T) {
	s := Default()
	s.Mix, s.RMWs, s.Conflict = Mix{RMW: 1}, RMWCAS, 1
	g, err := s.Generator(0)
	if err != nil {
		t.Fatal(err)
	}
	rng := rand.New(rand.NewPCG(1, 1))
	g.Observe(register.Operation{Kind: register.Read, Key: "shared"},
		register.Result{Status: register.OK, Value: register.Value("seen")})
	if o := g.Next(rng); string(o.Call.Args[0]) != "seen" {
		t.Errorf("the swap expects %q", o.Call.Args[0])
	}
}

func TestZipfIsSkewedAsAsked(t *testing.T) {
	const keys, draws = 50, 50_000
	for _, theta := range []float64{0, 0.5, 0.99, 1, 1.5, maxTheta} {
		s := Default()
		s.Keys, s.KeyCount, s.Theta = Zipf, keys, theta
		counts := map[string]int{}
		for _, o := range draw(t, s, 1, draws) {
			counts[o.Key]++
		}
		var sum float64
		for i := range keys {
			sum += math.Pow(float64(i+1), -theta)
		}
		for i := range keys {
			if want := math.Pow(float64(i+1), -theta) / sum; !near(counts[keyName(i)], want, draws) {
				t.Errorf("theta %v: key %d is drawn %d times of %d, want %.0f", theta, i,
					counts[keyName(i)], draws, want*draws)
			}
			delete(counts, keyName(i))
		}
		if len(counts) > 0 {
			t.Errorf("theta %v: keys out of range are drawn: %v", theta, counts)
		}
	}
}

func TestUniformKeysAreAllAlike(t *testing.T) {
	s := Default()
	s.Keys, s.KeyCount = Uniform, 10
	counts := map[string]int{}
	for _, o := range draw(t, s, 1, 20_000) {
		counts[o.Key]++
	}
	for key, count := range counts {
		if len(counts) != 10 || !near(count, 0.1, 20_000) {
			t.Errorf("%d keys, %s is drawn %d times of 20000", len(counts), key, count)
		}
	}
}

func TestSeedReplays(t *testing.T) {
	s := Default()
	s.Mix, s.RMWs = Mix{Read: 1, Write: 1, RMW: 1}, RMWMixed
	a, b := draw(t, s, 2, 200), draw(t, s, 2, 200)
	for i := range a {
		if a[i].Kind != b[i].Kind || a[i].Key != b[i].Key || !a[i].Value.Equal(b[i].Value) ||
			a[i].Call.Function != b[i].Call.Function {
			t.Fatalf("operation %d differs: %+v, %+v", i, a[i], b[i])
		}
	}
}

func TestGeneratorRefusesClientsOutOfRange(t *testing.T) {
	for _, client := range []int{-1, maxClients} {
		if _, err := Default().Generator(client); err == nil {
			t.Errorf("client %d has a generator", client)
		}
	}
}

// Of each key one idempotent function is called, which refuses nothing, and both are called of some.
func TestIdempotentCallsSuitTheirKeys(t *testing.T) {
	s := Default()
	s.Mix, s.RMWs, s.Keys, s.KeyCount = Mix{RMW: 1}, RMWIdempotent, Uniform, 10
	registry := register.NewRegistry()
	values, functions := map[string]register.Value{}, map[string]int{}
	for _, o := range draw(t, s, 3, 1000) {
		if !registry.Idempotent(o.Call.Function) {
			t.Fatalf("%s may be applied once alone", o.Call.Function)
		}
		out, err := registry.Apply(values[o.Key], o.Call)
		if err != nil || out.Refused != "" {
			t.Fatalf("%s(%q) of %q: %v, %s", o.Call.Function, o.Call.Args, values[o.Key], err, out.Refused)
		}
		if out.Changed {
			values[o.Key] = out.Next
			functions[o.Call.Function]++
		}
	}
	if len(functions) != 2 {
		t.Errorf("functions that changed something: %v", functions)
	}
}
