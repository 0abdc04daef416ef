package simulator

import (
	"fmt"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// Without interference every command takes one round trip to the farthest of the nearest n - 1 members.
func TestEPaxosTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	for _, sites := range [][]string{{"CA", "VA", "IR"}, {"CA", "VA", "IR", "OR", "JP"}} {
		x := experiment(t, Member(epaxos.Factory), "40:40:20", sites...)
		x.Clients, x.Duration = 2, 30*time.Second
		x.Workload.Keys, x.Workload.KeyCount = workload.Uniform, 1_000_000
		figures := measure(t, x).Report.Figures()
		for at, site := range sites {
			want := ms(reach(x.Network, at, max(len(sites)-2, 2))) // view.View.ValidatedQuorum
			for _, kind := range []register.Kind{register.Read, register.Write, register.RMW} {
				got := figures[kind].Sites[site]
				what := fmt.Sprintf("%d sites, %s at %s: ", len(sites), kind, site)
				within(t, what+"p50", got.P50, want)
				within(t, what+"max", got.Max, want)
				if got.RoundTrips != 1 || got.FastPathRate != 1 {
					t.Errorf("%s%+v, want one round trip each", what, got)
				}
			}
		}
	}
}

// With three members the one that is asked decides, whatever it adds: no conflict costs another round trip
// (docs/protocols.md).
func TestThreeMembersNeedNoSlowPath(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, commands string
		factory        member.Factory
	}{{"EPaxos", "command", epaxos.Factory}, {"Gryff", "rmw", gryff.Factory}, {"GryffRSC", "rmw", gryff.FactoryRSC}} {
		took := map[string]int{}
		x := experiment(t, counting(c.factory, took), "40:40:20", "CA", "VA", "IR")
		x.Workload.Conflict, x.Duration = 0.25, 20*time.Second
		noMoreTrips(t, c.name, measure(t, x), 3)
		if took[c.commands+".fast-merged"] == 0 || took[c.commands+".slow"] > 0 || took[c.commands+".not-alone"] > 0 {
			t.Errorf("%s took %v", c.name, took)
		}
	}
}

// Where a quarter of the operations are on one key, Gryff's reads take their round trip as ever. Those of EPaxos wait
// for what they depend on (Gryff, section 6.3.1), but its writes are answered without that.
func TestInterferenceDelaysReadsOfEPaxos(t *testing.T) {
	t.Parallel()
	run := func(start Start) map[register.Kind]workload.KindFigures {
		x := experiment(t, start, "gryff-b", "CA", "VA", "IR")
		x.Workload.Conflict, x.Duration = 0.25, 30*time.Second
		return measure(t, x).Report.Figures()
	}
	ours, gryffs := run(Member(epaxos.Factory)), run(Member(gryff.Factory))
	read, other := ours[register.Read].Overall, gryffs[register.Read].Overall
	within(t, "Gryff's read p99", other.P99, 88)
	if read.P99 < other.P99+88 {
		t.Errorf("reads of EPaxos take %.1f ms (p99), those of Gryff %.1f ms; want another round trip at least",
			read.P99, other.P99)
	}
	if write := ours[register.Write].Overall; write.P99 > read.P99 || write.P50 > 90 {
		t.Errorf("writes of EPaxos take %.1f ms (p50), %.1f ms (p99), reads %.1f ms (p99); writes wait for "+
			"commits alone", write.P50, write.P99, read.P99)
	}
	t.Logf("p99 of reads: EPaxos %.1f ms, Gryff %.1f ms", read.P99, other.P99)
}
