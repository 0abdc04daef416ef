package rmwpaxos_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
)

// published has proposers that don't hand over: what can go wrong between several does not depend on when they give
// way.
var published = rmwpaxos.Options{Insist: true}

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/correct", rmwpaxos.FactoryWith(published))
}

// TestRareMistakes shows, step by step, how those mistakes break the register that random schedules rarely reach: each
// needs several faults in one order.
func TestRareMistakes(t *testing.T) {
	found := mutants.Build(t)
	for _, name := range []string{
		"vote-before-persist", "complete-before-persist", "copy-votes", "count-old-votes", "round-without-boot", "equal-numbers",
		"hand-anew",
	} {
		found.Run(t, name, "rmwpaxos/"+name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", rmwpaxos.FactoryWith(published))
		})
	}
}
