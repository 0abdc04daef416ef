package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/register"
)

// wider is the network of the Gryff paper with four more sites. Their distances are assumed, as between regions of one
// cloud.
func wider(t *testing.T, n int) profile.Profile {
	t.Helper()
	p, err := profile.Parse(
		"CA-VA=72ms,CA-IR=151ms,VA-IR=88ms,CA-OR=59ms,VA-OR=93ms,IR-OR=145ms,CA-JP=113ms,VA-JP=162ms,IR-JP=220ms,OR-JP=121ms," +
			"OH-CA=50ms,OH-VA=12ms,OH-IR=80ms,OH-OR=50ms,OH-JP=130ms," +
			"FR-CA=148ms,FR-VA=92ms,FR-IR=25ms,FR-OR=155ms,FR-JP=225ms,FR-OH=100ms," +
			"SG-CA=170ms,SG-VA=215ms,SG-IR=175ms,SG-OR=162ms,SG-JP=70ms,SG-OH=205ms,SG-FR=158ms," +
			"SY-CA=140ms,SY-VA=198ms,SY-IR=255ms,SY-OR=140ms,SY-JP=105ms,SY-OH=188ms,SY-FR=250ms,SY-SG=92ms")
	if err == nil {
		p, err = p.Select([]string{"CA", "VA", "IR", "OR", "JP", "OH", "FR", "SG", "SY"}[:n])
	}
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// With relaxed quorums all operations without conflicts take a round trip to a majority: a writer waits for Q_W of
// table 2 only if its tag is stale.
func TestGusRelaxed(t *testing.T) {
	t.Parallel()
	for _, n := range []int{7, 9} {
		for _, conflict := range []float64{0, 0.02, 0.25} {
			slowest := map[string]float64{} // reads
			for name, start := range map[string]Start{
				"f = 2": relaxed, "majorities": Member(gus.Factory),
			} {
				x := experiment(t, start, "49.5:50.5:0", "CA", "VA", "IR")
				x.Network, x.Clients, x.Duration, x.Workload.Conflict = wider(t, n), 8, 6*time.Second, conflict
				m := measure(t, x)
				noMoreTrips(t, "Gus", m, n)
				figures := m.Report.Figures()
				slowest[name] = figures[register.Read].Overall.P99
				for _, kind := range []register.Kind{register.Read, register.Write} {
					all := figures[kind].Overall
					t.Logf("n = %d, %s, %.0f%%, %ss: p50 %.1f p90 %.1f p99 %.1f max %.1f, %.1f%% in one round trip", n,
						name, 100*conflict, kind, all.P50, all.P90, all.P99, all.Max, 100*all.FastPathRate)
					if conflict > 0 {
						continue
					}
					if all.Count == 0 || all.FastPathRate != 1 {
						t.Errorf("n = %d, %s, %ss: %+v, want one round trip", n, name, kind, all)
					}
					for i, site := range x.Network.Sites {
						nearest := slices.Sorted(slices.Values(x.Network.RTT[i]))
						within(t, site, figures[kind].Sites[site].P50, float64(nearest[n/2]/time.Millisecond))
					}
				}
			}
			// More of those asked may tell of something newer, and a read must not wait for that.
			if conflict > 0.1 && slowest["f = 2"] > slowest["majorities"] {
				t.Errorf("n = %d, %.0f%%: the p99 of reads is %v", n, 100*conflict, slowest)
			}
		}
	}
}
