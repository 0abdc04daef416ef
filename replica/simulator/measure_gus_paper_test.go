package simulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/test/mutants"
)

// What the corrections of Gus cost with five members, where the paper's reads return what a quorum holds (SafeToRead as
// published) and join others that are under way (section 5.2): the share of reads that wait for the end of a write, of
// those that have one decided (LOCK), and of writes that give their first tag up (the paper's slow path, corrected:
// RETRACT).
func TestWhatGusCorrectionsCost(t *testing.T) {
	t.Parallel()
	sites := func(t *testing.T, start Start, conflict float64) Experiment {
		x := experiment(t, start, "49.5:50.5:0", "CA", "VA", "IR", "OR", "JP")
		x.Workload.Conflict, x.Duration = conflict, 30*time.Second
		return x
	}
	log := func(t *testing.T, conflict float64, m Measured) {
		for _, kind := range []register.Kind{register.Read, register.Write} {
			all := m.Report.Figures()[kind].Overall
			t.Logf("%.0f%% %ss: p50 %.1f p90 %.1f p99 %.1f", 100*conflict, kind, all.P50, all.P90, all.P99)
		}
	}
	conflicts := []float64{0.02, 0.10, 0.25}
	t.Run("corrected", func(t *testing.T) {
		for _, conflict := range conflicts {
			took := map[string]int{}
			m := measure(t, sites(t, counting(gus.Factory, took), conflict))
			reads := took["read.final"] + took["read.held"] // each read ends once
			writes := took["write.fast"] + took["write.retags"]
			t.Logf("%.0f%%: of %d reads %.2f%% wait and %.2f%% lock, of %d writes %.1f%% retract", 100*conflict, reads,
				percent(took["read.waits"], reads), percent(took["read.locks"], reads), writes,
				percent(took["write.retags"], writes))
			log(t, conflict, m)
			if took["read.locks"] != 0 {
				t.Errorf("%d reads had a write decided that was not, although nobody failed", took["read.locks"])
			}
		}
	})
	mutants.Build(t).Run(t, "as published", "gus/as-published", func(t *testing.T) {
		for _, conflict := range conflicts {
			x := sites(t, Member(gus.Factory), conflict)
			x.judgeFor = time.Second // to find out that it is not linearizable can take long
			m, err := Measure(t.Context(), x)
			if err != nil {
				t.Fatal(err)
			}
			t.Logf("%.0f%%: %s", 100*conflict, m.Report.Verdict)
			log(t, conflict, m)
			if m.OK() {
				t.Errorf("with %.0f%% of conflicts, what is published is linearizable", 100*conflict)
			}
		}
	})
}

func percent(part, all int) float64 { return 100 * float64(part) / float64(max(all, 1)) }

// Two members may be lost of five, seven and nine, and few operations are writes (Gus, figure 7: 94.5% reads, 2%
// conflicts): nearly all reads take one round trip to a majority, which is smaller than the quorum of TEMPO.
func TestGusReadsOfFigureSeven(t *testing.T) {
	t.Parallel()
	for _, n := range []int{5, 7, 9} {
		x := experiment(t, relaxed, "94.5:5.5:0", "CA", "VA", "IR")
		x.Network, x.Clients, x.Duration, x.Workload.Conflict = wider(t, n), 8, 6*time.Second, 0.02
		m := measure(t, x)
		noMoreTrips(t, "Gus", m, n)
		for _, kind := range []register.Kind{register.Read, register.Write} {
			figures := m.Report.Figures()[kind]
			all, sites := figures.Overall, ""
			for _, site := range x.Network.Sites {
				sites += fmt.Sprintf(" %s %.0f", site, figures.Sites[site].P50)
			}
			t.Logf("n = %d, %ss: p50 %.1f p90 %.1f p99 %.1f p99.9 %.1f max %.1f, %.2f%% in one round trip; p50 by "+
				"site:%s", n, kind,
				all.P50, all.P90, all.P99, all.P999, all.Max, 100*all.FastPathRate, sites)
			if kind == register.Read && all.FastPathRate < 0.99 {
				t.Errorf("n = %d: %+v", n, all)
			}
		}
	}
}
