package epaxos_test

import (
	"os"
	"testing"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
)

func TestMain(m *testing.M) { os.Exit(mutants.Main(m)) }

func TestScripts(t *testing.T) { script.Run(t, "testdata/correct", epaxos.Factory) }

// TestMistakesInChanges shows, step by step, how that mistake lets members disagree: it needs a change of the view
// that goes on while some of them are cut off.
func TestMistakesInChanges(t *testing.T) {
	found := mutants.Build(t)
	for _, name := range []string{"recover-as-plain"} {
		found.Run(t, name, "instance/"+name, func(t *testing.T) {
			script.Run(t, "testdata/mistakes/"+name+".txt", epaxos.Factory)
		})
	}
}
