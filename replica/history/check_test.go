package history

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// write, read, and rmw make an operation on key k; from and to are its times, status OK unless changed.
func write(client string, from, to int, value string) Operation {
	return operation(client, from, to, register.Operation{Kind: register.Write, Value: register.Value(value)},
		register.Result{Status: register.OK})
}

func remove(client string, from, to int) Operation {
	return operation(client, from, to, register.Operation{Kind: register.Write}, register.Result{Status: register.OK})
}

func readOf(client string, from, to int, value string) Operation {
	return operation(client, from, to, register.Operation{Kind: register.Read},
		register.Result{Status: register.OK, Value: register.Value(value)})
}

func absent(client string, from, to int) Operation {
	return operation(client, from, to, register.Operation{Kind: register.Read}, register.Result{Status: register.OK})
}

func rmw(client string, from, to int, reply string, function string, args ...string) Operation {
	call := register.Call{Function: function, MaxValueBytes: 1 << 20}
	for _, arg := range args {
		call.Args = append(call.Args, []byte(arg))
	}
	return operation(client, from, to, register.Operation{Kind: register.RMW, Call: call},
		register.Result{Status: register.OK, Value: register.Value(reply)})
}

func operation(client string, from, to int, request register.Operation, result register.Result) Operation {
	request.Key = "k"
	return Operation{
		Client: client, Request: request, Invoked: time.Duration(from), Returned: time.Duration(to), Result: result,
	}
}

func with(status register.Status, o Operation) Operation {
	o.Result = register.Result{Status: status}
	return o
}

func unknown(o Operation) Operation { return with(register.Unknown, o) }

func withID(session, number uint64, o Operation) Operation {
	o.Request.ID = register.ID{Session: session, Number: number}
	return o
}

func absentReply(o Operation) Operation {
	o.Result.Value = nil
	return o
}

func TestCheckTellsHistoriesApart(t *testing.T) {
	tests := []struct {
		name    string
		want    Outcome
		history []Operation
	}{
		{"nothing happened", Linearizable, nil},
		{"reads see the last write", Linearizable, []Operation{
			write("a", 1, 2, "x"), readOf("b", 3, 4, "x"), write("a", 5, 6, "y"), readOf("b", 7, 8, "y")}},
		{"a stale read", Violation, []Operation{
			write("a", 1, 2, "x"), write("a", 3, 4, "y"), readOf("b", 5, 6, "x")}},
		{"a read of what was never written", Violation, []Operation{write("a", 1, 2, "x"), readOf("b", 3, 4, "z")}},
		{"a read of the future", Violation, []Operation{readOf("b", 1, 2, "x"), write("a", 3, 4, "x")}},
		{"an absent value after a write", Violation, []Operation{write("a", 1, 2, "x"), absent("b", 3, 4)}},
		{"an empty value is not an absent one", Violation, []Operation{write("a", 1, 2, ""), absent("b", 3, 4)}},
		{"an empty value is read as such", Linearizable, []Operation{write("a", 1, 2, ""), readOf("b", 3, 4, "")}},
		{"concurrent writes come in either order", Linearizable, []Operation{
			write("a", 1, 10, "x"), write("b", 1, 10, "y"), readOf("c", 11, 12, "x")}},
		{"two readers disagree on the order of concurrent writes", Violation, []Operation{
			write("a", 1, 10, "x"), write("b", 1, 10, "y"),
			readOf("c", 11, 12, "x"), readOf("c", 13, 14, "y")}},
		{"new, then old during one write", Violation, []Operation{
			write("a", 1, 2, "x"), write("b", 3, 20, "y"), readOf("c", 4, 5, "y"), readOf("d", 6, 7, "x")}},
		{"keys are apart", Linearizable, []Operation{
			write("a", 1, 2, "x"), func() Operation { o := absent("b", 3, 4); o.Request.Key = "other"; return o }()}},

		{"an unknown write took effect once", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(write("b", 3, 0, "y")), readOf("c", 4, 5, "x"), readOf("c", 6, 7, "y")}},
		{"an unknown write never took effect", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(write("b", 3, 0, "y")), readOf("c", 4, 5, "x"), readOf("c", 60, 70, "x")}},
		{"an unknown write took effect long after later writes", Linearizable, []Operation{
			unknown(write("b", 1, 0, "y")), write("a", 3, 4, "x"), readOf("c", 5, 6, "x"), readOf("c", 7, 8, "y")}},
		{"x, y, x by an unknown write that took effect twice", Violation, []Operation{
			unknown(write("b", 1, 0, "x")), readOf("c", 2, 3, "x"), write("a", 4, 5, "y"), readOf("c", 6, 7, "y"),
			readOf("c", 8, 9, "x")}},
		{"x, y, x by two writes of x", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(write("b", 3, 0, "x")), write("a", 4, 5, "y"), readOf("c", 6, 7, "y"),
			readOf("c", 8, 9, "x")}},
		{"an unknown write took effect before it was invoked", Violation, []Operation{
			readOf("c", 1, 2, "y"), unknown(write("b", 3, 0, "y"))}},
		{"an unavailable write took effect", Violation, []Operation{
			with(register.Unavailable, write("a", 1, 2, "x")), readOf("b", 3, 4, "x")}},
		{"an unavailable write took no effect", Linearizable, []Operation{
			with(register.Unavailable, write("a", 1, 2, "x")), absent("b", 3, 4)}},
		{"an unknown read says nothing", Linearizable, []Operation{unknown(readOf("a", 1, 2, "z"))}},
		{"an unknown delete took effect", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(remove("b", 3, 0)), readOf("c", 4, 5, "x"), absent("c", 6, 7)}},

		{"adds add up", Linearizable, []Operation{
			rmw("a", 1, 10, "2", register.Add, "1"), rmw("b", 1, 10, "1", register.Add, "1"),
			readOf("c", 11, 12, "2")}},
		{"a lost update", Violation, []Operation{
			rmw("a", 1, 10, "1", register.Add, "1"), rmw("b", 1, 10, "1", register.Add, "1")}},
		{"an acknowledged add is lost", Violation, []Operation{
			rmw("a", 1, 2, "1", register.Add, "1"), rmw("a", 3, 4, "2", register.Add, "1"), readOf("c", 5, 6, "1")}},
		{"an add applied twice", Violation,
			[]Operation{rmw("a", 1, 2, "1", register.Add, "1"), readOf("c", 3, 4, "2")}},
		{"an unknown add applied once", Linearizable, []Operation{
			rmw("a", 1, 2, "1", register.Add, "1"), unknown(rmw("b", 3, 0, "", register.Add, "1")),
			rmw("a", 4, 5, "2", register.Add, "1"), rmw("a", 6, 7, "4", register.Add, "1")}},
		{"an unknown add applied twice", Violation, []Operation{
			rmw("a", 1, 2, "1", register.Add, "1"), unknown(rmw("b", 3, 0, "", register.Add, "1")),
			rmw("a", 6, 7, "4", register.Add, "1")}},
		{"two unknown adds applied once each, back to back", Linearizable, []Operation{
			unknown(rmw("a", 1, 0, "", register.Add, "1")), unknown(rmw("b", 1, 0, "", register.Add, "1")),
			readOf("c", 2, 3, "2")}},
		{"a retry with the same id applied once", Linearizable, []Operation{
			withID(7, 1, unknown(rmw("a", 1, 0, "", register.Add, "1"))),
			readOf("b", 2, 3, "1"), withID(7, 1, rmw("a", 4, 5, "1", register.Add, "1")), readOf("b", 6, 7, "1")}},
		{"a retry with the same id applied twice", Violation, []Operation{
			withID(7, 1, unknown(rmw("a", 1, 0, "", register.Add, "1"))),
			readOf("b", 2, 3, "1"), withID(7, 1, rmw("a", 4, 5, "2", register.Add, "1")), readOf("b", 6, 7, "2")}},
		{"a retry with the same id got another answer", Violation, []Operation{
			withID(7, 1, rmw("a", 1, 2, "1", register.Add, "1")),
			withID(7, 1, rmw("a", 3, 4, "2", register.Add, "1"))}},
		{"a retry with the same id got the stored answer", Linearizable, []Operation{
			withID(7, 1, rmw("a", 1, 2, "1", register.Add, "1")), rmw("b", 3, 4, "2", register.Add, "1"),
			withID(7, 1, rmw("a", 5, 6, "1", register.Add, "1"))}},

		{"one of two swaps succeeds", Linearizable, []Operation{
			write("a", 1, 2, "x"), rmw("a", 3, 9, "1", register.CompareAndSwap, "x", "y"),
			rmw("b", 3, 9, "0", register.CompareAndSwap, "x", "z"), readOf("c", 10, 11, "y")}},
		{"both swaps succeed", Violation, []Operation{
			write("a", 1, 2, "x"), rmw("a", 3, 9, "1", register.CompareAndSwap, "x", "y"),
			rmw("b", 3, 9, "1", register.CompareAndSwap, "x", "z")}},
		{"a swap that should have succeeded", Violation, []Operation{
			write("a", 1, 2, "x"), rmw("a", 3, 4, "0", register.CompareAndSwap, "x", "y")}},
		{"an unknown swap explains a failed one", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(rmw("b", 3, 0, "", register.CompareAndSwap, "x", "y")),
			rmw("a", 4, 5, "0", register.CompareAndSwap, "x", "z")}},
		{"an unknown write explains a failed swap", Linearizable, []Operation{
			write("a", 1, 2, "x"), unknown(write("b", 3, 0, "y")),
			rmw("a", 4, 5, "0", register.CompareAndSwap, "x", "z")}},

		{"an increment of a word is refused", Linearizable, []Operation{
			write("a", 1, 2, "word"), with(register.Failed, rmw("a", 3, 4, "", register.Add, "1"))}},
		{"an increment of a number is refused", Violation, []Operation{
			write("a", 1, 2, "17"), with(register.Failed, rmw("a", 3, 4, "", register.Add, "1"))}},
		{"a refused increment shows an unknown write", Linearizable, []Operation{
			write("a", 1, 2, "17"), unknown(write("b", 3, 0, "word")),
			with(register.Failed, rmw("a", 4, 5, "", register.Add, "1"))}},
		{"a refused increment changed the value", Violation, []Operation{
			write("a", 1, 2, "word"), with(register.Failed, rmw("a", 3, 4, "", register.Add, "1")),
			readOf("b", 5, 6, "1")}},

		{"a chain of swaps", Linearizable, []Operation{
			absentReply(rmw("a", 1, 9, "", register.GetAndSet, "1")), rmw("b", 1, 9, "3", register.GetAndSet, "2"),
			rmw("c", 1, 9, "1", register.GetAndSet, "3"), readOf("a", 10, 11, "2")}},
		{"a chain of swaps that forks", Violation, []Operation{
			absentReply(rmw("a", 1, 9, "", register.GetAndSet, "1")), rmw("b", 1, 9, "1", register.GetAndSet, "2"),
			rmw("c", 1, 9, "1", register.GetAndSet, "3")}},
		{"a delete finds a value once", Linearizable, []Operation{
			write("a", 1, 2, "x"), rmw("a", 3, 9, "1", register.Delete), rmw("b", 3, 9, "0", register.Delete),
			absent("c", 10, 11)}},
		{"a delete finds a value twice", Violation, []Operation{
			write("a", 1, 2, "x"), rmw("a", 3, 9, "1", register.Delete), rmw("b", 3, 9, "1", register.Delete)}},
		{"a deleted value comes back", Violation, []Operation{
			write("a", 1, 2, "x"), remove("a", 3, 4), absent("b", 5, 6), readOf("b", 7, 8, "x")}},
		{"an append is lost", Violation, []Operation{
			rmw("a", 1, 2, "2", register.Append, "ab"), rmw("b", 3, 4, "4", register.Append, "cd"),
			readOf("c", 5, 6, "cd")}},
		{"appends in order", Linearizable, []Operation{
			rmw("a", 1, 2, "2", register.Append, "ab"), rmw("b", 3, 4, "4", register.Append, "cd"),
			readOf("c", 5, 6, "abcd")}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			v := Check(t.Context(), test.history, Options{Timeout: time.Minute})
			if v.Outcome != test.want {
				t.Fatalf("got %s, want %s\n%s", v.Outcome, test.want, v.Explanation)
			}
			if v.OK() != (test.want == Linearizable) {
				t.Fatalf("OK() is %t for %s", v.OK(), v.Outcome)
			}
			if (v.Explanation == "") != v.OK() {
				t.Fatalf("the explanation of %s is %q", v.Outcome, v.Explanation)
			}
			if test.want == Violation {
				// What is shown must itself be a violation, else it explains nothing.
				if again := Check(t.Context(), v.Failing, Options{Timeout: time.Minute}); again.Outcome != Violation {
					t.Fatalf("the failing part alone is %s:\n%s", again.Outcome, v.Explanation)
				}
			}
		})
	}
}

func TestViolationIsExplainedBriefly(t *testing.T) {
	var history []Operation
	for i := range 50 {
		value := string(rune('A' + i))
		history = append(history, write("a", 10*i, 10*i+1, value), readOf("b", 10*i+2, 10*i+3, value))
	}
	history = append(history, readOf("c", 600, 601, "A"))
	v := Check(t.Context(), history, Options{})
	if v.Outcome != Violation || v.Key != "k" {
		t.Fatalf("got %s on key %q", v.Outcome, v.Key)
	}
	if len(v.Failing) > 4 {
		t.Errorf("the failing part has %d operations, more than what pins the two writes and the stale read:\n%s",
			len(v.Failing), v.Explanation)
	}
	if !strings.Contains(v.Explanation, `read("k") -> "A"`) {
		t.Errorf("the explanation does not show the stale read:\n%s", v.Explanation)
	}
	var picture strings.Builder
	if err := v.Picture(t.Context(), &picture); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(picture.String(), "<html") || !strings.Contains(picture.String(), `read(\"k\")`) {
		t.Errorf("the picture is not a page with the operations")
	}
	if err := Check(t.Context(), nil, Options{}).Picture(t.Context(), &picture); err == nil {
		t.Error("a linearizable history has a picture")
	}
}

func TestTimeoutIsNoSuccess(t *testing.T) {
	v := Check(t.Context(), hard(), Options{Timeout: 20 * time.Millisecond})
	if v.Outcome != Timeout || v.OK() || v.Key != "k" || v.Explanation == "" {
		t.Fatalf("got %+v", v)
	}
}

func TestViolationOutweighsTimeout(t *testing.T) {
	history := []Operation{write("a", 1, 2, "x"), absent("a", 3, 4)}
	for i := range 24 {
		o := unknown(rmw(string(rune('a'+i)), 5, 0, "", register.Append, strings.Repeat(string(rune('a'+i)), 1+i%3)))
		o.Request.Key = "first"
		history = append(history, o)
	}
	last := readOf("z", 6, 7, strings.Repeat("-", 40))
	last.Request.Key = "first"
	v := Check(t.Context(), append(history, last), Options{Timeout: time.Second, Brief: true})
	if v.Outcome != Violation || v.Key != "k" {
		t.Fatalf("got %s on key %q", v.Outcome, v.Key)
	}
}
