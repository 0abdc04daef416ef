package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/member"
)

func TestEPaxosSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(epaxos.Factory), Options: Options{Faults: sameMembers(), RMWs: ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, epaxos.Paths())
}

// Recoveries that duel with coordinators and with each other.
func TestEPaxosSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(epaxos.Factory), First: 1, Seeds: seedsFor(t) / 4,
		Options: Options{Faults: sameMembers(), RMWs: ManyRMWs, Impatient: true},
	}, nil)
}

func TestEPaxosSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(epaxos.Factory), Options: Options{Faults: FaultKinds(), RMWs: ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, append(changePathsFor(t), epaxos.ChangePaths()...))
}

// findNamed is Find with clients that give their writes IDs and repeat them.
func findNamed(start Start, options Options, seeds int) *Failure {
	for seed := range uint64(seeds) {
		s := Draw(seed+1, options)
		s.env.named = true
		if o := s.Run(start, nil); o.Failure != nil {
			return o.Failure
		}
	}
	return nil
}

// A write that is sent through two coordinators takes effect once.
func TestEPaxosExecutesWritesOnce(t *testing.T) {
	t.Parallel()
	options := Options{Faults: sameMembers(), RMWs: FewRMWs}
	if f := findNamed(Member(epaxos.Factory), options, seedsFor(t)/10); f != nil {
		t.Errorf("%v\n%s", f, Explain(f))
	}
	if raceEnabled {
		return
	}
	f := findNamed(Member(epaxos.FactoryWith(epaxos.Mistakes{ForgetSessions: true})), options, 200)
	if f == nil {
		t.Fatal("writes that are executed twice are not found")
	}
	t.Logf("%v", f)
}

func TestMistakesOfEPaxosAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = epaxos.Mistakes
	many := Options{Faults: sameMembers(), RMWs: ManyRMWs}
	few := Options{Faults: sameMembers(), RMWs: FewRMWs}
	// The rarer ones are looked for where they live.
	stops := []FaultKind{Crash, Torn, Partition, Loss, Reorder}
	crashed := Options{Faults: stops, RMWs: ManyRMWs, Members: []int{3}}
	wipes := Options{Faults: []FaultKind{Wipe, Wipe, Loss, Crash}, RMWs: ManyRMWs}
	changes := Options{Faults: []FaultKind{Change, Partition}, RMWs: ManyRMWs}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		member   member.Mistakes
		options  Options
		after    uint64
		seeds    int
	}{
		{"AckBeforePersist", mistakes{AckBeforePersist: true}, member.Mistakes{}, crashed, 0, 500},
		{"FastOnMerged", mistakes{FastOnMerged: true}, member.Mistakes{}, crashed, 0, 2000},
		{"CommitBeforePersist", mistakes{CommitBeforePersist: true}, member.Mistakes{}, crashed, 0, 3000},
		{"AnswerOnCommit", mistakes{AnswerOnCommit: true}, member.Mistakes{}, many, 0, 200},
		{"ForgetExecuted", mistakes{ForgetExecuted: true}, member.Mistakes{}, many, 0, 200},
		{"ForgetSessions", mistakes{ForgetSessions: true}, member.Mistakes{}, many, 0, 200},
		{"OrderBySelf", mistakes{OrderBySelf: true}, member.Mistakes{}, many, 0, 200},
		{"OrderByNumber", mistakes{OrderByNumber: true}, member.Mistakes{}, few, 80, 2000},
		{"ResumeAsNew", mistakes{ResumeAsNew: true}, member.Mistakes{}, changes, 0, 500},
		{"VoteAtOnce", mistakes{}, member.Mistakes{VoteAtOnce: true}, wipes, 0, 500},
		{"TransferFromOne", mistakes{}, member.Mistakes{TransferFromOne: true}, wipes, 60, 2000},
		{"SkipSettling", mistakes{}, member.Mistakes{SkipSettling: true}, wipes, 110, 4000},
		{"SettledAtOnce", mistakes{}, member.Mistakes{SettledAtOnce: true}, changes, 110, 1000},
		{"CountOneSide", mistakes{}, member.Mistakes{CountOneSide: true}, changes, 0, 500},
		// OneBallot: see below. AnswerNamed, KeepUnchanged and RecoverAsPlain: see the protocol's own tests.
	} {
		t.Run(c.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the search takes minutes under the race detector, and is single-threaded")
			}
			f := findAfter(MemberWith(epaxos.FactoryWith(c.mistakes), c.member), c.options, c.after, c.seeds)
			if f == nil {
				t.Fatalf("not found in %d seeds after %d", c.seeds, c.after)
			}
			t.Logf("%v", f)
		})
	}
}

// drawInterferingDuel is drawDuel with a write that c's rmw interferes with: without it, c would have committed at once.
func drawInterferingDuel(seed uint64) Schedule {
	s := drawDuel(seed)
	s.Clients[0].Operations[0].At = 155 * time.Millisecond
	return s
}

func TestRareMistakesOfEPaxosAreFound(t *testing.T) {
	t.Parallel()
	find := func(start Start, seeds uint64) *Failure {
		for seed := range seeds {
			if o := drawInterferingDuel(seed).Run(start, nil); o.Failure != nil {
				return o.Failure
			}
		}
		return nil
	}
	if f := find(Member(epaxos.Factory), 300); f != nil {
		t.Errorf("%v\n%s", f, Explain(f))
	}
	f := find(Member(epaxos.FactoryWith(epaxos.Mistakes{OneBallot: true})), 2000)
	if f == nil {
		t.Fatal("not found within 2000 seeds")
	}
	t.Logf("%v", f)
}
