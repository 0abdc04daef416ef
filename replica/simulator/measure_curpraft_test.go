package simulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/workload"
)

// An update without conflicts takes the longer of the round trips to the leader and to the farthest member of the
// nearest superquorum. In Raft it takes one to the leader, and one from there to a majority; where that is less, as it
// is at the leader's own site, the commit comes first. The first site leads.
func TestCURPRaftTakesOneRoundTrip(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		sites       []string
		superquorum int
	}{
		{[]string{"CA", "VA", "IR"}, 3},
		{[]string{"CA", "VA", "IR", "OR", "JP"}, 4},
	} {
		run := func(start Start) *workload.Report {
			x := experiment(t, start, "ycsb-a", c.sites...)
			x.Clients, x.Duration = 1, 30*time.Second
			x.Workload.Keys, x.Workload.KeyCount = workload.Uniform, 1_000_000
			return measure(t, x).Report
		}
		network := experiment(t, Member(raft.Factory), "ycsb-a", c.sites...).Network
		toMajority := reach(network, 0, len(c.sites)/2+1)
		ours, rafts := run(Member(curpraft.Factory)).Figures(), run(Member(raft.Factory)).Figures()
		for at, site := range c.sites {
			toLeader := time.Duration(0)
			if at != 0 {
				toLeader = network.RTT[at][0]
			}
			write, read := ours[register.Write].Sites[site], ours[register.Read].Sites[site]
			what := fmt.Sprintf("%d sites, at %s: ", len(c.sites), site)
			fast, slow := max(toLeader, reach(network, at, c.superquorum)), toLeader+toMajority
			within(t, what+"write p50", write.P50, ms(min(fast, slow)))
			within(t, what+"write p99", write.P99, ms(min(fast, slow)))
			within(t, what+"read p50", read.P50, ms(slow))
			within(t, what+"Raft's write p50", rafts[register.Write].Sites[site].P50, ms(slow))
			if write.RoundTrips != 1 || fast < slow && write.FastPathRate < 0.999 {
				t.Errorf("%swrites %+v, want one round trip", what, write)
			}
			t.Logf("%swrites %.1f ms, Raft's %.1f ms; reads %.1f ms", what, write.P50,
				rafts[register.Write].Sites[site].P50, read.P50)
		}
	}
}

// reach is the round trip from a site to the farthest of the members nearest to it, itself included.
func reach(network profile.Profile, site, members int) time.Duration {
	trips := slices.Clone(network.RTT[site])
	trips[site] = 0
	slices.Sort(trips)
	return trips[members-1]
}

// The share of updates that take one round trip under YCSB-A with a skew of 0.99. The leader commits at once; a key is
// taken until all know of that.
func TestCURPRaftUnderSkew(t *testing.T) {
	t.Parallel()
	x := experiment(t, Member(curpraft.Factory), "ycsb-a", "CA", "VA", "IR")
	x.Clients, x.Duration = 8, 20*time.Second
	x.Workload.Keys, x.Workload.Theta, x.Workload.KeyCount = workload.Zipf, 0.99, 1_000_000
	sites := measure(t, x).Report.Figures()[register.Write].Sites
	for _, site := range []string{"VA", "IR"} { // at the leader's, the commit comes first
		write := sites[site]
		t.Logf("%s: %.1f%% of %d writes in one round trip, p50 %.1f ms, p99 %.1f ms", site, 100*write.FastPathRate,
			write.Count, write.P50, write.P99)
		if write.Count == 0 || write.FastPathRate < 0.5 || write.FastPathRate == 1 {
			t.Errorf("%s: %+v, want most in one round trip, and not all", site, write)
		}
	}
}
