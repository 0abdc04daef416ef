package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/member"
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

// Members that suspect a leader long before it could be heard.
func TestRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t) / 4,
		Options: Options{Faults: sameMembers(), RMWs: ManyRMWs, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: raftWith(raft.Mistakes{}), First: 1, Seeds: seedsFor(t),
		Options: Options{Faults: FaultKinds(), RMWs: ManyRMWs, Members: []int{3, 5}},
	}, append(changePathsFor(t), raft.ChangePaths()...))
}

func TestMistakesOfRaftAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = raft.Mistakes
	all := Options{Faults: wholeDisks(), RMWs: ManyRMWs, Members: []int{3, 5}}
	// The rarer ones are looked for where they live.
	stops := Options{Faults: []FaultKind{Crash, Torn, Partition, Loss, Reorder}, RMWs: ManyRMWs, Members: []int{3}}
	cuts := Options{Faults: []FaultKind{Partition, Loss}, RMWs: FewRMWs, Members: []int{3, 5}}
	wipes := Options{Faults: []FaultKind{Wipe, Wipe, Partition, Loss, Crash}, RMWs: ManyRMWs, Members: []int{3}}
	changes := Options{Faults: []FaultKind{Change, Partition}, RMWs: ManyRMWs, Members: []int{3, 5}}
	duels := Options{Faults: []FaultKind{Crash, Crash, Loss, Torn}, RMWs: ManyRMWs, Members: []int{3, 5}, Impatient: true}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		member   member.Mistakes
		manager  managerMistakes
		options  Options
		after    uint64
		seeds    int
	}{
		{"AckBeforePersist", mistakes{AckBeforePersist: true}, member.Mistakes{}, managerMistakes{}, stops, 0, 500},
		{"ReadWithoutIndex", mistakes{ReadWithoutIndex: true}, member.Mistakes{}, managerMistakes{}, cuts, 300, 1000},
		{"ForgetVote", mistakes{ForgetVote: true}, member.Mistakes{}, managerMistakes{}, duels, 440, 1500},
		{"ForgetAuthors", mistakes{ForgetAuthors: true}, member.Mistakes{}, managerMistakes{}, all, 0, 500},
		{"ForgetSessions", mistakes{ForgetSessions: true}, member.Mistakes{}, managerMistakes{}, all, 0, 500},
		{"AdoptBlindly", mistakes{AdoptBlindly: true}, member.Mistakes{}, managerMistakes{}, changes, 0, 1000},
		{"CountOneSide", mistakes{CountOneSide: true}, member.Mistakes{}, managerMistakes{}, changes, 0, 1000},
		{"ResumeAsNew", mistakes{ResumeAsNew: true}, member.Mistakes{}, managerMistakes{}, changes, 0, 1000},
		{"VoteAtOnce", mistakes{}, member.Mistakes{VoteAtOnce: true}, managerMistakes{}, wipes, 0, 500},
		{"SkipSettling", mistakes{}, member.Mistakes{SkipSettling: true}, managerMistakes{}, wipes, 0, 2000},
		{"KeepIncarnation", mistakes{}, member.Mistakes{KeepIncarnation: true}, managerMistakes{}, wipes, 520, 3000},
		{"SettledAtOnce", mistakes{}, member.Mistakes{SettledAtOnce: true}, managerMistakes{}, changes, 200, 1000},
		// CountDeadDisks and ForgetTerm: see the protocol's own tests.
		{"a change is finished early", mistakes{}, member.Mistakes{}, managerMistakes{uncovered: true}, changes, 0, 1000},
	} {
		t.Run(c.name, func(t *testing.T) {
			c.options.wrong = c.manager
			mustFind(t, drawn(c.options), MemberWith(raft.FactoryWith(shortLog, c.mistakes), c.member), c.after, c.seeds, harm)
		})
	}
}
