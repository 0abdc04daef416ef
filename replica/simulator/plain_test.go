package simulator

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Drawn plain runs pass with each protocol, with the faults that they can have.
func TestDrawnPlainRunsSurvive(t *testing.T) {
	t.Parallel()
	for _, v := range catalog.Variants() {
		start, options := soaked(t, v)
		seeds := max(3, seedsFor(t)/60)
		if options.Partitioned != nil {
			seeds = 3
		}
		for _, kinds := range [][]faults.Kind{
			{faults.Loss, faults.Duplicate, faults.Reorder, faults.SlowDisk}, {faults.Crash, faults.Partition},
			{faults.Change, faults.Wipe},
		} {
			options.Faults = append([]faults.Kind{faults.Plain}, kinds...)
			draw := drawn(options)
			t.Run(v.Name+", "+string(kinds[0]), func(t *testing.T) { mustNotFind(t, draw, start, seeds) })
		}
	}
}

// A drawn plain run has no faults but those that are listed.
func TestDrawnPlainRunsHaveWhatIsListed(t *testing.T) {
	t.Parallel()
	listed := []faults.Kind{faults.Plain, faults.Loss, faults.Crash}
	begun := map[faults.Kind]int{}
	for seed := range uint64(50) {
		s := schedule.Draw(seed, schedule.Options{Faults: listed, Members: []int{5}})
		if s.Environment.Jitter != 0 || len(s.Clients) != 5 {
			t.Errorf("seed %d: %d clients, and a jitter of %d", seed, len(s.Clients), s.Environment.Jitter)
		}
		for _, f := range s.Faults {
			if begun[f.Kind]++; !slices.Contains(listed, f.Kind) {
				t.Errorf("seed %d: %v", seed, f)
			}
		}
	}
	if begun[faults.Loss] == 0 || begun[faults.Crash] == 0 {
		t.Errorf("what they have: %v", begun)
	}
}
