package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
)

// Partitions are split in each schedule.
func TestCURPSurvivesSplits(t *testing.T) {
	t.Parallel()
	took := map[string]int{}
	for seed := range uint64(seedsFor(t) / 8) {
		if seed >= uint64(seedsFor(t)/16) && allTaken(took, splitPaths()) {
			break // the others would show little that is new
		}
		s := directed.Splits(seed + 1)
		if f := Run(s, nil, func(path string) { took[path]++ }).Failure; f != nil {
			t.Errorf("%v\n%s", f, Explain(f))
		}
	}
	for _, path := range splitPaths() {
		t.Logf("%s: %d", path, took[path])
		if took[path] == 0 && seedsFor(t) == searchSeeds {
			t.Errorf("no schedule led to %s", path)
		}
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
