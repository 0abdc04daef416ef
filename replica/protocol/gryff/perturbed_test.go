package gryff_test

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
	"github.com/georegister/georegister/test/near"
)

// nearby searches schedules near the scripts, those of mistakes among them.
func nearby(t *testing.T, count int) script.Search {
	t.Helper()
	search := near.Scripts(t, "testdata", gryff.FactoryRSC)
	search.Regular, search.Count = true, count
	return search
}

func TestSchedulesNearScripts(t *testing.T) {
	t.Parallel()
	near.MustPass(t, nearby(t, 3000))
}

func TestSchedulesNearScriptsFindMistakes(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, name := range []string{
		"ask-beside-dependencies", "write-beside-dependencies", "held-at-once", "held-in-any-version",
		"held-by-version-before", "held-by-question", "holders-of-lost-disks",
		"holders-of-one", "holders-are-asked",
		"older-than-all",
		"drop-dependency", "rmw-without-write-back", "fence-without-quorum", "apply-after-answer",
	} {
		program.Run(t, name, "gryff/"+name, func(t *testing.T) {
			done := nearby(t, 20000).Run(t)
			if done.Wrong == nil {
				t.Fatalf("not found in %d schedules", done.Drawn)
			}
			t.Logf("after %d schedules: %.300v", done.Drawn, done.Wrong)
		})
	}
}
