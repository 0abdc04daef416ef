package simulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
)

// counting is a protocol with its paths counted.
func counting(factory member.Factory, took map[string]int) Start {
	return Member(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
		c.Count = func(path string) { took[path]++ }
		return factory(c, j, r)
	})
}

// With three sites reads, and writes without conflicts, take one round trip (Gus, figure 4: 94.5% reads).
func TestGusAtThreeSites(t *testing.T) {
	t.Parallel()
	nearest := map[string]float64{"CA": 72, "VA": 72, "IR": 88}
	for _, conflict := range []float64{0, 0.02, 0.10, 0.25} {
		t.Run(fmt.Sprint(conflict), func(t *testing.T) {
			took := map[string]int{}
			x := experiment(t, counting(gus.Factory, took), "94.5:5.5:0", "CA", "VA", "IR")
			x.Workload.Conflict = conflict
			m := measure(t, x)
			figures := m.Report.Figures()
			noMoreTrips(t, "Gus", m, 3)
			for site, rtt := range nearest {
				read, write := figures[register.Read].Sites[site], figures[register.Write].Sites[site]
				within(t, site+" read p50", read.P50, rtt)
				within(t, site+" write p50", write.P50, rtt)
				t.Logf("%s: reads p50 %.1f p99 %.1f max %.1f, %.2f%% fast; writes p50 %.1f p99 %.1f max %.1f, "+
					"%.1f%% fast", site,
					read.P50, read.P99, read.Max, 100*read.FastPathRate, write.P50, write.P99, write.Max,
					100*write.FastPathRate)
				if read.FastPathRate < 0.98 || conflict == 0 && (read.FastPathRate != 1 || write.FastPathRate != 1) {
					t.Errorf("%s: reads %+v, writes %+v", site, read, write)
				}
			}
			t.Logf("paths %v", took)
		})
	}
}

// With five sites, half of the operations writes, and a quarter of them on one key (Gus, figure 5), beside Gryff.
func TestGusAtFiveSites(t *testing.T) {
	t.Parallel()
	sites := []string{"CA", "VA", "IR", "OR", "JP"}
	for _, conflict := range []float64{0, 0.02, 0.25} {
		took := map[string]int{}
		ours, theirs := experiment(t, counting(gus.Factory, took), "49.5:50.5:0", sites...),
			experiment(t, Member(gryff.Factory), "49.5:50.5:0", sites...)
		ours.Workload.Conflict, theirs.Workload.Conflict = conflict, conflict
		ours.Duration, theirs.Duration = 30*time.Second, 30*time.Second
		m := measure(t, ours)
		noMoreTrips(t, "Gus", m, 5)
		figures, others := m.Report.Figures(), measure(t, theirs).Report.Figures()
		for _, kind := range []register.Kind{register.Read, register.Write} {
			for _, site := range sites {
				a, b := figures[kind].Sites[site], others[kind].Sites[site]
				t.Logf("%.0f%% %s %s: p50 %.1f p90 %.1f p99 %.1f, %.1f%% fast; Gryff p50 %.1f p90 %.1f p99 %.1f",
					100*conflict, site, kind, a.P50, a.P90, a.P99, 100*a.FastPathRate, b.P50, b.P90, b.P99)
				if conflict == 0 && a.FastPathRate != 1 {
					t.Errorf("%s: %+v, want one round trip", site, a)
				}
			}
		}
		t.Logf("%.0f%%: paths %v", 100*conflict, took)
		if took["read.locks"] != 0 {
			t.Errorf("%d reads had a write decided that was not, although nobody failed", took["read.locks"])
		}
	}
}

// noMoreTrips compares what operations waited for with what the table of protocols says.
func noMoreTrips(t *testing.T, protocol string, m Measured, members int) {
	t.Helper()
	row, err := capability.Find(protocol)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range m.History {
		if _, worst := row.RoundTrips(o.Request.Kind, members); o.Result.Status == register.OK &&
			o.Result.RoundTrips > worst {
			t.Fatalf("a %s took %d round trips, the table says %d at worst", o.Request.Kind, o.Result.RoundTrips, worst)
		}
	}
}

// Majorities do with any number of members: without conflicts all operations take one round trip with seven and nine,
// too.
func TestGusBeyondFive(t *testing.T) {
	t.Parallel()
	for _, n := range []int{4, 7, 9} {
		const rtt = 20 * time.Millisecond
		x := experiment(t, Member(gus.Factory), "49.5:50.5:0", "CA", "VA", "IR")
		x.Network = profile.Profile{Name: "even"}
		for i := range n {
			x.Network.Sites = append(x.Network.Sites, fmt.Sprint("site-", i+1))
			x.Network.RTT = append(x.Network.RTT, slices.Repeat([]time.Duration{rtt}, n))
			x.Network.RTT[i][i] = profile.Local
		}
		x.Clients, x.Duration, x.Workload.Conflict = 4, 5*time.Second, 0
		figures := measure(t, x).Report.Figures()
		for _, kind := range []register.Kind{register.Read, register.Write} {
			if all := figures[kind].Overall; all.Count == 0 || all.RoundTrips != 1 || all.Max > 23 {
				t.Errorf("%d members, %ss: %+v, want one round trip", n, kind, all)
			}
		}
		x.Workload.Conflict = 0.25
		figures = measure(t, x).Report.Figures()
		t.Logf("%d members, a quarter on one key: %.1f%% of the reads and %.1f%% of the writes take one round trip", n,
			100*figures[register.Read].Overall.FastPathRate, 100*figures[register.Write].Overall.FastPathRate)
	}
}
