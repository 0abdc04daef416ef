package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/curp"
)

// drawRuined is a schedule in which a quorum is lost.
func drawRuined(seed uint64, wrong governorMistakes) Schedule {
	options := curpOptions(curp.Mistakes{}, without(CURPFaultKinds(), Ruin)...)
	options.governor = wrong
	s := Draw(seed, options)
	s.addRuin(newStream(seed, forPartitions, 5), len(s.env.network.Sites))
	return s
}

func TestALostQuorumThatIsGivenUpTooSoonIsFound(t *testing.T) {
	t.Parallel()
	mustFind(t, func(seed uint64) Schedule { return drawRuined(seed, governorMistakes{noReplay: true}) }, nil, 0, 500, found(""))
}

// A quorum is lost in each schedule, and whatever somebody holds who is left goes on.
func TestCURPSurvivesRuin(t *testing.T) {
	t.Parallel()
	took := map[string]int{}
	for seed := range uint64(seedsFor(t) / 4) {
		s := drawRuined(seed+1, governorMistakes{})
		if f := s.Run(nil, func(path string) { took[path]++ }).Failure; f != nil {
			t.Errorf("%v\n%s", f, Explain(f))
		}
	}
	t.Logf("%d quorums were lost, %d given up; partitions: %d whole, %d shortened, %d behind, %d empty", took["curp.ruin"], took["curp.rescued"],
		took["curp.rescued.whole"], took["curp.rescued.shortened"], took["curp.rescued.behind"], took["curp.rescued.empty"])
	for _, path := range ruinPaths() {
		if took[path] == 0 && seedsFor(t) == searchSeeds {
			t.Errorf("no schedule led to %s", path)
		}
	}
}
