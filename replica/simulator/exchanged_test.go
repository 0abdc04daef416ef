package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/test/mutants"
)

// Members who leave take their fragments with them: so many of those after the change must have made theirs that
// one more disk may be lost.
func TestAChangeEndsWhenEnoughFragmentsAreThere(t *testing.T) {
	t.Parallel()
	start := fragmented()
	lossy := func(t *testing.T, seeds uint64) *Failure {
		for seed := range seeds {
			for _, one := range promised(t.Context(), directed.AllExchanged(seed+1), start, 4) {
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
