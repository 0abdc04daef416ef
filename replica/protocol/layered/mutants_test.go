package layered

import (
	"testing"

	"github.com/georegister/georegister/test/mutants"
)

// Each mutant is shown by a test that the code passes as it is.
func TestMutantsAreShown(t *testing.T) {
	program := mutants.Build(t)
	for _, c := range []struct {
		mutant, harm string // what it does, where one does two things
		shows        func(t *testing.T, wrong bool)
	}{
		{"wait-for-all", "", readOfWhatIsOver},
		{"count-fragments-only", "", metadataWaits},
		{"write-at-once", "", metadataWaits},
		{"submit-before-persist", "", metadataLeaves},
		{"vote-without-fragments", "", newcomerVotes},
		{"vote-without-fragments", ", a value is lost", twoLost},
		{"repair-late", "", lateRepair},
		{"trust-fragments", "", damagedRepair},
		{"give-up-early", "", newcomerGivesUp},
		{"count-lost-disk", "", newcomerGivesUp},
		{"wait-in-silence", ", others wait", waitsAndSays},
		{"wait-in-silence", ", a change waits", waitsAndCounts},
		{"count-gone", "", beyondTheCode},
	} {
		program.Run(t, c.mutant+c.harm, "layered/"+c.mutant, func(t *testing.T) { c.shows(t, true) })
	}
}
