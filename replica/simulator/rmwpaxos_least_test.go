package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// The register that applies updates at least once is linearizable for updates of which that can't be seen: what the
// checker judges is that every update took effect once, between its call and its answer, and answered what it found
// then.
func TestRMWPaxosAtLeastOnceSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), Options: schedule.Options{Faults: sameMembers(), Idempotent: true}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 5}, rmwpaxos.AtLeastOncePaths())
}

func TestRMWPaxosAtLeastOnceSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), First: 1, Seeds: seedsFor(t) / 8,
		Options: schedule.Options{Faults: sameMembers(), Idempotent: true, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRMWPaxosAtLeastOnceSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: faults.Kinds(), Idempotent: true},
	}, nil)
}

// What is not idempotent must be refused: the mistake of taking it all the same is found, and what is refused does no
// harm.
func TestMistakesOfRMWPaxosAtLeastOnceAreFound(t *testing.T) {
	t.Parallel()
	every := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	writes := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	idempotent := schedule.Options{Faults: wholeDisks(), Idempotent: true, Members: []int{3, 5}}
	found := mutants.Build(t)
	for _, c := range []struct {
		mutant  string
		options schedule.Options
		after   uint64
	}{
		{"rmwpaxos/any-function", every, 0},
		{"rmwpaxos/any-write", writes, 0},
		{"rmwpaxos/ignore-highest", idempotent, 0},
		{"rmwpaxos/read-inconsistent", idempotent, 0},
		{"rmwpaxos/fast-blindly", idempotent, 0},
		{"rmwpaxos/not-granted", idempotent, 1580},
	} {
		found.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			mustFind(t, drawn(c.options), Member(rmwpaxos.AtLeastOnce), c.after, 2000, harm)
		})
	}
	t.Run("refused", func(t *testing.T) { mustNotFind(t, drawn(every), Member(rmwpaxos.AtLeastOnce), 20) })
}
