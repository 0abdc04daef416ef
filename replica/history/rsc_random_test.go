package history

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// delayed is a history that was made from one order of its operations, with all the delays that the model allows.
type delayed struct {
	operations []Operation // in that order
	versions   []int       // which version of its key each operation found or left; -1 if it never took effect
	options    RSCOptions
}

// delays makes a random history that is regular sequential. Operations take effect one after the other, as they are
// listed; their times are then drawn client by client, and a return is put off where it would otherwise order what is
// in another order.
func delays(rng *rand.Rand, s shape, messages, fences int) delayed {
	var d delayed
	registry, values := register.NewRegistry(), map[string]register.Value{}
	stamps, versions := map[string]register.Carstamp{}, map[string]int{}
	free := map[string]time.Duration{}         // when a client has nothing under way
	begun := map[string]time.Duration{}        // the latest invocation of each key
	left := map[string]time.Duration{}         // when the operation was invoked that changed each key last
	var writeBegun, allBegun, ms time.Duration // and of any write, and of any operation
	client := func() string { return fmt.Sprint("c", rng.IntN(s.clients)) }
	some := func(n int) time.Duration { return time.Duration(1 + rng.IntN(n)) }
	for i := range s.operations {
		if rng.IntN(s.operations) < messages {
			from, to := client(), client()
			free[from] = max(free[from], ms) + some(20)
			m := Message{From: from, Sent: free[from], To: to}
			m.Received = max(free[to], free[from]) + some(100)
			free[to] = m.Received
			d.options.Messages = append(d.options.Messages, m)
		}
		if rng.IntN(s.operations) < fences {
			c := client()
			f := Fence{Client: c, Invoked: free[c] + some(10)}
			f.Returned = max(f.Invoked+some(100), allBegun)
			free[c] = f.Returned
			d.options.Fences = append(d.options.Fences, f)
		}
		c := client()
		o := Operation{Client: c, Request: request(rng, fmt.Sprint(c, "-", i), s)}
		key := o.Request.Key
		o.Invoked = max(free[c], time.Duration(10*i-rng.IntN(300))) + some(20)
		o.Returned = o.Invoked + some(100)
		if o.Request.Kind != register.Read {
			if rng.IntN(4) == 0 {
				o.Returned += some(1000)
			}
			o.Returned = max(o.Returned, writeBegun, begun[key])
			writeBegun = max(writeBegun, o.Invoked)
		} else {
			o.Returned = max(o.Returned, left[key]) // nothing is read before it is written
		}
		begun[key], allBegun = max(begun[key], o.Invoked), max(allBegun, o.Invoked)
		lost := rng.Float64() < s.unknown
		none := lost && rng.IntN(2) == 0
		if !none {
			switch o.Request.Kind {
			case register.Write:
				stamps[key] = register.Carstamp{Timestamp: stamps[key].Timestamp + 1}
				versions[key]++
			case register.RMW:
				stamps[key] = stamps[key].Next()
				versions[key]++
			}
			before := values[key]
			o.Result = execute(registry, values, o.Request)
			if o.Request.Kind == register.Write || !values[key].Equal(before) {
				left[key] = o.Invoked
			}
			if s.hints && !(s.blank && o.Request.Kind == register.RMW) {
				o.Result.Carstamp = stamps[key]
			}
		}
		if lost {
			o.Result = register.Result{Status: register.Unknown}
		}
		free[c] = o.Returned
		if lost {
			free[c] = o.Invoked + some(100) // its client gives it up
		}
		version := versions[key]
		if none {
			version = -1
		}
		d.operations, d.versions = append(d.operations, o), append(d.versions, version)
	}
	return d
}

// unique gives a history of reads and writes values that tell which write they are of.
func (d delayed) unique() delayed {
	for i := range d.operations {
		o := &d.operations[i]
		if o.Request.Kind == register.Write {
			if o.Request.Value = register.Value(fmt.Sprint("v", d.versions[i])); d.versions[i] < 0 {
				o.Request.Value = register.Value(fmt.Sprint("lost", i))
			}
		} else if o.Known() {
			if o.Result.Value = nil; d.versions[i] > 0 {
				o.Result.Value = register.Value(fmt.Sprint("v", d.versions[i]))
			}
		}
	}
	return d
}

func shuffled(rng *rand.Rand, operations []Operation) []Operation {
	operations = slices.Clone(operations)
	rng.Shuffle(len(operations), func(i, j int) { operations[i], operations[j] = operations[j], operations[i] })
	return operations
}

func TestDelayedHistoriesAreAccepted(t *testing.T) {
	weaker := 0
	for seed := range uint64(300) {
		rng := rand.New(rand.NewPCG(seed, 10))
		s := shape{
			operations: 60 + rng.IntN(200), clients: 2 + rng.IntN(8), keys: 1 + rng.IntN(5),
			unknown: 0.1 * rng.Float64(), hints: true, blind: seed%3 == 0,
		}
		d := delays(rng, s, rng.IntN(20), rng.IntN(5))
		if v := checkRSC(t, shuffled(rng, d.operations), d.options); !v.OK() {
			t.Fatalf("seed %d: %s\n%s", seed, v.Outcome, v.Explanation)
		} else if v.Searched {
			t.Logf("seed %d: the carstamps were no proof", seed)
		}
		if seed < 60 && !Check(t.Context(), d.operations, Options{Timeout: 2 * time.Second, Brief: true}).OK() {
			weaker++
		}
	}
	if weaker < 20 {
		t.Errorf("only %d of 60 histories are not linearizable: they show too little of the model", weaker)
	}
}

// TestWrongCarstampsRefuseNothing exchanges carstamps in histories that are regular sequential: they may be left
// undecided, but what is refused is refused by values.
func TestWrongCarstampsRefuseNothing(t *testing.T) {
	counts := map[Outcome]int{}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 14))
		d := delays(rng,
			shape{
				operations: 40 + rng.IntN(300), clients: 2 + rng.IntN(6), keys: 1 + rng.IntN(6), unknown: 0.05,
				hints: true, blind: seed%2 == 0,
			},
			rng.IntN(20), rng.IntN(5))
		if seed%4 == 0 {
			d = d.unique()
		}
		for range 1 + rng.IntN(6) {
			a, b := &d.operations[rng.IntN(len(d.operations))].Result.Carstamp,
				&d.operations[rng.IntN(len(d.operations))].Result.Carstamp
			*a, *b = *b, *a
		}
		d.options.MaxStates = 2000
		v := checkRSC(t, shuffled(rng, d.operations), d.options)
		if v.Outcome == Violation {
			t.Fatalf("seed %d: refused\n%s", seed, v.Explanation)
		}
		counts[v.Outcome]++
		if v.Outcome == Undecided && v.Explanation == "" {
			t.Fatalf("seed %d: no one knows why it is undecided", seed)
		}
	}
	if counts[RegularSequential] < 50 || counts[Undecided] == 0 {
		t.Errorf("the histories show too little: %v", counts)
	}
	t.Log(counts)
}

// corruption is a single change of an answer by which no order explains the history any more.
type corruption struct {
	read    int // whose answer becomes that of an older version
	version int
	why     string
}

// corruptions lists the changes that are certainly wrong: the version that a read is made to find was replaced by one
// that has to come before the read, and real time orders the two.
func (d delayed) corruptions() []corruption {
	writer := map[string]map[int]int{}
	for i, o := range d.operations {
		if o.Request.Kind != register.Write || !o.Known() {
			continue
		}
		if writer[o.Request.Key] == nil {
			writer[o.Request.Key] = map[int]int{}
		}
		writer[o.Request.Key][d.versions[i]] = i
	}
	var list []corruption
	for i, r := range d.operations {
		if r.Request.Kind != register.Read || !r.Known() {
			continue
		}
		older := func(version int, why string) {
			after, ok := writer[r.Request.Key][version]
			if !ok {
				return
			}
			for v := version - 1; v >= 0; v-- {
				before, ok := writer[r.Request.Key][v]
				if v == 0 || ok && d.operations[before].Returned < d.operations[after].Invoked {
					list = append(list, corruption{i, v, why})
					return
				}
			}
		}
		for j, o := range d.operations[:i] {
			if o.Request.Key != r.Request.Key || !o.Known() {
				continue
			}
			switch {
			case o.Request.Kind == register.Write && o.Returned < r.Invoked:
				older(d.versions[j], "a write had ended")
			case o.Client == r.Client:
				older(d.versions[j], "its client knew better")
			default:
				for _, m := range d.options.Messages {
					if m.From == o.Client && o.Returned < m.Sent && m.To == r.Client && m.Received < r.Invoked {
						older(d.versions[j], "its client had been told")
					}
				}
				for _, f := range d.options.Fences {
					if f.Client == o.Client && o.Returned < f.Invoked && f.Returned < r.Invoked {
						older(d.versions[j], "there was a fence")
					}
				}
			}
		}
	}
	return list
}

// TestSingleCorruptionsAreRefused gives one read an older value, and the carstamp of that or its own.
func TestSingleCorruptionsAreRefused(t *testing.T) {
	seen := map[string]int{}
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 11))
		s := shape{
			operations: 60 + rng.IntN(400), clients: 3 + rng.IntN(5), keys: 1 + rng.IntN(4), unknown: 0.05,
			hints: true, blind: true,
		}
		d := delays(rng, s, 40, 5).unique()
		if v := checkRSC(t, d.operations, d.options); !v.OK() {
			t.Fatalf("seed %d: before the corruption: %s\n%s", seed, v.Outcome, v.Explanation)
		}
		list := d.corruptions()
		rng.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
		for _, c := range list[:min(len(list), 3)] {
			seen[c.why]++
			spoilt := slices.Clone(d.operations)
			r := &spoilt[c.read]
			if r.Result.Value = nil; c.version > 0 {
				r.Result.Value = register.Value(fmt.Sprint("v", c.version))
			}
			if rng.IntN(2) == 0 {
				r.Result.Carstamp = register.Carstamp{Timestamp: uint64(c.version)}
			}
			if v := checkRSC(t, shuffled(rng, spoilt), d.options); v.Outcome != Violation {
				t.Fatalf("seed %d: %s, though %s and operation %d found version %d:\n%s", seed, v.Outcome, c.why,
					c.read, c.version, v.Explanation)
			}
		}
	}
	for _, why := range []string{
		"a write had ended", "its client knew better", "its client had been told", "there was a fence",
	} {
		if seen[why] == 0 {
			t.Errorf("%q never occurred: %v", why, seen)
		}
	}
}

// TestWritesOutOfRealTimeAreRefused moves a write whose version was read before another one, by the times of its client
// alone, so that everybody saw the two in an order that real time forbids.
func TestWritesOutOfRealTimeAreRefused(t *testing.T) {
	tried := 0
	for seed := range uint64(150) {
		rng := rand.New(rand.NewPCG(seed, 12))
		d := delays(rng, shape{operations: 80, clients: 4, keys: 3, hints: true, blind: true}, 0, 0).unique()
		// A client of its own writes a key of its own, after everything and yet before it: who reads it knows nothing
		// else.
		end := last(d.operations)
		probe := []Operation{
			on("probe", at(1, 0, write("w1", int(end)+1, int(end)+2, "early"))),
			on("probe", at(2, 0, write("w2", int(end)+3, int(end)+4, "late"))),
			on("probe", at(2, 0, readOf("w3", int(end)+5, int(end)+6, "late"))),
		}
		good := slices.Concat(d.operations, probe)
		if v := checkRSC(t, good, d.options); !v.OK() {
			t.Fatalf("seed %d: before the corruption: %s\n%s", seed, v.Outcome, v.Explanation)
		}
		bad := slices.Clone(good)
		w1, w2 := &bad[len(bad)-3], &bad[len(bad)-2]
		w1.Invoked, w1.Returned, w2.Invoked, w2.Returned = w2.Invoked, w2.Returned, w1.Invoked, w1.Returned
		if v := checkRSC(t, shuffled(rng, bad), d.options); v.Outcome != Violation {
			t.Fatalf("seed %d: %s", seed, v.Outcome)
		}
		// The same over two keys: a version that was read is moved behind all other writes, and a later write of
		// another key was seen by the same reader before.
		for i, w := range d.operations {
			reader := slices.IndexFunc(d.operations, func(o Operation) bool {
				return o.Request.Kind == register.Read && o.Request.Key == w.Request.Key &&
					o.Result.Value.Equal(w.Request.Value)
			})
			if w.Request.Kind != register.Write || reader < 0 {
				continue
			}
			moved := slices.Clone(d.operations)
			moved[i].Client, moved[i].Invoked, moved[i].Returned = "moved", end+10, end+11
			next := slices.IndexFunc(moved, func(o Operation) bool {
				return o.Request.Kind == register.Write && o.Request.Key == w.Request.Key &&
					slices.ContainsFunc(d.operations[i+1:], func(p Operation) bool {
						return p.Request.Kind == register.Write && p.Request.Key == o.Request.Key &&
							p.Request.Value.Equal(o.Request.Value)
					})
			})
			if next < 0 {
				continue
			}
			moved = append(moved,
				on(w.Request.Key, readOf("final", int(end)+20, int(end)+21, string(d.newest(w.Request.Key)))))
			tried++
			if v := checkRSC(t, moved, d.options); v.OK() {
				t.Fatalf("seed %d: a write after all others was covered by one of them", seed)
			}
			break
		}
	}
	if tried < 50 {
		t.Errorf("only %d histories had such a write", tried)
	}
}

// newest is the last value that was written to a key.
func (d delayed) newest(key string) register.Value {
	var value register.Value
	for _, o := range d.operations {
		if o.Request.Key == key && o.Request.Kind == register.Write {
			value = o.Request.Value
		}
	}
	return value
}
