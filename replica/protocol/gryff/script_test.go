package gryff_test

import (
	"os"
	"testing"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
)

func TestMain(m *testing.M) { os.Exit(mutants.Main(m)) }

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", gryff.Factory) }

func TestScriptsRSC(t *testing.T) {
	script.RunJudged(t, "testdata/rsc", gryff.FactoryRSC, history.RegularSequential)
}

// TestMistakesOfSessions shows, step by step, what sessions see with those mistakes. ask-beside-dependencies and
// write-beside-dependencies are what the paper says of reads and writes: two sessions see two writes in no order.
func TestMistakesOfSessions(t *testing.T) {
	found := mutants.Build(t)
	for _, name := range []string{
		"apply-after-answer", "ask-beside-dependencies", "fence-without-quorum", "held-in-any-version",
		"holders-of-lost-disks", "holders-of-one", "older-than-all", "rmw-without-write-back", "write-beside-dependencies",
	} {
		found.Run(t, name, "gryff/"+name, func(t *testing.T) {
			script.RunJudged(t, "testdata/mistakes/"+name+".txt", gryff.FactoryRSC, history.Violation)
		})
	}
}

// TestMistakesInChanges shows, step by step, how those mistakes let members disagree: each needs a change of the view
// that goes on while some of them are cut off.
func TestMistakesInChanges(t *testing.T) {
	found := mutants.Build(t)
	for _, name := range []string{"keep-agreed", "recover-as-plain"} {
		found.Run(t, name, "instance/"+name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", gryff.Factory)
		})
	}
}
