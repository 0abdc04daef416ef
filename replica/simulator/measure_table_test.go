package simulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// ofTheTable is a short experiment of a protocol of the table, with several shards, and with all kinds of operations
// that it serves. The leader, or the masters, are at the first site.
func ofTheTable(t *testing.T, row capability.Protocol, members int, conflict float64) Experiment {
	t.Helper()
	entry, err := catalog.Find(row.Name)
	if err != nil {
		t.Fatal(err)
	}
	sites := []string{"CA", "VA", "IR", "OR", "JP"}[:members]
	x := experiment(t, nil, "40:40:20", sites...)
	x.Clients, x.Duration, x.Shards, x.Regular, x.Workload.Conflict = 4, 6*time.Second, 4, row.Regular(), conflict
	if entry.Partitioned != nil {
		// More partitions would move to their homes meanwhile.
		x.Partitions, x.Shards = &Partitions{Protocol: entry.Partitioned, Homes: sites[:1]}, 1
	} else {
		x.Start = Member(entry.Factory)
	}
	mix := &x.Workload.Mix
	if row.CheckOperation(register.RMW) != nil {
		mix.Write, mix.RMW = mix.Write+mix.RMW, 0
	}
	if row.CheckOperation(register.Write) != nil {
		mix.Write, mix.RMW, x.Workload.RMWs = 0, mix.Write+mix.RMW, workload.RMWIdempotent
	}
	return x
}

// What the table of protocols says of round trips is what happens: without conflicts, after a warm-up, each kind of
// operation takes the best. In those that have a leader it is so at its site, and nowhere less. With conflicts none
// takes more than the worst. Final reads are left out of the first: they are of keys that others have written, of which
// some may have missed that (see the notes of the table).
func TestRoundTripsAreThoseOfTheTable(t *testing.T) {
	t.Parallel()
	for _, e := range catalog.All() {
		row := e.Row
		for _, members := range []int{3, 5} {
			t.Run(fmt.Sprint(row.Name, "/", members), func(t *testing.T) {
				x := ofTheTable(t, row, members, 0)
				// A client's next update of its key comes before the last one is synced: that is a conflict.
				if x.Partitions != nil {
					x.Workload.Keys, x.Workload.KeyCount = workload.Uniform, 1_000_000
				}
				taken := map[register.Kind]map[int]int{}
				for _, o := range measure(t, x).History {
					best, _ := row.RoundTrips(o.Request.Kind, members)
					switch got := o.Result.RoundTrips; {
					case o.Result.Status != register.OK || o.Invoked < x.Duration/12 || o.Invoked >= x.Duration:
					case got < best:
						t.Errorf("a %s took %d round trips, the table says %d at best", o.Request.Kind, got, best)
					case e.Led && o.Site != x.Network.Sites[0]:
					default:
						if taken[o.Request.Kind] == nil {
							taken[o.Request.Kind] = map[int]int{}
						}
						taken[o.Request.Kind][got]++
					}
				}
				for _, op := range row.Operations {
					all, others := 0, 0
					for trips, n := range taken[op.Kind] {
						if all += n; trips != op.Best.RoundTrips {
							others += n
						}
					}
					switch served := op.Refusal == "" && op.Kind != register.Fence; { // clients fence when they tell others something
					case served != (all > 0):
						t.Errorf("%d operations of kind %s", all, op.Kind)
					case others > 0:
						t.Errorf("%ss took %v round trips (count of each), the table says %d", op.Kind, taken[op.Kind], op.Best.RoundTrips)
					}
				}
				noMoreTrips(t, row.Name, measure(t, ofTheTable(t, row, members, 0.25)), members)
			})
		}
	}
}

// A session's write that comes after a read of another key waits until a quorum holds that, in its own shard or by a
// fence in another one.
func TestSessionsPayForOtherShards(t *testing.T) {
	t.Parallel()
	row, err := capability.Find("GryffRSC")
	if err != nil {
		t.Fatal(err)
	}
	for _, shards := range []int{1, 4} {
		x := ofTheTable(t, row, 5, 0.25)
		x.Clients, x.Shards = 16, shards
		m := measure(t, x)
		noMoreTrips(t, row.Name, m, 5)
		most, fast, took := 0, 0, map[int]int{}
		for _, o := range m.History {
			if o.Request.Kind == register.Write {
				most = max(most, o.Result.RoundTrips)
				took[o.Result.RoundTrips]++
			}
			if o.Result.Fast && o.Request.Kind == register.Read {
				fast = max(fast, o.Result.RoundTrips)
			}
		}
		t.Logf("%d shards: writes by round trips: %v", shards, took)
		if want := map[int]int{1: 3, 4: 3}[shards]; most != want || fast != 1 {
			t.Errorf("%d shards: writes took up to %d round trips, want %d; fast reads up to %d", shards, most, want, fast)
		}
	}
}

// With three members a read of Gryff takes one round trip for values as large as the table says, and not always for
// larger ones.
func TestLargeValuesCostReadsOfGryff(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"Gryff", "GryffRSC"} {
		row, err := capability.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		upTo := row.Operation(register.Read).UpTo
		for bytes, want := range map[int]int{upTo: 1, upTo + 1: 2} {
			x := ofTheTable(t, row, 3, 0.5)
			x.Duration, x.Workload.Mix.RMW, x.Workload.ValueBytes = 3*time.Second, 0, bytes
			most := 0
			for _, o := range measure(t, x).History {
				if o.Request.Kind == register.Read {
					most = max(most, o.Result.RoundTrips)
				}
			}
			if most != want {
				t.Errorf("%s: reads of %d bytes took up to %d round trips, want %d", name, bytes, most, want)
			}
		}
	}
}

// A read of Gus that finds the write of a member that crashed has it decided, in as many round trips as the table says.
// Only where others are in the way of that, too, it takes more.
func TestGusReadsPastCrashedWriters(t *testing.T) {
	t.Parallel()
	row, err := capability.Find("Gus")
	if err != nil {
		t.Fatal(err)
	}
	_, worst := row.RoundTrips(register.Read, 5)
	x := ofTheTable(t, row, 5, 0.25)
	x.Duration, x.Faults = 30*time.Second, []faults.Kind{faults.Crash}
	reads, at, beyond := 0, 0, 0
	for _, o := range measure(t, x).History {
		if o.Request.Kind != register.Read || o.Result.Status != register.OK {
			continue
		}
		reads++
		switch {
		case o.Result.RoundTrips == worst:
			at++
		case o.Result.RoundTrips > worst:
			beyond++
		}
	}
	t.Logf("of %d reads %d took %d round trips, and %d more", reads, at, worst, beyond)
	if at == 0 || beyond*10 > at || beyond*500 > reads {
		t.Errorf("of %d reads %d took %d round trips, and %d more", reads, at, worst, beyond)
	}
}
