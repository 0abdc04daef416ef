package history

import (
	"fmt"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Writes that were answered before their places were known are put where reads and rmws found them, without a search; those
// that nobody found fit anywhere in their time.
func TestWritesWithoutCarstampsArePlaced(t *testing.T) {
	at := func(timestamp, rmws uint64, o Operation) Operation {
		o.Result.Carstamp = register.Carstamp{Timestamp: timestamp, Writer: 1, RMWs: rmws}
		return o
	}
	var operations []Operation
	for i := range 300 {
		from, stamp := 100*i, uint64(5*i)
		name := fmt.Sprint(i)
		operations = append(operations,
			write("c1"+name, from, from+90, "1"+name), // found by a read, last
			write("c2"+name, from, from+90, "2"+name), // found by an rmw
			write("c3"+name, from, from+90, "3"+name), // found by one that could have found any of them, first
			write("c0"+name, from, from+90, "0"+name), // found by nobody
			at(stamp+1, 1, rmw("c7", from+10, from+80, "0", register.CompareAndSwap, "none", "y")),
			at(stamp+2, 1, rmw("c4", from+10, from+80, "2"+name, register.GetAndSet, "x")),
			at(stamp+2, 1, readOf("c5", from+20, from+85, "x")),
			at(stamp+3, 0, readOf("c6", from+91, from+95, "1"+name)),
		)
	}
	v := Check(operations, Options{Timeout: time.Minute})
	if v.Outcome != Linearizable || v.Searched != 0 {
		t.Errorf("%v, %d keys were searched", v.Outcome, v.Searched)
	}
	operations[len(operations)-1].Result.Value = register.Value("1298") // overwritten before it began
	if v := Check(operations[len(operations)-60:], Options{Timeout: time.Minute}); v.Outcome != Violation {
		t.Errorf("%v: a value that was overwritten is read", v.Outcome)
	}
}
