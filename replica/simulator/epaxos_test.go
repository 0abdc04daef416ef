package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

func TestEPaxosSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(epaxos.Factory), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 5}, epaxos.Paths())
}

// Recoveries that duel with coordinators and with each other.
func TestEPaxosSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(epaxos.Factory), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Impatient: true},
	}, nil)
}

func TestEPaxosSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(epaxos.Factory), Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, append(changePathsFor(t), epaxos.ChangePaths()...))
}

// A write that is sent through two coordinators takes effect once.
func TestEPaxosExecutesWritesOnce(t *testing.T) {
	t.Parallel()
	named := func(seed uint64) schedule.Schedule { // clients give their writes IDs and repeat them
		s := schedule.Draw(seed, schedule.Options{Faults: sameMembers(), RMWs: schedule.FewRMWs})
		s.Environment.Named = true
		return s
	}
	mustNotFind(t, named, Member(epaxos.Factory), seedsFor(t)/10)
	mustDivide(t, named, Member(epaxos.FactoryWith(epaxos.Mistakes{ForgetSessions: true})), Member(epaxos.Factory), 0, 200, noticed)
}

func TestMistakesOfEPaxosAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = epaxos.Mistakes
	many := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs}
	few := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
	// The rarer ones are looked for where they live.
	stops := []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}
	crashed := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{3}}
	duels := schedule.Options{Faults: stops, RMWs: schedule.FewRMWs, Members: []int{3}, Impatient: true}
	five := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.ManyRMWs}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		member   member.Mistakes
		options  schedule.Options
		after    uint64
		seeds    int
	}{
		{"AckBeforePersist", mistakes{AckBeforePersist: true}, member.Mistakes{}, crashed, 0, 500},
		{"FastOnMerged", mistakes{FastOnMerged: true}, member.Mistakes{}, crashed, 0, 2000},
		{"FastOnMerged of five", mistakes{FastOnMerged: true}, member.Mistakes{}, five, 140, 500},
		{"FastOnMajority", mistakes{FastOnMajority: true}, member.Mistakes{}, five, 110, 500},
		{"AskAllAlone", mistakes{AskAllAlone: true}, member.Mistakes{}, crashed, 0, 2000},
		{"StayAlone", mistakes{StayAlone: true}, member.Mistakes{}, crashed, 450, 4000},
		{"RecoverInitial", mistakes{RecoverInitial: true}, member.Mistakes{}, crashed, 0, 2000},
		{"CommitBeforePersist", mistakes{CommitBeforePersist: true}, member.Mistakes{}, crashed, 0, 3000},
		{"AnswerOnCommit", mistakes{AnswerOnCommit: true}, member.Mistakes{}, many, 0, 200},
		{"ForgetExecuted", mistakes{ForgetExecuted: true}, member.Mistakes{}, many, 0, 200},
		{"ExecutedGoesBack", mistakes{ExecutedGoesBack: true}, member.Mistakes{}, schedule.Options{Faults: faults.Without(faults.Kinds(), faults.OldCopy, faults.Rot), RMWs: schedule.ManyRMWs, Members: []int{3}}, 100280, 1},
		{"ExecutedGoesBack in duels", mistakes{ExecutedGoesBack: true}, member.Mistakes{}, duels, 1265, 500},
		{"ForgetSessions", mistakes{ForgetSessions: true}, member.Mistakes{}, many, 0, 200},
		{"OrderBySelf", mistakes{OrderBySelf: true}, member.Mistakes{}, many, 0, 200},
		{"OrderByNumber", mistakes{OrderByNumber: true}, member.Mistakes{}, few, 80, 2000},
		{"ResumeAsNew", mistakes{ResumeAsNew: true}, member.Mistakes{}, changes, 0, 500},
		{"VoteAtOnce", mistakes{}, member.Mistakes{VoteAtOnce: true}, wipes, 0, 500},
		{"SkipSettling", mistakes{}, member.Mistakes{SkipSettling: true}, wipes, 110, 4000},
		{"SettledAtOnce", mistakes{}, member.Mistakes{SettledAtOnce: true}, changes, 110, 1000},
		{"CountOneSide", mistakes{}, member.Mistakes{CountOneSide: true}, changes, 0, 500},
		// OneBallot: see below. Of lost disks: see TestMistakesOfLostDisksAreFound. AnswerNamed, KeepAgreed and
		// RecoverAsPlain: see the protocol's own tests.
	} {
		t.Run(c.name, func(t *testing.T) {
			mustDivide(t, drawn(c.options), MemberWith(epaxos.FactoryWith(c.mistakes), c.member), Member(epaxos.Factory), c.after, c.seeds, divided)
		})
	}
}

// drawInterferingDuel is drawDuel with a write that c's rmw interferes with: without it, all have the same attributes.
func drawInterferingDuel(seed uint64) schedule.Schedule {
	s := drawDuel(seed)
	s.Clients[0].Operations[0].At = 155 * time.Millisecond
	return s
}

func TestRareMistakesOfEPaxosAreFound(t *testing.T) {
	t.Parallel()
	// Order is irrelevant: each is a test.
	for name, draw := range map[string]func(uint64) schedule.Schedule{"three": drawInterferingDuel, "five": drawDuelOfFive} {
		t.Run("OneBallot of "+name, func(t *testing.T) {
			mustNotFind(t, draw, Member(epaxos.Factory), 300)
			mustDivide(t, draw, Member(epaxos.FactoryWith(epaxos.Mistakes{OneBallot: true})), Member(epaxos.Factory), 0, 2000, divided)
		})
	}
}
