package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
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
		{"curp/take-over-session", directed.SplitsForgotten, 300, 300, check.Breach},
		{"curp/session-of-process", directed.SplitsForgotten, 0, 300, check.Breach},
		{"curp/acknowledge-unfinished", directed.SplitsForgotten, 0, 300, check.Breach},
	})
}

// A view that splits a partition is forgotten, and what both halves have begun goes on in one partition.
func TestCURPSurvivesForgottenSplits(t *testing.T) {
	t.Parallel()
	takesAll(t, directed.SplitsForgotten, []string{"curp.split.forgotten", "update.resumed"})
}
