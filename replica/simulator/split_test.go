package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// drawSplit is a schedule in which partitions are split.
func drawSplit(seed uint64, wrong schedule.PartitionMistakes, division store.SplitMistakes) schedule.Schedule {
	options := curpOptions(curp.Mistakes{}, faults.Without(faults.CURPKinds(), faults.Split)...)
	options.PartitionMistakes, options.Partitioned = wrong, curpWith(curp.Mistakes{}, division)
	s := schedule.Draw(seed, options)
	options.Faults = faults.CURPKinds()
	s.AddSplits(kernel.NewStream(seed, kernel.ForPartitions, 7), len(s.Environment.Network.Sites), options)
	return s
}

// Partitions are split in each schedule.
func TestCURPSurvivesSplits(t *testing.T) {
	t.Parallel()
	took := map[string]int{}
	for seed := range uint64(seedsFor(t) / 4) {
		s := drawSplit(seed+1, schedule.PartitionMistakes{}, store.SplitMistakes{})
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
	type division = store.SplitMistakes
	for _, c := range []struct {
		name  string
		wrong schedule.PartitionMistakes
		split division
		after uint64
		seeds int
	}{
		{"Empty", schedule.PartitionMistakes{}, division{Empty: true}, 0, 100},
		{"WithoutSessions", schedule.PartitionMistakes{}, division{WithoutSessions: true}, 0, 300},
		{"KeepForgotten", schedule.PartitionMistakes{}, division{KeepForgotten: true}, 360, 1000},
		{"DropAtOnce", schedule.PartitionMistakes{}, division{DropAtOnce: true}, 0, 300},
		{"what witnesses have is not waited for", schedule.PartitionMistakes{Splits: true}, division{}, 340, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFind(t, func(seed uint64) schedule.Schedule { return drawSplit(seed, c.wrong, c.split) }, nil, c.after, c.seeds, found(""))
		})
	}
}
