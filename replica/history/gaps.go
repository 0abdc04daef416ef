package history

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Gap is a time without a success at a site whose clients ask for one.
type Gap struct {
	// readings of the history's clock: two successes with none between them, or the history's end
	From, To time.Duration
}

// Length is how long the gap is.
func (g Gap) Length() time.Duration { return g.To - g.From }

// LongestGaps finds, for each site, the longest time without a successful operation, from the site's first invocation
// to the last answer that anyone got. It shows what clients felt of a fault, also of one that never ended.
func LongestGaps(operations []Operation) map[string]Gap {
	moments := map[string][]time.Duration{} // a site's first invocation, and its successes
	var end time.Duration
	for _, o := range operations {
		if len(moments[o.Site]) == 0 {
			moments[o.Site] = []time.Duration{o.Invoked}
		}
		moments[o.Site][0] = min(moments[o.Site][0], o.Invoked)
		if o.Result.Status == register.OK {
			moments[o.Site] = append(moments[o.Site], o.Returned)
		}
		if end = max(end, o.Invoked); o.Known() {
			end = max(end, o.Returned)
		}
	}
	gaps := map[string]Gap{}
	for site, at := range moments {
		slices.Sort(at)
		at = append(at, end)
		for i := 1; i < len(at); i++ {
			if g := (Gap{at[i-1], at[i]}); g.Length() > gaps[site].Length() {
				gaps[site] = g
			}
		}
	}
	return gaps
}
