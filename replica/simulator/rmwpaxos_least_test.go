package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/schedule"
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
	type mistakes = rmwpaxos.Mistakes
	every := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	writes := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	idempotent := schedule.Options{Faults: wholeDisks(), Idempotent: true, Members: []int{3, 5}}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		options  schedule.Options
		after    uint64
	}{
		{"AnyFunction", mistakes{AnyFunction: true}, every, 0},
		{"AnyWrite", mistakes{AnyWrite: true}, writes, 0},
		{"IgnoreHighest", mistakes{IgnoreHighest: true}, idempotent, 0},
		{"ReadInconsistent", mistakes{ReadInconsistent: true}, idempotent, 0},
		{"FastBlindly", mistakes{FastBlindly: true}, idempotent, 0},
		{"NotGranted", mistakes{NotGranted: true}, idempotent, 1580},
	} {
		t.Run(c.name, func(t *testing.T) {
			start := Member(rmwpaxos.FactoryWith(rmwpaxos.Options{AtLeastOnce: true}, c.mistakes))
			mustFind(t, drawn(c.options), start, c.after, 2000, harm)
		})
	}
	t.Run("refused", func(t *testing.T) { mustNotFind(t, drawn(every), Member(rmwpaxos.AtLeastOnce), 20) })
}
