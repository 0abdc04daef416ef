package history

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// Gap is a time without a success.
type Gap struct {
	From, To time.Duration // readings of the history's clock: two successes with none between them
}

// Length is how long the gap is.
func (g Gap) Length() time.Duration { return g.To - g.From }

// LongestGaps finds, for each site, the longest time between two of its successful operations that follow each other.
// A site with less than two successes has none. It shows what clients felt of a fault.
func LongestGaps(operations []Operation) map[string]Gap {
	returns := map[string][]time.Duration{}
	for _, o := range operations {
		if o.Result.Status == register.OK {
			returns[o.Site] = append(returns[o.Site], o.Returned)
		}
	}
	gaps := map[string]Gap{}
	for site, at := range returns {
		slices.Sort(at)
		for i := 1; i < len(at); i++ {
			if g := (Gap{at[i-1], at[i]}); g.Length() > gaps[site].Length() {
				gaps[site] = g
			}
		}
	}
	return gaps
}
