package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
)

// The register that applies updates at least once is linearizable for updates of which that can't be seen: what the checker
// judges is that every update took effect once, between its call and its answer, and answered what it found then.
func TestRMWPaxosAtLeastOnceSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), First: 1, Seeds: seedsFor(t) / 2,
		Options: Options{Faults: sameMembers(), Idempotent: true, Members: []int{3, 5}},
	}, rmwpaxos.AtLeastOncePaths())
}

func TestRMWPaxosAtLeastOnceSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), First: 1, Seeds: seedsFor(t) / 8,
		Options: Options{Faults: sameMembers(), Idempotent: true, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRMWPaxosAtLeastOnceSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.AtLeastOnce), First: 1, Seeds: seedsFor(t) / 4,
		Options: Options{Faults: FaultKinds(), Idempotent: true},
	}, nil)
}

// What is not idempotent must be refused: the mistake of taking it all the same is found, and what is refused does no harm.
func TestMistakesOfRMWPaxosAtLeastOnceAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = rmwpaxos.Mistakes
	every := Options{Faults: sameMembers(), RMWs: ManyRMWs, Members: []int{3, 5}}
	writes := Options{Faults: sameMembers(), RMWs: FewRMWs, Members: []int{3, 5}}
	idempotent := Options{Faults: sameMembers(), Idempotent: true, Members: []int{3, 5}}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		options  Options
		first    uint64 // near the seed that shows it
		seeds    uint64
	}{
		{"AnyFunction", mistakes{AnyFunction: true}, every, 1, 2000},
		{"AnyWrite", mistakes{AnyWrite: true}, writes, 1, 2000},
		{"IgnoreHighest", mistakes{IgnoreHighest: true}, idempotent, 1, 2000},
		{"ReadInconsistent", mistakes{ReadInconsistent: true}, idempotent, 1, 2000},
		{"FastBlindly", mistakes{FastBlindly: true}, idempotent, 1, 2000},
		{"NotGranted", mistakes{NotGranted: true}, idempotent, 1581, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the search takes minutes under the race detector, and is single-threaded")
			}
			start := Member(rmwpaxos.FactoryWith(rmwpaxos.Options{AtLeastOnce: true}, c.mistakes))
			for seed := range c.seeds {
				s := Draw(c.first+seed, c.options)
				s.check = 5 * time.Second
				if f := s.Run(start, nil).Failure; f != nil && !slices.Contains([]Class{Stuck, Unbounded, Undecided}, f.Class) {
					t.Logf("seed %d: %.200v", c.first+seed, f)
					return
				}
			}
			t.Fatalf("not found within %d seeds from %d", c.seeds, c.first)
		})
	}
	t.Run("refused", func(t *testing.T) {
		for seed := range uint64(20) {
			if f := Draw(seed+1, every).Run(Member(rmwpaxos.AtLeastOnce), nil).Failure; f != nil {
				t.Fatalf("seed %d: %v", seed+1, f)
			}
		}
	})
}
