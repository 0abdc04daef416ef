package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/raft"
)

// smallCURPRaft makes members that were cut off for a while fetch each other's state.
var smallCURPRaft = curpraft.Tuning{Log: shortLog, Slots: 64}

func curpraftWith(m curpraft.Mistakes) Start { return Member(curpraft.FactoryWith(smallCURPRaft, m)) }

func TestCURPRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: curpraftWith(curpraft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: Options{Faults: sameMembers(), RMWs: ManyRMWs, Members: []int{3, 5}},
	}, curpraft.Paths())
}

// Members that suspect a leader long before it could be heard.
func TestCURPRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: curpraftWith(curpraft.Mistakes{}), First: 1, Seeds: seedsFor(t) / 4,
		Options: Options{Faults: sameMembers(), RMWs: ManyRMWs, Members: []int{3, 5, 7}, Impatient: true},
	}, nil)
}

func TestCURPRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: curpraftWith(curpraft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: Options{Faults: FaultKinds(), RMWs: ManyRMWs, Members: []int{3, 5}},
	}, append(changePathsFor(t), raft.ChangePaths()...))
}
