package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/raft"
)

// shortLog makes members that were cut off for a while fetch each other's state.
var shortLog = raft.Tuning{Entries: 8, Bytes: 1 << 20}

func raftWith(m raft.Mistakes) Start { return Member(raft.FactoryWith(shortLog, m)) }

func TestRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: Options{Faults: sameMembers(), RMWs: ManyRMWs, Members: []int{3, 5}},
	}, raft.Paths())
}
