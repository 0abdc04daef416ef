package rmwpaxos_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/protocol/script"
)

// published has proposers that don't hand over: what can go wrong between several does not depend on when they give
// way.
var published = rmwpaxos.Options{Insist: true}

func TestScripts(t *testing.T) {
	script.Run(t, "testdata/correct", rmwpaxos.FactoryWith(published, rmwpaxos.Mistakes{}))
}

// TestRareMistakes shows, step by step, how those mistakes break the register that random schedules rarely reach: each
// needs several faults in one order.
func TestRareMistakes(t *testing.T) {
	for name, m := range map[string]rmwpaxos.Mistakes{
		"VoteBeforePersist":     {VoteBeforePersist: true},
		"CompleteBeforePersist": {CompleteBeforePersist: true},
		"CopyVotes":             {CopyVotes: true},
		"CountOldVotes":         {CountOldVotes: true},
		"RoundWithoutBoot":      {RoundWithoutBoot: true},
		"EqualNumbers":          {EqualNumbers: true},
	} {
		t.Run(name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", rmwpaxos.FactoryWith(published, m))
		})
	}
}
