package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
)

// Partitions are split in each schedule.
func TestCURPSurvivesSplits(t *testing.T) {
	t.Parallel()
	took := takesAll(t, directed.Splits, splitPaths())
	for _, path := range splitPaths() {
		t.Logf("%s: %d", path, took[path])
	}
}

func TestMistakesOfSplitsAreFound(t *testing.T) {
	t.Parallel()
	mustFindInCURP(t, []curpHunt{
		{"store/split-off-empty", directed.Splits, 0, 100, ""},
		{"store/split-off-without-sessions", directed.Splits, 0, 300, ""},
		{"store/keep-forgotten-split", directed.Splits, 700, 1000, ""},
		{"store/drop-split-at-once", directed.Splits, 0, 300, ""},
		{"membership/split-unsynced", directed.Splits, 150, 500, ""},
	})
}
