package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// shortLog makes members that were cut off for a while fetch each other's state.
var shortLog = raft.Tuning{Entries: 8, Bytes: 1 << 20}

func raftWith(m raft.Mistakes) Start { return Member(raft.FactoryWith(shortLog, m)) }

func TestRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, raft.Paths())
}

// Members that suspect a leader long before it could be heard.
func TestRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, append(changePathsFor(t), raft.ChangePaths()...))
}

func TestMistakesOfRaftAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = raft.Mistakes
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	// The rarer ones are looked for where they live.
	stops := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	cuts := schedule.Options{Faults: []faults.Kind{faults.Partition, faults.Loss}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Partition, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	duels := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Crash, faults.Loss, faults.Torn}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}, Impatient: true}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		member   member.Mistakes
		manager  schedule.ManagerMistakes
		options  schedule.Options
		after    uint64
		seeds    int
	}{
		{"AckBeforePersist", mistakes{AckBeforePersist: true}, member.Mistakes{}, schedule.ManagerMistakes{}, stops, 0, 500},
		{"ReadWithoutIndex", mistakes{ReadWithoutIndex: true}, member.Mistakes{}, schedule.ManagerMistakes{}, cuts, 300, 1000},
		{"ForgetVote", mistakes{ForgetVote: true}, member.Mistakes{}, schedule.ManagerMistakes{}, duels, 440, 1500},
		{"ForgetAuthors", mistakes{ForgetAuthors: true}, member.Mistakes{}, schedule.ManagerMistakes{}, all, 0, 500},
		{"ForgetSessions", mistakes{ForgetSessions: true}, member.Mistakes{}, schedule.ManagerMistakes{}, all, 0, 500},
		{"AdoptBlindly", mistakes{AdoptBlindly: true}, member.Mistakes{}, schedule.ManagerMistakes{}, changes, 0, 1000},
		{"CountOneSide", mistakes{CountOneSide: true}, member.Mistakes{}, schedule.ManagerMistakes{}, changes, 0, 1000},
		{"ResumeAsNew", mistakes{ResumeAsNew: true}, member.Mistakes{}, schedule.ManagerMistakes{}, changes, 0, 1000},
		{"VoteAtOnce", mistakes{}, member.Mistakes{VoteAtOnce: true}, schedule.ManagerMistakes{}, wipes, 0, 500},
		{"SkipSettling", mistakes{}, member.Mistakes{SkipSettling: true}, schedule.ManagerMistakes{}, wipes, 0, 2000},
		{"KeepIncarnation", mistakes{}, member.Mistakes{KeepIncarnation: true}, schedule.ManagerMistakes{}, wipes, 520, 3000},
		{"SettledAtOnce", mistakes{}, member.Mistakes{SettledAtOnce: true}, schedule.ManagerMistakes{}, changes, 200, 1000},
		// CountDeadDisks and ForgetTerm: see the protocol's own tests.
		{"a change is finished early", mistakes{}, member.Mistakes{}, schedule.ManagerMistakes{Uncovered: true}, changes, 0, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.Mistakes = c.manager
			mustFind(t, drawn(c.options), MemberWith(raft.FactoryWith(shortLog, c.mistakes), c.member), c.after, c.seeds, harm)
		})
	}
}
