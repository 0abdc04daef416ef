package simulator

import (
	"cmp"
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// shortLog makes members that were cut off for a while fetch each other's state.
var shortLog = protocol.Tuning{LogEntries: 8, LogBytes: 1 << 20}

func shortRaft(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	config.Tuning.LogEntries = cmp.Or(config.Tuning.LogEntries, shortLog.LogEntries)
	config.Tuning.LogBytes = cmp.Or(config.Tuning.LogBytes, shortLog.LogBytes)
	return raft.New(config, journal, known, nil)
}

func TestRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortRaft), First: 1, Seeds: seedsFor(t),
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, raft.Paths())
}

// Members that suspect a leader long before it could be heard.
func TestRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortRaft), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortRaft), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, append(changePathsFor(t), raft.ChangePaths()...))
}

func TestMistakesOfRaftAreFound(t *testing.T) {
	t.Parallel()
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	// The rarer ones are looked for where they live.
	stops := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	cuts := schedule.Options{Faults: []faults.Kind{faults.Partition, faults.Loss}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Partition, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	duels := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Crash, faults.Loss, faults.Torn}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}, Impatient: true}
	mustFindEach(t, Member(shortRaft), byClass(harm), []hunt{
		{"raft/ack-before-persist", stops, 0, 500},
		{"raft/read-without-index", cuts, 300, 1000},
		{"raft/forget-vote", duels, 440, 1500},
		{"raft/forget-authors", all, 0, 500},
		{"raft/forget-sessions", all, 0, 500},
		{"raft/adopt-blindly", changes, 0, 1000},
		{"raft/count-one-side", changes, 0, 1000},
		{"raft/resume-as-new", changes, 0, 1000},
		{"membership/finish-uncovered", changes, 0, 1000},
		{"member/vote-at-once", wipes, 0, 500},
		{"member/keep-incarnation", wipes, 1320, 3000},
		{"member/settled-at-once", changes, 200, 1000},
	})
	limits := schedule.Options{Faults: append(sameMembers(), faults.Limits), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	mustFindEach(t, Member(shortRaft), byClass(found(check.Stuck)), []hunt{
		{"raft/leave-refused", limits, 0, 500},
		{"raft/one-author", limits, 0, 300},
	})
	pages := func(seed uint64) schedule.Schedule {
		return directed.StatesInPages(seed, schedule.Options{RMWs: schedule.ManyRMWs})
	}
	program := mutants.Build(t)
	program.Run(t, "raft/ask-once-for-a-page", "raft/ask-once-for-a-page", func(t *testing.T) {
		mustFind(t, pages, Member(raft.Factory), 0, 200, found(check.Stuck))
	})
	program.Run(t, "raft/pull-once", "raft/pull-once", func(t *testing.T) {
		mustFind(t, pages, Member(raft.Factory), 0, 200, found(check.Breach))
	})
}
