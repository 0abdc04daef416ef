package transactions

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// serial is a history of a store that takes transactions one after the other, each within its time: 100 clients, which
// overlap, and 4 of the keys in each. A third is read-only.
func serial(count, keys int, stamps bool) []history.Transaction {
	r := rand.New(rand.NewPCG(1, 1))
	within := func() time.Duration { return time.Duration(r.Int64N(int64(40 * time.Millisecond))) }
	values := map[string]register.Value{}
	all := make([]history.Transaction, count)
	for i := range all {
		at := time.Duration(i) * time.Millisecond
		t := history.Transaction{
			Client: fmt.Sprint("c", i%100), Invoked: at - within(), Returned: at + 1 + within(),
			Outcome: history.Committed, ReadOnly: i%3 == 0,
		}
		if stamps {
			t.Timestamp = uint64(i + 1)
		}
		for len(t.Reads) < 4 {
			key := fmt.Sprint("k", r.IntN(keys))
			if t.Reads != nil && names(t.Reads, key) {
				continue
			}
			t.Reads = append(t.Reads, history.Access{Key: key, Value: values[key]})
			if !t.ReadOnly && len(t.Reads) > 2 {
				t.Writes = append(t.Writes, history.Access{Key: key, Value: register.Value(fmt.Sprint(i))})
			}
		}
		for _, w := range t.Writes {
			values[w.Key] = w.Value
		}
		all[i] = t
	}
	return all
}

// lose has a transaction miss what the one before it left, of a key that it writes itself.
func lose(t *testing.T, all []history.Transaction) {
	last := map[string]int{} // by key, who left its value
	for i := range all {
		for n, a := range all[i].Reads {
			w, written := last[a.Key]
			if !written || i < len(all)/2 || !names(all[i].Writes, a.Key) || !names(all[w].Reads, a.Key) {
				continue
			}
			for _, before := range all[w].Reads {
				if before.Key == a.Key {
					all[i].Reads[n].Value = before.Value
				}
			}
			return
		}
		for _, w := range all[i].Writes {
			last[w.Key] = i
		}
	}
	t.Fatal("no transaction could lose an update")
}

func TestALargeHistoryIsJudged(t *testing.T) {
	for _, stamps := range []bool{true, false} {
		for _, model := range []Model{Strict, Regular} {
			all := serial(20_000, 2_000, stamps)
			if v := check(t, model, all...); !v.OK() || v.Searched || v.Checked != len(all) {
				t.Errorf("%s, timestamps %t: %s, searched %t: %.2000s", model, stamps, v.Outcome, v.Searched,
					v.Explanation)
			}
			lose(t, all)
			if v := check(t, model, all...); v.Outcome != history.Violation || len(v.Cycle) != 2 {
				t.Errorf("%s, timestamps %t: %s with a lost update: %.2000s", model, stamps, v.Outcome, v.Explanation)
			}
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	for _, stamps := range []bool{true, false} {
		all := serial(100_000, 10_000, stamps)
		for _, model := range []Model{Strict, Regular} {
			b.Run(fmt.Sprintf("%s,timestamps=%t", model, stamps), func(b *testing.B) {
				for b.Loop() {
					if v := check(b, model, all...); !v.OK() {
						b.Fatal(v.Outcome)
					}
				}
			})
		}
	}
}

// What makes it hard to tell who left what: one value all over, many outcomes that are unknown, many keys of one
// transaction, and many cycles.
func TestHostileHistoriesAreJudged(t *testing.T) {
	const count = 10_000
	same, unknown, skew := []history.Transaction{transaction("i", -9, -8, "x=0")}, []history.Transaction(nil),
		[]history.Transaction(nil)
	wide := []history.Transaction{transaction("a", 0, 1, "x=0"), transaction("b", 2, 3, "x:0")}
	for i := range count {
		same = append(same, transaction(fmt.Sprint("c", i%50), 10*i-200, 10*i+5, "x=0 x:0"))
		unknown = append(unknown, outcome(history.UnknownOutcome, transaction(fmt.Sprint("c", i), i, 0, "x=0")))
		a := history.Access{Key: fmt.Sprint(i), Value: register.Value("1")}
		wide[0].Writes, wide[1].Reads = append(wide[0].Writes, a), append(wide[1].Reads, a)
		skew = append(skew, transaction("a", 9*i, 9*i+5, fmt.Sprintf("x%d: y%d: x%d=1", i, i, i)),
			transaction("b", 9*i, 9*i+5, fmt.Sprintf("x%d: y%d: y%d=1", i, i, i)))
	}
	unknown = append(unknown, transaction("r", count, count+1, "x:0"))
	for _, model := range []Model{Strict, Regular} {
		for name, all := range map[string][]history.Transaction{"same": same, "unknown": unknown, "wide": wide} {
			if v := check(t, model, all...); !v.OK() {
				t.Errorf("%s, %s: %s: %.1000s", name, model, v.Outcome, v.Explanation)
			}
		}
		if v := check(t, model, skew...); v.Outcome != history.Violation || len(v.Cycle) != 2 {
			t.Errorf("skew, %s: %s: %.1000s", model, v.Outcome, v.Explanation)
		}
	}
}
