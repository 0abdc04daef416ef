package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// A register with one writer: every write but the first takes one round trip (section 5.8, fast writes), and so does a
// read of a register at rest, to the nearest majority.
func TestRMWPaxosOfASingleWriter(t *testing.T) {
	t.Parallel()
	x := experiment(t, Member(rmwpaxos.Factory), "gryff-a", "CA", "VA", "IR")
	x.Clients, x.Workload.Conflict = 1, 0
	figures := measure(t, x).Report.Figures()
	for site, rtt := range map[string]float64{"CA": 72, "VA": 72, "IR": 88} {
		for _, kind := range []register.Kind{register.Read, register.Write} {
			f := figures[kind].Sites[site]
			within(t, site+" "+kind.String()+" p50", f.P50, rtt)
			within(t, site+" "+kind.String()+" max", f.Max, rtt)
			if f.RoundTrips != 1 || f.FastPathRate != 1 {
				t.Errorf("%s %ss: %+v, want one round trip each", site, kind, f)
			}
		}
	}
	if rmw := figures[register.RMW].Overall; rmw.Count == 0 || rmw.RoundTrips != 1 {
		t.Errorf("rmws: %+v, want one round trip each", rmw)
	}
}

// The same at least once, with updates that may be applied more than once: what is saved is bytes, and no round trips.
func TestRMWPaxosAtLeastOnceOfASingleWriter(t *testing.T) {
	t.Parallel()
	x := experiment(t, Member(rmwpaxos.AtLeastOnce), "50:0:50", "CA", "VA", "IR")
	x.Clients, x.Workload.Conflict, x.Workload.RMWs = 1, 0, workload.RMWIdempotent
	figures := measure(t, x).Report.Figures()
	for site, rtt := range map[string]float64{"CA": 72, "VA": 72, "IR": 88} {
		for _, kind := range []register.Kind{register.Read, register.RMW} {
			f := figures[kind].Sites[site]
			within(t, site+" "+kind.String()+" p50", f.P50, rtt)
			within(t, site+" "+kind.String()+" max", f.Max, rtt)
			if f.Count == 0 || f.RoundTrips != 1 || f.FastPathRate != 1 {
				t.Errorf("%s %ss: %+v, want one round trip each", site, kind, f)
			}
		}
	}
}

// Conflicts: the same workload as Gryff's, with so much of it on one key. docs/benchmarks has the figures.
func TestRMWPaxosUnderConflictsBesideGryff(t *testing.T) {
	t.Parallel()
	for _, conflict := range []float64{0.02, 0.1, 0.25} {
		rates := map[string]float64{}
		for _, c := range []struct {
			name  string
			start Start
		}{
			{"Gryff", Member(gryff.Factory)},
			{"RMWPaxos", Member(rmwpaxos.Factory)},
		} {
			x := experiment(t, c.start, "gryff-a", "CA", "VA", "IR", "OR", "JP")
			x.Workload.Conflict, x.Duration = conflict, 30*time.Second
			m := measure(t, x)
			figures := m.Report.Figures()
			if c.name != "Gryff" {
				fewBeyondTheWorst(t, m.History)
			}
			for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
				f := figures[kind].Overall
				rates[c.name] += float64(f.Count) / (30 - 5)
				t.Logf("%2.0f%% %-8s %-5s p50 %4.0f p90 %4.0f p99 %4.0f max %5.0f, %.2f round trips, %2.0f%% fast",
					100*conflict, c.name, kind, f.P50, f.P90, f.P99, f.Max, f.RoundTrips, 100*f.FastPathRate)
				if f.P50 > 100 && c.name != "Gryff" || f.Max > 5000 {
					t.Errorf("%s %s: %+v", c.name, kind, f)
				}
			}
		}
		t.Logf("%2.0f%%: operations/s %v", 100*conflict, rates)
		if rates["RMWPaxos"] < rates["Gryff"] {
			t.Errorf("with %v conflicts, %v operations/s", conflict, rates)
		}
	}
}

// fewBeyondTheWorst checks that hardly any operation takes more round trips than the table of protocols says it does
// with one other in its way, although many are.
func fewBeyondTheWorst(t *testing.T, operations []history.Operation) {
	t.Helper()
	row, err := capability.Find("RMWPaxos")
	if err != nil {
		t.Fatal(err)
	}
	beyond, most := 0, 0
	for _, o := range operations {
		_, worst := row.RoundTrips(o.Request.Kind, row.Members[0])
		if o.Result.RoundTrips > worst {
			beyond++
		}
		most = max(most, o.Result.RoundTrips)
	}
	t.Logf("at most %d round trips; %d of %d operations took more than the table says", most, beyond, len(operations))
	if beyond*1000 > len(operations) {
		t.Errorf("%d of %d operations took more round trips than the table of protocols says", beyond, len(operations))
	}
}

// How often a read asks again before it helps (X of section 5.8): 200 clients on one register.
func TestRMWPaxosReadRetries(t *testing.T) {
	t.Parallel()
	rates := map[int]float64{}
	for _, retries := range []int{0, 1, 2, 4} {
		o := rmwpaxos.Options{ReadRetries: retries}
		if retries == 0 {
			o.ReadRetries = -1 // its zero stands for 2
		}
		x := experiment(t, Member(rmwpaxos.FactoryWith(o)), "ycsb-b", "CA", "VA", "IR", "OR", "JP")
		x.Clients, x.Duration = 40, 12*time.Second
		x.Workload.Keys, x.Workload.KeyCount = workload.Uniform, 1
		figures := measure(t, x).Report.Figures()
		read, write := figures[register.Read].Overall, figures[register.Write].Overall
		rates[retries] = float64(read.Count) / 10
		t.Logf("| %d | %.0f | %.0f | %.0f | %.0f | %.0f | %.0f |", retries, rates[retries], read.P50, read.P99,
			float64(write.Count)/10, write.P50, write.P99)
	}
	if rates[2] < 1.2*rates[0] || rates[4] > 1.1*rates[2] {
		t.Errorf("reads/s by retries: %v; want two to be a gain, and more of them none", rates)
	}
}

// The number of registers: 400 clients, read-heavy and write-heavy, over so many keys (figure 5 of the paper has 512
// clients).
func TestRMWPaxosOfManyRegisters(t *testing.T) {
	t.Parallel()
	if testing.Short() || raceEnabled {
		t.Skip("it simulates some 100,000 operations")
	}
	for _, mix := range []string{"ycsb-b", "ycsb-a"} {
		for _, keys := range []int{1, 100, 1_000_000} { // docs/benchmarks has more
			x := experiment(t, Member(rmwpaxos.Factory), mix, "CA", "VA", "IR", "OR", "JP")
			x.Clients, x.Duration = 80, 6*time.Second
			x.Workload.Keys, x.Workload.KeyCount, x.Workload.Theta = workload.Zipf, keys, 0.99
			figures := measure(t, x).Report.Figures()
			read, write := figures[register.Read].Overall, figures[register.Write].Overall
			rate := float64(read.Count+write.Count) / 5
			t.Logf("%s, %7d registers: %.0f operations/s, reads p50 %.0f p99 %.0f ms, writes p50 %.0f p99 %.0f ms, "+
				"%.2f round trips",
				mix, keys, rate, read.P50, read.P99, write.P50, write.P99, write.RoundTrips)
			// A proposer that waited while all others waited for it made that several seconds.
			if rate < 1000 || write.P99 > 1200 {
				t.Errorf("%s, %d registers: %.0f operations/s, p99 of writes %.0f ms", mix, keys, rate, write.P99)
			}
		}
	}
}
