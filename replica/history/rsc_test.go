package history

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// on moves an operation to another key; all others are on "k".
func on(key string, o Operation) Operation {
	o.Request.Key = key
	return o
}

// at gives an operation a carstamp.
func at(timestamp, rmws uint64, o Operation) Operation {
	o.Result.Carstamp = register.Carstamp{Timestamp: timestamp, RMWs: rmws}
	return o
}

// message is one from a client to another.
func message(from string, sent int, to string, received int) Message {
	return Message{From: from, Sent: time.Duration(sent), To: to, Received: time.Duration(received)}
}

func fence(client string, from, to int) Fence {
	return Fence{Client: client, Invoked: time.Duration(from), Returned: time.Duration(to)}
}

func checkRSC(t testing.TB, history []Operation, options RSCOptions) RSCVerdict {
	t.Helper()
	v, err := CheckRSC(t.Context(), history, options)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// models says which of the models, from the strongest to the weakest, is the first that allows a history.
type models int

const (
	linear     models = iota // linearizable, and so all others
	regular                  // regular sequential, not linearizable
	sequential               // sequential, not regular sequential
	none                     // not even sequential
)

// gaps are histories in each gap between the models.
var gaps = []struct {
	name     string
	want     models
	history  []Operation
	messages []Message
	fences   []Fence
}{
	{name: "nothing happened", want: linear},
	{name: "reads see the last write", want: linear, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), at(1, 0, readOf("b", 3, 4, "x")), at(2, 0, write("a", 5, 6, "y")),
		at(2, 0, readOf("b", 7, 8, "y"))}},
	{name: "concurrent writes", want: linear, history: []Operation{
		at(2, 0, write("a", 1, 10, "x")), at(1, 0, write("b", 1, 10, "y")), at(2, 0, readOf("c", 11, 12, "x"))}},
	{name: "the same value twice", want: linear, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), at(2, 0, write("a", 3, 4, "y")), at(3, 0, write("a", 5, 6, "x")),
		at(3, 0, readOf("b", 7, 8, "x"))}},
	{name: "an unknown write took effect late", want: linear, history: []Operation{
		unknown(write("b", 1, 0, "y")), at(1, 0, write("a", 3, 4, "x")), at(1, 0, readOf("c", 5, 6, "x")),
		at(2, 0, readOf("c", 7, 8, "y"))}},
	{name: "adds add up, one of them unknown", want: linear, history: []Operation{
		at(0, 1, rmw("a", 1, 10, "1", register.Add, "1")), unknown(rmw("b", 1, 0, "", register.Add, "1")),
		at(0, 3, rmw("c", 11, 12, "3", register.Add, "1")), at(0, 3, readOf("c", 13, 14, "3"))}},
	{name: "an append brings a value back", want: linear, history: []Operation{
		at(1, 0, write("a", 1, 2, "ab")), at(1, 0, readOf("b", 3, 4, "ab")), at(2, 0, write("a", 5, 6, "a")),
		at(2, 1, rmw("a", 7, 8, "2", register.Append, "b")), at(2, 1, readOf("b", 9, 10, "ab"))}},
	{name: "a retry that another process sent", want: linear, history: []Operation{
		withID(7, 1, unknown(rmw("a", 1, 0, "", register.Add, "1"))), absent("c", 2, 3),
		withID(7, 1, at(0, 1, rmw("b", 4, 5, "1", register.Add, "1"))), at(0, 1, readOf("b", 6, 7, "1"))}},

	{name: "new, then old elsewhere, during a write", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), at(2, 0, write("b", 3, 20, "y")), at(2, 0, readOf("c", 4, 5, "y")),
		at(1, 0, readOf("d", 6, 7, "x"))}},
	{name: "new, then old elsewhere, of a write that never returned", want: regular, history: []Operation{
		unknown(write("b", 3, 0, "y")), at(2, 0, readOf("c", 4, 5, "y")), absent("d", 600, 700)}},
	{name: "photo-sharing: what Alice sees and Bob not yet", want: regular, history: []Operation{
		at(1, 0, write("charlie", 1, 100, "photo")), at(1, 0, readOf("alice", 2, 3, "photo")), absent("bob", 4, 5),
		at(1, 0, readOf("bob", 6, 7, "photo"))}},
	{name: "two keys seen in different orders by real time, in one order by processes", want: regular,
		history: []Operation{
			on("x", at(1, 0, write("a", 1, 50, "1"))), on("y", at(1, 0, write("b", 1, 50, "1"))),
			on("x", at(1, 0, readOf("c", 2, 3, "1"))), on("y", absent("c", 4, 5)),
			on("y", absent("d", 6, 7)), on("x", absent("d", 8, 9))}},
	{name: "an rmw is seen early by one", want: regular, history: []Operation{
		at(0, 1, rmw("a", 1, 50, "1", register.Add, "1")), at(0, 1, readOf("b", 2, 3, "1")), absent("c", 4, 5)}},
	{name: "a message that was sent before the read knows nothing of it", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 5, 6, "x")), absent("c", 8, 9)},
		messages: []Message{message("b", 4, "c", 7)}},
	{name: "a message that was sent when the read returned", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 5, 6, "x")), absent("c", 8, 9)},
		messages: []Message{message("b", 6, "c", 7)}},
	{name: "a message that was received when the read was invoked", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 4, 5, "x")), absent("c", 8, 9)},
		messages: []Message{message("b", 6, "c", 8)}},
	{name: "a fence that began before the read returned", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 5, 6, "x")), absent("c", 10, 11)},
		fences: []Fence{fence("b", 3, 8)}},
	{name: "an operation that began before the fence ended", want: regular, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 2, 3, "x")), absent("c", 5, 9)},
		fences: []Fence{fence("b", 4, 5)}},
	{name: "a read that returned after a write of its value began, and before another one", want: linear,
		history: []Operation{at(1, 0, write("a", 1, 9, "x")), at(1, 0, readOf("c", 2, 3, "x")),
			at(2, 0, write("b", 10, 11, "x"))}},

	{name: "a stale read after a write", want: sequential, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), absent("b", 3, 4)}},
	{name: "a stale read after two writes", want: sequential, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), at(2, 0, write("a", 3, 4, "y")), at(1, 0, readOf("b", 5, 6, "x"))}},
	{name: "writes of two keys out of real time", want: sequential, history: []Operation{
		on("x", at(1, 0, write("a", 10, 50, "1"))), on("y", at(1, 0, write("b", 60, 900, "1"))),
		on("y", at(2, 0, write("e", 10, 900, "2"))),
		on("y", at(2, 0, readOf("c", 20, 30, "2"))), on("x", absent("c", 40, 45)),
		on("y", at(1, 0, readOf("d", 70, 80, "1"))), on("y", at(2, 0, readOf("d", 90, 100, "2")))}},
	{name: "writes of one key out of real time", want: sequential, history: []Operation{
		at(2, 0, write("a", 1, 2, "x")), at(1, 0, write("b", 3, 4, "y")), at(2, 0, readOf("c", 5, 6, "x"))}},
	{name: "a message tells of what is not there", want: sequential, history: []Operation{
		at(1, 0, write("charlie", 1, 100, "photo")), at(1, 0, readOf("alice", 2, 3, "photo")), absent("bob", 6, 7)},
		messages: []Message{message("alice", 4, "bob", 5)}},
	{name: "a message that is passed on by one who did nothing", want: sequential, history: []Operation{
		at(1, 0, write("charlie", 1, 100, "photo")), at(1, 0, readOf("alice", 2, 3, "photo")), absent("bob", 8, 9)},
		messages: []Message{message("alice", 4, "eve", 5), message("eve", 6, "bob", 7)}},
	{name: "a session moves to another process", want: sequential, history: []Operation{
		unknown(write("w", 1, 0, "x")), at(1, 0, readOf("here", 2, 3, "x")), absent("there", 6, 7)},
		messages: []Message{message("here", 4, "there", 5)}},
	{name: "a fence orders what comes after it", want: sequential, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 2, 3, "x")), absent("c", 7, 8)},
		fences: []Fence{fence("b", 4, 6)}},
	{name: "a fence orders what its process was told", want: sequential, history: []Operation{
		at(1, 0, write("a", 1, 50, "x")), at(1, 0, readOf("b", 2, 3, "x")), absent("c", 9, 10)},
		messages: []Message{message("b", 4, "f", 5)}, fences: []Fence{fence("f", 6, 8)}},
	{name: "an rmw had ended with the first of two answers", want: sequential, history: []Operation{
		withID(7, 1, at(0, 1, rmw("a", 1, 10, "1", register.Add, "1"))),
		withID(7, 1, at(0, 1, rmw("b", 2, 50, "1", register.Add, "1"))), absent("c", 11, 12)}},
	{name: "an rmw was missed by a later read", want: sequential, history: []Operation{
		at(0, 1, rmw("a", 1, 2, "1", register.Add, "1")), absent("b", 3, 4)}},
	{name: "a refused rmw is a write, too", want: sequential, history: []Operation{
		at(1, 0, write("a", 51, 99, "word")), at(1, 1, with(register.Failed, rmw("b", 60, 61, "", register.Add, "1"))),
		absent("c", 62, 63)}},
	{name: "an unknown write took effect before a write that had ended", want: sequential, history: []Operation{
		at(2, 0, write("a", 1, 2, "x")), unknown(write("b", 3, 0, "y")), at(1, 0, readOf("c", 4, 5, "y")),
		at(2, 0, readOf("c", 6, 7, "x"))}},

	{name: "a read of the future", want: none, history: []Operation{
		at(1, 0, readOf("c", 1, 2, "x")), at(1, 0, write("a", 3, 4, "x"))}},
	{name: "a read of the future, beside a fence", want: none, history: []Operation{
		at(1, 0, write("b", 1, 2, "y")), at(2, 0, readOf("c", 6, 7, "x")), at(2, 0, write("a", 8, 9, "x"))},
		fences: []Fence{fence("b", 3, 4)}},
	{name: "a read of the future, of a value that was there and is replaced", want: none, history: []Operation{
		at(1, 0, write("a", 1, 2, "x")), at(2, 0, write("a", 3, 4, "y")), at(3, 0, readOf("c", 5, 6, "x")),
		at(3, 0, write("a", 7, 8, "x"))}},
	{name: "a read of the future, of one that nobody answered", want: none, history: []Operation{
		at(0, 0, readOf("c", 1, 2, "x")), unknown(write("a", 3, 4, "x"))}},
	{name: "new, then old in one process", want: none, history: []Operation{
		at(1, 0, write("b", 1, 20, "y")), at(1, 0, readOf("c", 4, 5, "y")), absent("c", 6, 7)}},
	{name: "two readers disagree on the order of concurrent writes", want: none, history: []Operation{
		at(1, 0, write("a", 1, 100, "x")), at(2, 0, write("b", 1, 100, "y")),
		at(1, 0, readOf("c", 11, 12, "x")), at(2, 0, readOf("c", 13, 14, "y")), at(2, 0, readOf("d", 11, 12, "y")),
		at(1, 0, readOf("d", 13, 14, "x"))}},
	{name: "two readers disagree on the order of writes of two keys", want: none, history: []Operation{
		on("x", at(1, 0, write("a", 1, 100, "1"))), on("y", at(1, 0, write("b", 1, 100, "1"))),
		on("x", at(1, 0, readOf("c", 11, 12, "1"))), on("y", absent("c", 13, 14)),
		on("y", at(1, 0, readOf("d", 11, 12, "1"))), on("x", absent("d", 13, 14))}},
	{name: "causality over two keys and three processes", want: none, history: []Operation{
		on("x", unknown(write("a", 1, 0, "1"))), on("x", at(1, 0, readOf("b", 2, 3, "1"))),
		on("y", at(1, 0, write("b", 4, 50, "1"))),
		on("y", at(1, 0, readOf("c", 5, 6, "1"))), on("x", absent("c", 7, 8))}},
	{
		name: "one's own write is missed", want: none,
		history: []Operation{at(1, 0, write("a", 1, 2, "x")), absent("a", 3, 4)},
	},
	{
		name: "a read of what was never written", want: none,
		history: []Operation{write("a", 1, 2, "x"), readOf("b", 3, 4, "z")},
	},
	{name: "a lost update", want: none, history: []Operation{
		at(0, 1, rmw("a", 1, 10, "1", register.Add, "1")), at(0, 2, rmw("b", 1, 10, "1", register.Add, "1"))}},
	{name: "an unavailable write took effect", want: none, history: []Operation{
		with(register.Unavailable, write("a", 1, 2, "x")), readOf("b", 3, 4, "x")}},
	{
		name: "an empty value is not an absent one", want: none,
		history: []Operation{at(1, 0, write("a", 1, 2, "")), absent("a", 3, 4)},
	},
	{name: "x, y, x with one x", want: none, history: []Operation{
		at(1, 0, write("a", 1, 100, "x")), at(2, 0, write("b", 1, 100, "y")),
		at(1, 0, readOf("c", 2, 3, "x")), at(2, 0, readOf("c", 4, 5, "y")), at(1, 0, readOf("c", 6, 7, "x"))}},
	{name: "who got the second answer to an rmw knows of it", want: none, history: []Operation{
		withID(7, 1, unknown(rmw("a", 1, 0, "", register.Add, "1"))),
		withID(7, 1, at(0, 1, rmw("b", 4, 5, "1", register.Add, "1"))), absent("b", 6, 7)}},
	{name: "a retry got another answer", want: none, history: []Operation{
		withID(7, 1, rmw("a", 1, 2, "1", register.Add, "1")), withID(7, 1, rmw("a", 3, 4, "2", register.Add, "1"))}},
}

// sequentialOnly takes real time and messages between processes away: each process in a time of its own.
func sequentialOnly(history []Operation) []Operation {
	var slow []Operation
	for i, o := range history {
		if o.Request.Kind != register.Read && o.Known() {
			// A write that ends with the last operation is before nothing by real time; its own process goes on as
			// before.
			if o.Returned < last(history) {
				o.Returned = last(history)
				for j := range history {
					if j != i && history[j].Client == o.Client && history[j].Invoked > o.Invoked {
						return nil // that would take the process's order away
					}
				}
			}
		}
		slow = append(slow, o)
	}
	return slow
}

func last(history []Operation) time.Duration {
	var end time.Duration
	for _, o := range history {
		end = max(end, o.Invoked, o.Returned)
	}
	return end
}

func withoutCarstamps(history []Operation) []Operation {
	var plain []Operation
	for _, o := range history {
		o.Result.Carstamp = register.Carstamp{}
		plain = append(plain, o)
	}
	return plain
}

func TestCheckRSCTellsTheModelsApart(t *testing.T) {
	for _, test := range gaps {
		t.Run(test.name, func(t *testing.T) {
			options := RSCOptions{Messages: test.messages, Fences: test.fences}
			want := Violation
			if test.want <= regular {
				want = RegularSequential
			}
			for name, history := range map[string][]Operation{
				"as they are": test.history, "without carstamps": withoutCarstamps(test.history),
			} {
				v := checkRSC(t, history, options)
				if v.Outcome != want {
					t.Errorf("%s: got %s, want %s\n%s", name, v.Outcome, want, v.Explanation)
				}
				if v.OK() != (want == RegularSequential) || (v.Explanation == "") != v.OK() ||
					v.OK() != (len(v.Failing) == 0) {
					t.Errorf("%s: OK is %t, failing %v, explanation %q", name, v.OK(), v.Failing, v.Explanation)
				}
			}
			got := Check(t.Context(), test.history, Options{Timeout: time.Minute}).OK()
			if got != (test.want == linear) {
				t.Errorf("linearizable is %t", got)
			}
			// Without real time, messages and fences only what is not sequential is refused.
			if slow := sequentialOnly(test.history); len(slow) > 0 {
				if v := checkRSC(t, withoutCarstamps(slow), RSCOptions{}); v.OK() != (test.want <= sequential) {
					t.Errorf("sequential is %t, want %t\n%s", v.OK(), test.want <= sequential, v.Explanation)
				}
			} else if test.want == sequential {
				t.Logf("not compared with sequential consistency: a process goes on after a write")
			}
		})
	}
}

func TestCheckRSCExplainsTheShortestCycle(t *testing.T) {
	history := []Operation{
		on("x", at(1, 0, write("a", 1, 2, "1"))), on("x", at(2, 0, write("a", 3, 4, "2"))),
		on("y", at(1, 0, write("b", 1, 100, "1"))), on("y", at(1, 0, readOf("c", 5, 6, "1"))),
		on("y", absent("d", 11, 12)),
	}
	v := checkRSC(t, history, RSCOptions{Messages: []Message{message("c", 7, "e", 8), message("e", 9, "d", 10)}})
	const want = `each of these operations has to come before the next one, and the last before the first:
  [1ns, 100ns] b: write("y", "1") -> ok
    left the value that the next one found
  [5ns, 6ns] c: read("y") -> "1"
    ended before a message from c to e, sent at 7ns and received at 8ns, then one from e to d, sent at 9ns and received at 10ns, before the next one began
  [11ns, 12ns] d: read("y") -> absent
    found the value that the next one replaced`
	if v.Outcome != Violation || len(v.Cycle) != 3 || v.Explanation != want {
		t.Errorf("got %s, %d edges:\n%s\nwant\n%s", v.Outcome, len(v.Cycle), v.Explanation, want)
	}
	for _, test := range []struct{ name, want string }{
		{"a stale read after a write", "is a write that had ended before the next one, a read of its key, began"},
		{"writes of two keys out of real time", "is a write that had ended before the next one, a write too, began"},
		{"one's own write is missed", "found the value that the next one replaced"},
		{"new, then old in one process", "ended before the next one began, and c knew it"},
		{"a fence orders what comes after it",
			"came before a fence of b, from 4ns to 6ns, which had ended before the next one began"},
		{"writes of one key out of real time",
			"changed the key before the next one did, by their carstamps 1/0.0.0/0 and 2/0.0.0/0"},
	} {
		for _, gap := range gaps {
			if gap.name != test.name {
				continue
			}
			if v := checkRSC(t, gap.history,
				RSCOptions{Messages: gap.messages, Fences: gap.fences}); !strings.Contains(v.Explanation, test.want) {
				t.Errorf("%s: there is no %q in\n%s", test.name, test.want, v.Explanation)
			}
		}
	}
}

func TestCheckRSCRefusesWhatCantHaveBeen(t *testing.T) {
	if _, err := CheckRSC(t.Context(), nil,
		RSCOptions{Messages: []Message{message("a", 1, "b", 2), message("a", 5, "b", 5)}}); err == nil ||
		!strings.Contains(err.Error(), "Messages[1]") {
		t.Errorf("a message that was received when it was sent: %v", err)
	}
	if _, err := CheckRSC(t.Context(), nil, RSCOptions{Fences: []Fence{fence("a", 5, 4)}}); err == nil ||
		!strings.Contains(err.Error(), "Fences[0]") {
		t.Errorf("a fence that ended before it began: %v", err)
	}
}

// A wrong carstamp neither makes a bad history pass nor, as far as the search goes, a good one fail; beyond that
// nothing is claimed.
func TestCheckRSCDoesNotBelieveCarstamps(t *testing.T) {
	history := []Operation{
		at(2, 0, write("a", 1, 2, "x")), at(1, 0, write("a", 3, 4, "y")), at(1, 0, readOf("b", 5, 6, "y")),
	}
	if v := checkRSC(t, history, RSCOptions{}); v.Outcome != RegularSequential || !v.Searched {
		t.Errorf("wrong carstamps of good answers: %s, searched %t\n%s", v.Outcome, v.Searched, v.Explanation)
	}
	for i := range 400 { // so that neither the cycle alone nor its keys alone decide
		c := fmt.Sprint("other", i)
		history = append(history, on(c, write(c, 10, 11, "1")), on(c, readOf(c+"b", 10, 11, "1")))
	}
	v := checkRSC(t, history, RSCOptions{MaxStates: 5})
	if v.Outcome != Undecided || v.OK() || len(v.Cycle) != 2 || v.Explanation == "" {
		t.Errorf("wrong carstamps and a short search: %s, %d edges\n%s", v.Outcome, len(v.Cycle), v.Explanation)
	}
}

// What leaves and finds say holds for the functions themselves.
func TestLeavesAndFindsAgreeWithTheFunctions(t *testing.T) {
	registry, rng := register.NewRegistry(), rand.New(rand.NewPCG(1, 9))
	values := []register.Value{nil, {}, []byte("0"), []byte("1"), []byte("17"), []byte("1.5"), []byte("word")}
	word := func() string { return string(values[1+rng.IntN(len(values)-1)]) }
	args := map[string]int{}
	for _, name := range registry.Names() {
		for count := range 4 {
			call := register.Call{Function: name, MaxValueBytes: 100, Args: make([][]byte, count)}
			if registry.Check(call) == nil {
				args[name] = count
			}
		}
		if _, ok := args[name]; !ok {
			t.Fatalf("no count of arguments fits %s", name)
		}
	}
	told := map[string]bool{}
	for range 20_000 {
		name := registry.Names()[rng.IntN(len(registry.Names()))]
		var list []string
		for range args[name] {
			list = append(list, word())
		}
		if name == register.Multi {
			calls := []register.Call{{Function: register.Append, Args: [][]byte{[]byte(list[1])}}}
			list = []string{"", string(register.EncodeCalls(calls))}
		}
		base := values[rng.IntN(len(values))]
		o := rscOp{step: &step{Operation: rmw("a", 1, 2, "", name, list...), known: true}}
		out, err := registry.Apply(base, o.Request.Call)
		if err != nil {
			t.Fatal(err)
		}
		next := base
		if o.Result.Value = out.Reply; out.Refused != "" {
			o.Result = register.Result{Status: register.Failed}
		} else if out.Changed {
			next = out.Next
		}
		if found, ok := finds(&o); ok && !found.Equal(base) {
			t.Fatalf("%s %q of %q found %q by its answer %q", name, list, base, found, out.Reply)
		}
		for _, known := range []bool{true, false} {
			o.known = known
			value, kind := leaves(&o)
			told[name] = told[name] || kind == leavesValue
			if kind == leavesNothing && !next.Equal(base) ||
				kind == leavesValue && !next.Equal(value) && (known || !next.Equal(base)) {
				t.Fatalf("%s %q of %q left %q, and not %q; its outcome is known: %t", name, list,
					base, next, value, known)
			}
		}
	}
	if len(told) != len(args) || !told[register.GetAndSet] {
		t.Errorf("functions seen: %v", told)
	}
}
