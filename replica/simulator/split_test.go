package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/curp"
)

// drawSplit is a schedule in which partitions are split.
func drawSplit(seed uint64, wrong governorMistakes) Schedule {
	options := curpOptions(curp.Mistakes{}, without(CURPFaultKinds(), Split)...)
	options.governor = wrong
	s := Draw(seed, options)
	options.Faults = CURPFaultKinds()
	s.addSplits(newStream(seed, forPartitions, 7), len(s.env.network.Sites), options)
	return s
}

// Partitions are split in each schedule.
func TestCURPSurvivesSplits(t *testing.T) {
	t.Parallel()
	took := map[string]int{}
	for seed := range uint64(seedsFor(t) / 4) {
		s := drawSplit(seed+1, governorMistakes{})
		if f := s.Run(nil, func(path string) { took[path]++ }).Failure; f != nil {
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
	type division = curp.SplitMistakes
	for _, c := range []struct {
		name  string
		wrong governorMistakes
		after uint64
		seeds int
	}{
		{"Empty", governorMistakes{division: division{Empty: true}}, 0, 100},
		{"WithoutSessions", governorMistakes{division: division{WithoutSessions: true}}, 0, 300},
		{"KeepForgotten", governorMistakes{division: division{KeepForgotten: true}}, 360, 1000},
		{"DropAtOnce", governorMistakes{division: division{DropAtOnce: true}}, 0, 300},
		{"what witnesses have is not waited for", governorMistakes{splits: true}, 340, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFind(t, func(seed uint64) Schedule { return drawSplit(seed, c.wrong) }, nil, c.after, c.seeds, found(""))
		})
	}
}
