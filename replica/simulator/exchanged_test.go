package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// drawExchanged makes a schedule in which five members are exchanged for five others, and two of these are cut off
// while the others fetch. Nobody who stays has a fragment, so the change may not end before one of the two has
// fetched.
func drawExchanged(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	for i := range time.Duration(4) {
		large := register.Value(strings.Repeat(string(rune('a'+i)), 64))
		plan(&s, draw.Below(5), (10+20*i)*ms, register.Operation{Kind: register.Write, Value: large})
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Change, Node: draw.Below(5), At: 200 * ms, For: 5 * ms, Join: 5, Leave: 5, Alive: true},
		{Kind: faults.Partition, Everywhere: true, At: 210 * ms, For: 900 * ms, Side: 3 << (5 + draw.Below(4)), Rate: 1000},
	}
	for i := range time.Duration(16) {
		plan(&s, draw.Below(5), 300*ms+i*50*ms, register.Operation{Kind: register.Read})
	}
	s.Settle = 1500 * ms
	return s
}

// Members who leave take their fragments with them: so many of those after the change must have made theirs that
// one more disk may be lost.
func TestAChangeEndsWhenEnoughFragmentsAreThere(t *testing.T) {
	t.Parallel()
	start := fragmented()
	lossy := func(t *testing.T, seeds uint64) *Failure {
		for seed := range seeds {
			for _, one := range promised(t.Context(), drawExchanged(seed+1), start, 4) {
				if f := Run(one, start, nil).Failure; f != nil {
					return f
				}
			}
		}
		return nil
	}
	t.Run("of the product", func(t *testing.T) {
		if f := lossy(t, 5); f != nil {
			t.Errorf("%v\n%s", f, Explain(f))
		}
	})
	mutants.Build(t).Run(t, "membership/whole-values", "membership/whole-values", func(t *testing.T) {
		if lossy(t, 10) == nil {
			t.Error("a change that ends as if members stored values whole is not found")
		}
	})
}
