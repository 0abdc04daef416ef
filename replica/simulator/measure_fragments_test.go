package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/register"
)

// With fragments, three of which restore a value, and one member that may be lost: a write takes a round trip to the
// nearest four, itself one of them, and Gus' own to three. A read takes Gus' own, and one to the nearest three for
// their fragments.
func TestFragmentsAtFiveSites(t *testing.T) {
	t.Parallel()
	const k, f, majority = 3, 1, 3
	row, err := capability.Find("Gus")
	if err != nil {
		t.Fatal(err)
	}
	_, written := row.RoundTrips(register.Write, 5)
	// Nobody fails, so a read of the metadata waits at most, and has nothing decided.
	most := map[register.Kind]int{
		register.Write: written + capability.FragmentTrips, register.Read: 2 + capability.FragmentTrips,
	}
	for _, conflict := range []float64{0, 0.02, 0.25} {
		x := experiment(t, fragmented(), "50:50:0", "CA", "VA", "IR", "OR", "JP")
		x.Duration, x.Workload.ValueBytes, x.Workload.Conflict = 20*time.Second, 64, conflict
		m := measure(t, x)
		for _, o := range m.History {
			if o.Result.Status == register.OK && o.Result.RoundTrips > most[o.Request.Kind] {
				t.Fatalf("%.0f%%: a %s took %d round trips", 100*conflict, o.Request.Kind, o.Result.RoundTrips)
			}
		}
		figures := m.Report.Figures()
		for i, site := range x.Network.Sites {
			nearest := slices.Sorted(slices.Values(x.Network.RTT[i])) // the first is the member itself
			for kind, fragments := range map[register.Kind]int{register.Write: k + f, register.Read: k} {
				all := figures[kind].Sites[site]
				within(t, site+" "+kind.String(), all.P50,
					float64((nearest[fragments-1]+nearest[majority-1])/time.Millisecond))
				if conflict == 0 && all.Max > all.P50+3 {
					t.Errorf("%s, %ss: %+v", site, kind, all)
				}
			}
		}
	}
}
