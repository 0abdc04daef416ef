package history

import (
	"bytes"
	"reflect"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// mayBeStale is a read that may be.
func mayBeStale(o Operation) Operation {
	o.Request.Stale = true
	return o
}

// Reads that may be stale by 10.
func TestCheckStaleTellsHistoriesApart(t *testing.T) {
	lost := unknown(write("b", 21, 0, "lost"))
	for _, test := range []struct {
		name    string
		want    Outcome // of the reads that may be stale; without them everything is linearizable
		history []Operation
	}{
		{"no read is stale", Linearizable, []Operation{write("a", 1, 2, "x"), readOf("b", 3, 4, "x")}},
		{"the newest value", Linearizable, []Operation{write("a", 1, 2, "x"), mayBeStale(readOf("b", 30, 31, "x"))}},
		{"the value before, within the bound", Linearizable, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"), mayBeStale(readOf("b", 30, 31, "x"))}},
		{"the value before, at the bound", Linearizable, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"), mayBeStale(readOf("b", 32, 33, "x"))}},
		{"the value before, beyond the bound", Violation, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"), mayBeStale(readOf("b", 33, 34, "x"))}},
		{"the value before that, within the bound", Linearizable, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"), write("a", 23, 24, "z"),
			mayBeStale(readOf("b", 30, 31, "x"))}},
		{"a long read counts from its beginning", Linearizable, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"), mayBeStale(readOf("b", 30, 60, "x"))}},
		{"absent, within the bound", Linearizable, []Operation{write("a", 1, 2, "x"), mayBeStale(absent("b", 8, 9))}},
		{"absent, beyond it", Violation, []Operation{write("a", 1, 2, "x"), mayBeStale(absent("b", 20, 21))}},
		{"what no one wrote", Violation, []Operation{write("a", 1, 2, "x"), mayBeStale(readOf("b", 5, 6, "y"))}},
		{"what is written later", Violation, []Operation{mayBeStale(readOf("b", 1, 2, "x")), write("a", 3, 4, "x")}},
		{"back and forth", Linearizable, []Operation{
			write("a", 1, 2, "x"), write("a", 21, 22, "y"),
			mayBeStale(readOf("b", 24, 25, "y")), mayBeStale(readOf("b", 26, 27, "x")),
			mayBeStale(readOf("b", 28, 29, "y"))}},
		{"what is lost later", Violation, []Operation{
			write("a", 1, 2, "x"), lost, mayBeStale(readOf("c", 23, 24, "lost")), readOf("d", 40, 41, "x")}},
		{"what is lost later, of which no one was told", Linearizable, []Operation{
			write("a", 1, 2, "x"), lost, mayBeStale(readOf("c", 23, 24, "x")), readOf("d", 40, 41, "x")}},
		{"what is there later", Linearizable, []Operation{
			write("a", 1, 2, "x"), lost, mayBeStale(readOf("c", 23, 24, "lost")), readOf("d", 40, 41, "lost")}},
		{"two lost writes cannot both have been there", Violation, []Operation{
			rmw("a", 1, 2, "1", register.Append, "x"),
			unknown(rmw("b", 21, 0, "", register.Append, "y")), unknown(rmw("c", 21, 0, "", register.Append, "z")),
			mayBeStale(readOf("d", 22, 23, "xy")), mayBeStale(readOf("e", 22, 23, "xz"))}},
		{"a part of a log", Linearizable, []Operation{
			rmw("a", 1, 2, "1", register.Append, "x"), rmw("a", 21, 22, "2", register.Append, "y"),
			mayBeStale(readOf("d", 24, 25, "x")), readOf("e", 24, 25, "xy")}},
		{"an unknown read says nothing", Linearizable, []Operation{unknown(mayBeStale(readOf("b", 1, 2, "y")))}},
	} {
		t.Run(test.name, func(t *testing.T) {
			if v := Check(t.Context(), test.history, Options{Timeout: time.Minute}); !v.OK() {
				t.Errorf("without them the history is %s: %s", v.Outcome, v.Explanation)
			}
			v := CheckStale(t.Context(), test.history, 10, Options{Timeout: time.Minute})
			if v.Outcome != test.want || (v.Explanation == "") != v.OK() {
				t.Errorf("got %s, want %s: %q", v.Outcome, test.want, v.Explanation)
			}
		})
	}
}

func TestReadsThatMayBeStaleAreKept(t *testing.T) {
	want := []Operation{mayBeStale(readOf("a", 1, 2, "x")), readOf("a", 3, 4, "x")}
	var file bytes.Buffer
	if err := WriteRecord(&file, Record{Operations: want}); err != nil {
		t.Fatal(err)
	}
	got, err := ReadRecord(t.Context(), &file, false)
	if err != nil || !reflect.DeepEqual(got.Operations, want) {
		t.Errorf("got %+v, want %+v: %v", got.Operations, want, err)
	}
	if !AnyStale(want) || AnyStale(want[1:]) {
		t.Error("reads that may be stale are not told apart")
	}
}
