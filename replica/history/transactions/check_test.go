package transactions

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
)

// transaction is one of a client, from a time to another one: "x=1" is a value that it left, "x:1" one that it found,
// and "x:" says that it found none. Without an "=" it is read-only.
func transaction(client string, from, to int, accesses string) history.Transaction {
	t := history.Transaction{
		Client: client, Invoked: time.Duration(from), Returned: time.Duration(to), Outcome: history.Committed,
		ReadOnly: !strings.Contains(accesses, "="),
	}
	for a := range strings.FieldsSeq(accesses) {
		at := strings.IndexAny(a, "=:")
		access := history.Access{Key: a[:at]}
		if value := a[at+1:]; value != "" {
			access.Value = register.Value(value)
		}
		if a[at] == '=' {
			t.Writes = append(t.Writes, access)
		} else {
			t.Reads = append(t.Reads, access)
		}
	}
	return t
}

func stamped(timestamp uint64, t history.Transaction) history.Transaction {
	t.Timestamp = timestamp
	return t
}

func outcome(o history.TransactionOutcome, t history.Transaction) history.Transaction {
	t.Outcome = o
	return t
}

func readWrite(t history.Transaction) history.Transaction {
	t.ReadOnly = false
	return t
}

func check(t testing.TB, model Model, all ...history.Transaction) Verdict {
	t.Helper()
	return Check(context.Background(), history.Record{Transactions: all}, Options{Model: model})
}

// The gaps between the models, and what neither allows.
var histories = []struct {
	name            string
	strict, regular bool
	messages        []history.Message
	fences          []history.Fence
	all             []history.Transaction
}{
	{name: "one after the other", strict: true, regular: true, all: []history.Transaction{
		transaction("a", 0, 1, "x=1 y=1"), transaction("b", 2, 3, "x:1 y:1"), transaction("a", 4, 5, "x:1 x=2"),
		transaction("b", 6, 7, "x:2 y:1"),
	}},
	{name: "figure 4: a read-only transaction misses what another one has seen of a write under way", regular: true,
		all: []history.Transaction{
			transaction("w", 0, 10, "x=1"), transaction("a", 1, 2, "x:1"), transaction("b", 3, 4, "x:"),
		}},
	{name: "the same, told of by a message", messages: []history.Message{{From: "a", Sent: 3, To: "b", Received: 4}},
		all: []history.Transaction{
			transaction("w", 0, 10, "x=1"), transaction("a", 1, 2, "x:1"), transaction("b", 5, 6, "x:"),
		}},
	{name: "the same, after a fence", fences: []history.Fence{{Client: "a", Invoked: 3, Returned: 4}},
		all: []history.Transaction{
			transaction("w", 0, 10, "x=1"), transaction("a", 1, 2, "x:1"), transaction("b", 5, 6, "x:"),
		}},
	{name: "figure 4: one's own next one misses it", all: []history.Transaction{
		transaction("w", 0, 10, "x=1"), transaction("a", 1, 2, "x:1"), transaction("a", 3, 4, "x:"),
	}},
	{name: "a read-only transaction that conflicts is stale", all: []history.Transaction{
		transaction("w", 0, 1, "x=1"), transaction("a", 2, 3, "x:"),
	}},
	{name: "causal reverse: of two writes, the second alone is seen", all: []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("b", 2, 3, "y=1"), transaction("c", 0, 9, "x: y:1"),
	}},
	{name: "both are under way, and the second alone is seen", strict: true, regular: true, all: []history.Transaction{
		transaction("a", 0, 9, "x=1"), transaction("b", 2, 9, "y=1"), transaction("c", 0, 9, "x: y:1"),
	}},
	{name: "write skew", all: []history.Transaction{
		transaction("a", 0, 9, "x: y: x=1"), transaction("b", 0, 9, "x: y: y=1"),
	}},
	{name: "long fork", all: []history.Transaction{
		transaction("a", 0, 9, "x=1"), transaction("b", 0, 9, "y=1"), transaction("c", 0, 9, "x:1 y:"),
		transaction("d", 0, 9, "x: y:1"),
	}},
	{name: "lost update", all: []history.Transaction{
		transaction("i", 0, 1, "x=0"), transaction("a", 2, 9, "x:0 x=1"), transaction("b", 2, 9, "x:0 x=2"),
	}},
	{name: "lost update of what was absent", all: []history.Transaction{
		transaction("a", 2, 9, "x: x=1"), transaction("b", 2, 9, "x: x=2"),
	}},
	{name: "half of a transaction", all: []history.Transaction{
		transaction("a", 0, 9, "x=1 y=1"), transaction("b", 0, 9, "x:1 y:"),
	}},
	{name: "half of a transaction that replaced another one", all: []history.Transaction{
		transaction("i", 0, 1, "x=0 y=0"), transaction("a", 2, 9, "x=1 y=1"), transaction("b", 2, 9, "x:1 y:0"),
	}},
	{name: "what an aborted transaction left", all: []history.Transaction{
		outcome(history.Aborted, transaction("a", 0, 1, "x=1")), transaction("b", 2, 3, "x:1"),
	}},
	{name: "an aborted transaction that nobody saw", strict: true, regular: true, all: []history.Transaction{
		outcome(history.Aborted, transaction("a", 0, 1, "x:7 x=1")), transaction("b", 2, 3, "x:"),
	}},
	{name: "what nobody left", all: []history.Transaction{transaction("b", 2, 3, "x:1")}},
	{name: "what is left later", all: []history.Transaction{
		transaction("b", 2, 3, "x:1"), transaction("a", 4, 5, "x=1"),
	}},
	{name: "an unknown outcome that took effect late", strict: true, regular: true, all: []history.Transaction{
		outcome(history.UnknownOutcome, transaction("a", 0, 0, "x=1 y=1")), transaction("b", 2, 3, "x: y:"),
		transaction("b", 4, 5, "x:1 y:1"),
	}},
	{name: "an unknown outcome that took effect by half", all: []history.Transaction{
		outcome(history.UnknownOutcome, transaction("a", 0, 0, "x=1 y=1")), transaction("b", 2, 3, "x:1 y:"),
	}},
	{name: "an unknown outcome that took effect and had found what was replaced", all: []history.Transaction{
		transaction("i", 0, 1, "x=0"), transaction("w", 2, 3, "x:0 x=2"),
		outcome(history.UnknownOutcome, transaction("a", 4, 0, "x:0 y=1")), transaction("b", 5, 6, "y:1"),
	}},
	{name: "a value that was deleted", strict: true, regular: true, all: []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("a", 2, 3, "x="), transaction("b", 4, 5, "x:"),
		transaction("a", 6, 7, "x=2"), transaction("b", 8, 9, "x:2"),
	}},
	{name: "values written twice", strict: true, regular: true, all: []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("a", 2, 3, "x=2"), transaction("b", 2, 9, "x:1"),
		transaction("a", 4, 5, "x=1"), transaction("c", 6, 7, "x:1"),
	}},
	{name: "values written twice, stale", all: []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("a", 2, 3, "x=1"), transaction("a", 4, 5, "x=2"),
		transaction("c", 6, 7, "x:1"),
	}},
	{name: "values written twice, the second time too late", all: []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("a", 2, 3, "x=2"), transaction("b", 4, 5, "x:1"),
		transaction("a", 6, 7, "x=1"),
	}},
	{name: "an unknown outcome without an effect, that had found an old value, beside wrong timestamps", strict: true,
		regular: true, all: []history.Transaction{
			stamped(5, transaction("a", 0, 1, "x=1")), stamped(3, transaction("b", 2, 9, "x=2")),
			transaction("c", 3, 4, "x:2"), outcome(history.UnknownOutcome, transaction("d", 5, 0, "x:1 y=5")),
		}},
	{name: "its own write", all: []history.Transaction{transaction("a", 0, 1, "x:1 x=1")}},
	{name: "timestamps are wrong", strict: true, regular: true, all: []history.Transaction{
		stamped(5, transaction("a", 0, 1, "x=1")), stamped(3, transaction("b", 2, 3, "x=2")),
		transaction("c", 4, 5, "x:2"),
	}},
	{name: "a read-write transaction that left nothing is ordered as one", all: []history.Transaction{
		transaction("w", 0, 20, "x=1"), transaction("a", 1, 2, "x:1"), readWrite(transaction("a", 3, 4, "x:1")),
		readWrite(transaction("b", 5, 6, "x:")),
	}},
}

func TestTheModelsAreToldApart(t *testing.T) {
	for _, h := range histories {
		for model, want := range map[Model]bool{Strict: h.strict, Regular: h.regular} {
			record := history.Record{Transactions: h.all, Messages: h.messages, Fences: h.fences}
			v := Check(t.Context(), record, Options{Model: model})
			if v.OK() != want || !want && v.Outcome != history.Violation {
				t.Errorf("%s: %s: %s, want %v\n%s", h.name, model, v.Outcome, want, v.Explanation)
			}
			if lists := len(v.Failing) > 0; lists == want || v.Explanation == "" != want {
				t.Errorf("%s: %s: %d transactions fail: %q", h.name, model, len(v.Failing), v.Explanation)
			}
		}
	}
}

func TestTheShortestCycleIsExplained(t *testing.T) {
	all := []history.Transaction{transaction("i", 0, 1, "x=0 y=0 z=0")}
	for i := range 50 { // what has no part in it
		all = append(all, transaction("n", 100+2*i, 101+2*i, fmt.Sprintf("z:%d z=%d", i, i+1)))
	}
	all = append(all, transaction("a", 2, 90, "x:0 y:0 x=1"), transaction("b", 2, 90, "x:0 y:0 y=1"))
	v := check(t, Strict, all...)
	if len(v.Cycle) != 2 || v.Outcome != history.Violation {
		t.Fatalf("%s, a cycle of %d: %s", v.Outcome, len(v.Cycle), v.Explanation)
	}
	for _, want := range []string{`a: found "0" under "x", found "0" under "y", left "1" under "x" -> committed`,
		`found what the transaction of i that was invoked at 0s left of key "y"`} {
		if !strings.Contains(v.Explanation, want) {
			t.Errorf("%s\nlacks %s", v.Explanation, want)
		}
	}
}

func TestACheckThatIsStoppedSaysSo(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	all := []history.Transaction{
		transaction("a", 0, 1, "x=1"), transaction("a", 2, 3, "x=1"), transaction("a", 4, 5, "x=2"),
		transaction("c", 6, 7, "x:1"),
	}
	if v := Check(ctx, history.Record{Transactions: all}, Options{}); v.Outcome != history.Stopped {
		t.Errorf("%s: %s", v.Outcome, v.Explanation)
	}
}

// explained reports whether some order of the transactions is what the model says, by trying all: the reference that
// knows nothing of graphs.
func explained(model Model, all []history.Transaction) bool {
	var order []int
	used := make([]bool, len(all))
	var extend func() bool
	extend = func() bool {
		missing := false
		for i, t := range all {
			missing = missing || !used[i] && t.Outcome == history.Committed
		}
		if !missing {
			return true
		}
		for i := range all {
			if used[i] || all[i].Outcome == history.Aborted || !mayFollow(model, all, used, order, i) {
				continue
			}
			used[i], order = true, append(order, i)
			if extend() {
				return true
			}
			used[i], order = false, order[:len(order)-1]
		}
		return false
	}
	return extend()
}

// mayFollow reports whether a transaction may come after some others, in that order, and before all others.
func mayFollow(model Model, all []history.Transaction, used []bool, order []int, next int) bool {
	t := all[next]
	for i, o := range all {
		if used[i] || i == next || o.Outcome != history.Committed || o.Returned >= t.Invoked {
			continue
		}
		conflict := slices.ContainsFunc(o.Writes, func(w history.Access) bool {
			return slices.ContainsFunc(t.Reads, func(r history.Access) bool { return r.Key == w.Key })
		})
		if model == Strict || o.Client == t.Client || !o.ReadOnly && (!t.ReadOnly || conflict) {
			return false
		}
	}
	for _, r := range t.Reads {
		var value register.Value
		var since time.Duration
		for _, i := range order {
			for _, w := range all[i].Writes {
				if w.Key == r.Key {
					value, since = w.Value, all[i].Invoked
				}
			}
		}
		if !value.Equal(r.Value) || t.Outcome == history.Committed && since > t.Returned {
			return false
		}
	}
	return true
}

// random draws a small history: of a store that takes transactions in an order, with answers that are wrong, values
// that repeat, and outcomes that are unknown, of each many or few.
func random(r *rand.Rand) []history.Transaction {
	one := func(few, many int) func() bool {
		in := []int{few, many}[r.IntN(2)]
		return func() bool { return r.IntN(in) == 0 }
	}
	wrong, repeats, unknown, stampedWrong := one(20, 3), one(20, 2), one(12, 3), one(12, 2)
	unstamped, spread := r.IntN(3) == 0, []int{8, 25}[r.IntN(2)]
	keys := []string{"x", "y", "z"}[:1+r.IntN(3)]
	values, old := map[string]register.Value{}, map[string][]register.Value{}
	var all []history.Transaction
	for i := range 2 + r.IntN(7) {
		at := 10 * (i + 1)
		t := history.Transaction{
			Client: string(rune('a' + r.IntN(6))), Invoked: time.Duration(at - r.IntN(spread)),
			Returned: time.Duration(at + 1 + r.IntN(spread)), Outcome: history.Committed, ReadOnly: r.IntN(3) == 0,
			Timestamp: uint64(at),
		}
		switch {
		case unstamped:
			t.Timestamp = 0
		case stampedWrong():
			t.Timestamp = uint64(r.IntN(60))
		}
		if unknown() {
			t.Outcome = history.UnknownOutcome
		} else if r.IntN(12) == 0 {
			t.Outcome = history.Aborted
		}
		for _, key := range keys {
			if r.IntN(2) == 0 {
				value := values[key]
				if past := old[key]; wrong() {
					value = nil
					if n := r.IntN(len(past) + 1); n > 0 {
						value = past[n-1]
					}
				}
				t.Reads = append(t.Reads, history.Access{Key: key, Value: value})
			}
		}
		for _, key := range keys {
			if t.ReadOnly || r.IntN(2) == 0 {
				continue
			}
			value := register.Value(fmt.Sprint(i))
			if repeats() {
				value = []register.Value{nil, register.Value("0"), register.Value("1")}[r.IntN(3)]
			}
			t.Writes = append(t.Writes, history.Access{Key: key, Value: value})
		}
		took := t.Outcome == history.Committed || t.Outcome == history.UnknownOutcome && r.IntN(2) == 0
		for _, w := range t.Writes {
			old[w.Key] = append(old[w.Key], w.Value)
			if took {
				values[w.Key] = w.Value
			}
		}
		all = append(all, t)
	}
	return all
}

func TestRandomHistoriesAreJudgedAsByTryingAllOrders(t *testing.T) {
	counts := map[string]int{}
	for seed := range uint64(20_000) {
		all := random(rand.New(rand.NewPCG(seed, 1)))
		for _, model := range []Model{Strict, Regular} {
			v, want := check(t, model, all...), explained(model, all)
			if v.OK() != want || !want && v.Outcome != history.Violation {
				t.Fatalf("seed %d: %s: %s, want %v: %s\n%s", seed, model, v.Outcome, want, v.Explanation, list(all))
			}
			counts[fmt.Sprintf("%s: %t, searched %t, cycle %t", model, want, v.Searched, len(v.Cycle) > 0)]++
		}
	}
	for _, model := range []Model{Strict, Regular} {
		for _, kind := range []string{
			"true, searched false, cycle false", "true, searched true, cycle false", "false, searched true, cycle true",
			"false, searched true, cycle false", "false, searched false, cycle false",
		} {
			if n := counts[fmt.Sprintf("%s: %s", model, kind)]; n < 50 {
				t.Errorf("%s: %s: %d histories: %v", model, kind, n, counts)
			}
		}
	}
}
