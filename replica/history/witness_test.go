package history

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Writes that were answered before their places were known are put where reads and rmws found them, without a search;
// those that no one found fit anywhere in their time.
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
			write("c0"+name, from, from+90, "0"+name), // found by no one
			at(stamp+1, 1, rmw("c7", from+10, from+80, "0", register.CompareAndSwap, "none", "y")),
			at(stamp+2, 1, rmw("c4", from+10, from+80, "2"+name, register.GetAndSet, "x")),
			at(stamp+2, 1, readOf("c5", from+20, from+85, "x")),
			at(stamp+3, 0, readOf("c6", from+91, from+95, "1"+name)),
		)
	}
	v := Check(t.Context(), operations, Options{Timeout: time.Minute})
	if v.Outcome != Linearizable || v.Searched != 0 {
		t.Errorf("%v, %d keys were searched", v.Outcome, v.Searched)
	}
	operations[len(operations)-1].Result.Value = register.Value("1298") // overwritten before it began
	if v := Check(t.Context(), operations[len(operations)-60:], Options{Timeout: time.Minute}); v.Outcome != Violation {
		t.Errorf("%v: a value that was overwritten is read", v.Outcome)
	}
}

// What a read shows of many appends of unknown outcome is their order, so it is not searched for.
func TestAppendsThatAReadShowsArePlaced(t *testing.T) {
	const many = 40
	var operations []Operation
	shown := ""
	for i := range many {
		token := fmt.Sprintf("<%d>", many-i) // the last that was asked for comes first
		operations = append(operations, unknown(rmw(fmt.Sprint("c", i), 10*(many-i), 1000, "", register.Append, token)))
		shown += token
	}
	read := readOf("r", 1000, 1010, shown)
	read.Result.Carstamp = register.Carstamp{RMWs: many}
	operations = append(operations, read)
	if v := Check(t.Context(), operations, Options{Timeout: time.Minute}); v.Outcome != Linearizable ||
		v.Searched != 0 {
		t.Errorf("%v, %d keys were searched", v.Outcome, v.Searched)
	}
	last := rmw("last", 1020, 1030, fmt.Sprint(len(shown)+len("<41>")), register.Append, "<41>")
	last.Result.Carstamp = register.Carstamp{RMWs: many + 1}
	read = readOf("r", 1040, 1050, shown+"<41>")
	read.Result.Carstamp = last.Result.Carstamp
	before := append(slices.Clone(operations[:many]), last, read)
	if v := Check(t.Context(), before, Options{Timeout: time.Minute}); v.Outcome != Linearizable || v.Searched != 0 {
		t.Errorf("an append of known outcome before the read: %v, %d keys were searched", v.Outcome, v.Searched)
	}
	few := append(slices.Clone(operations[:4]), readOf("r", 1000, 1010, "<40><39><38><37>"))
	few[3].Invoked = 1020 // after the read
	if v := Check(t.Context(), few, Options{Timeout: time.Minute}); v.Outcome != Violation {
		t.Errorf("%v: an append is read before it was asked for", v.Outcome)
	}
}

// So is what a read shows of many members that were added with unknown outcome: some order of them.
func TestMembersThatAReadShowsArePlaced(t *testing.T) {
	const many = 40
	var operations []Operation
	shown := register.Value(nil)
	for i := range many {
		add := rmw(fmt.Sprint("c", i), 10*i, 1000, "", register.AddMember, fmt.Sprint(many-i))
		after, err := register.NewRegistry().Apply(shown, add.Request.Call)
		if err != nil {
			t.Fatal(err)
		}
		shown = after.Next
		operations = append(operations, unknown(add), unknown(rmw(fmt.Sprint("d", i), 10*i, 1000, "",
			register.AddMember, fmt.Sprint("lost", i))))
		if i%10 == 9 {
			read := readOf(fmt.Sprint("r", i), 10*i+5, 1000, string(shown))
			read.Result.Carstamp = register.Carstamp{Timestamp: uint64(i)}
			operations = append(operations, read)
		}
	}
	if v := Check(t.Context(), operations, Options{Timeout: time.Minute}); v.Outcome != Linearizable ||
		v.Searched != 0 {
		t.Errorf("%v, %d keys were searched", v.Outcome, v.Searched)
	}
}

// A write that no one found fits where one of unknown outcome was, as far as the first answers tell. Of many unknown
// ones, it takes the replay some time to come back to that.
func TestReplayComesBackFromAWrongWrite(t *testing.T) {
	var operations []Operation
	for i := range 3 {
		operations = append(operations, unknown(write(fmt.Sprint("w", i), i, 100, fmt.Sprint(7000+i))),
			unknown(rmw(fmt.Sprint("g", i), i, 100, "", register.GetAndSet, fmt.Sprint(8000+i))))
	}
	operations = append(operations, remove("k", 100, 200), write("l", 100, 200, "20000"), write("m", 100, 200, "24000"))
	appended := rmw("a", 300, 400, "9", register.Append, "<33>")
	read := readOf("r", 500, 600, "34000<33>")
	for _, o := range []*Operation{&appended, &read} {
		o.Result.Carstamp = register.Carstamp{Timestamp: 5, Writer: 1, RMWs: 1}
	}
	operations = append(operations, unknown(write("u", 50, 100, "34000")), appended, read)
	v := Check(t.Context(), operations, Options{Timeout: time.Minute})
	if v.Outcome != Linearizable || v.Searched != 0 {
		t.Errorf("%v, %d keys were searched", v.Outcome, v.Searched)
	}
}

// Where carstamps count, they tell how many of the writes without one come between two operations, also of those of
// unknown outcome that no one saw. The same carstamps with gaps between them prove less.
func TestCarstampsThatCountTellHowManyWritesThereWere(t *testing.T) {
	proves := func(history []Operation) bool {
		merged, _, _ := mergeRetries(partition(history)["k0"])
		steps := prepare(t.Context(), register.NewRegistry(), merged)
		return proved(t.Context(), register.NewRegistry(), steps, len(merged)-len(steps))
	}
	both, counted, gaps := 0, 0, 0
	for seed := range uint64(200) {
		history := atomic(rand.New(rand.NewPCG(seed, 5)),
			shape{operations: 60, clients: 6, keys: 1, unknown: 0.3, counted: true})
		byCount := proves(history)
		for i := range history {
			history[i].Result.Carstamp.Timestamp *= 100
		}
		switch byGaps := proves(history); {
		case byCount && byGaps:
			both++
		case byCount:
			counted++
		case byGaps:
			gaps++
		}
	}
	if both < 100 || counted < 15 || gaps > 0 {
		t.Errorf("proved with both: %d, with counts only: %d, with gaps only: %d", both, counted, gaps)
	}
}

// Histories of EPaxos with seven members that a search does not get through. In the first, of schedule 754, a read
// after rmws that changed nothing tells where the write of its value is, which could also be one of many places
// earlier. In the second, of schedule 1013489, a dozen writes whose place no one tells are put in one order after the
// other, and lead to the same again.
func TestHardHistoriesAreProved(t *testing.T) {
	for name, count := range map[string]int{"refused_rmws": 88, "unknown_writes": 70} {
		t.Run(name, func(t *testing.T) {
			file, err := os.Open(filepath.Join("testdata", name+".jsonl"))
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			record, err := ReadRecord(t.Context(), file, false)
			if err != nil {
				t.Fatal(err)
			}
			operations := record.Operations
			v := Check(t.Context(), operations, Options{Timeout: time.Minute})
			if len(operations) != count || v.Outcome != Linearizable || v.Searched != 0 {
				t.Errorf("%d operations: %v, %d keys were searched", len(operations), v.Outcome, v.Searched)
			}
		})
	}
}

// What carstamps count is no reason to believe an answer: of two writes, one after the other, the first is not read
// after the second.
func TestCountsExcuseNoWrongValue(t *testing.T) {
	for _, timestamp := range []uint64{1, 2, 3} {
		operations := []Operation{
			unknown(write("u", 0, 5, "7000")), // a third one, if there was
			write("a", 0, 10, "5000"), write("b", 20, 30, "6000"),
			at(2, 0, readOf("r", 40, 50, "6000")), at(timestamp, 0, readOf("r", 60, 70, "7000")),
		}
		if v := Check(t.Context(), operations, Options{Timeout: time.Minute}); v.Outcome != Linearizable {
			t.Errorf("timestamp %d: %v: the write of unknown outcome may come last", timestamp, v.Outcome)
		}
		operations[4].Result.Value = register.Value("5000")
		if v := Check(t.Context(), operations, Options{Timeout: time.Minute, Brief: true}); v.Outcome != Violation {
			t.Errorf("timestamp %d: %v: a value that was overwritten is read", timestamp, v.Outcome)
		}
	}
}

// An rmw that is applied at least once is answered with the carstamp of the last time: reads show it before.
func TestAnRMWComesBeforeItsCarstamp(t *testing.T) {
	member := func(client string, from, to int, name string, at uint64) Operation {
		o := rmw(client, from, to, "", register.AddMember, name)
		o.Result.Value, o.Result.Carstamp = nil, register.Carstamp{Timestamp: at}
		return o
	}
	read := func(from int, value string, at uint64) Operation {
		o := readOf("r", from, from+5, value)
		o.Result.Carstamp = register.Carstamp{Timestamp: at}
		return o
	}
	operations := []Operation{member("slow", 0, 1000, "6", 8), member("a", 10, 20, "32", 3), read(30, "+32\n+6\n", 3)}
	for i := range 20 {
		operations = append(operations,
			unknown(rmw(fmt.Sprint("u", i), 5, 1000, "", register.AddMember, fmt.Sprint(100+i))))
	}
	operations = append(operations, member("b", 900, 910, "7", 9), read(920, "+32\n+6\n+7\n", 9))
	if v := Check(t.Context(), operations, Options{Timeout: time.Minute}); v.Outcome != Linearizable ||
		v.Searched != 0 {
		t.Errorf("%v, %d keys were searched: %s", v.Outcome, v.Searched, v.Explanation)
	}
	operations[0].Invoked = 40 // after the read
	if v := Check(t.Context(), operations[:3], Options{Timeout: time.Minute}); v.Outcome != Violation {
		t.Errorf("%v: a member is read before it was asked for", v.Outcome)
	}
}
