package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

func TestRMWPaxosSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(rmwpaxos.Factory), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 5, 7}, rmwpaxos.Paths())
}

// Duelling proposers: batches are taken back long before they could be answered, so that all propose at once. Every
// operation ends all the same.
func TestRMWPaxosSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.Factory), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}, Impatient: true},
	}, nil)
}

func TestRMWPaxosSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(rmwpaxos.Factory), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs},
	}, rmwpaxos.ChangePaths())
}

func TestMistakesOfRMWPaxosAreFound(t *testing.T) {
	t.Parallel()
	type mistakes = rmwpaxos.Mistakes
	many := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	// The rarer ones are looked for where they live.
	crashed := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	crash := schedule.Options{Faults: []faults.Kind{faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	copies := schedule.Options{Faults: []faults.Kind{faults.Duplicate, faults.Reorder, faults.Loss}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	for _, c := range []struct {
		name     string
		mistakes mistakes
		member   member.Mistakes
		options  schedule.Options
		after    uint64
		seeds    int
	}{
		{"AckBeforePersist", mistakes{AckBeforePersist: true}, member.Mistakes{}, crashed, 0, 2000},
		{"CompleteBeforePersist", mistakes{CompleteBeforePersist: true}, member.Mistakes{}, crash, 0, 2000},
		{"RoundWithoutBoot", mistakes{RoundWithoutBoot: true}, member.Mistakes{}, crash, 540, 2000},
		{"NotGranted", mistakes{NotGranted: true}, member.Mistakes{}, many, 1040, 2000},
		{"IgnoreHighest", mistakes{IgnoreHighest: true}, member.Mistakes{}, many, 0, 2000},
		{"DenyAtOnce", mistakes{DenyAtOnce: true}, member.Mistakes{}, copies, 1190, 2000},
		{"ReadInconsistent", mistakes{ReadInconsistent: true}, member.Mistakes{}, many, 20, 2000},
		{"FastBlindly", mistakes{FastBlindly: true}, member.Mistakes{}, many, 0, 2000},
		{"AnyAttempt", mistakes{AnyAttempt: true}, member.Mistakes{}, copies, 0, 2000},
		{"ForgetBatches", mistakes{ForgetBatches: true}, member.Mistakes{}, many, 0, 2000},
		{"ForgetSessions", mistakes{ForgetSessions: true}, member.Mistakes{}, many, 0, 2000},
		{"VoteAtOnce", mistakes{}, member.Mistakes{VoteAtOnce: true}, wipes, 0, 500},
		{"TransferFromOne", mistakes{}, member.Mistakes{TransferFromOne: true}, wipes, 300, 2000},
		{"AdoptBlindly", mistakes{AdoptBlindly: true}, member.Mistakes{}, changes, 0, 2000},
		{"ResumeAsNew", mistakes{ResumeAsNew: true}, member.Mistakes{}, changes, 0, 500},
		{"FetchFromOne", mistakes{}, member.Mistakes{FetchFromOne: true}, changes, 40, 2000},
		{"CountOneSide", mistakes{}, member.Mistakes{CountOneSide: true}, changes, 0, 500},
		// EqualNumbers, VoteBeforePersist, CopyVotes and CountOldVotes: see below. CountDeadDisks and KeepIncarnation: see
		// TestLostDisksAreFenced. AnsweredByOneSide: see TestWhoIsLeftBehindReadsNothingOld.
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFind(t, drawn(c.options), MemberWith(rmwpaxos.FactoryWith(rmwpaxos.Options{}, c.mistakes), c.member), c.after, c.seeds, harm)
		})
	}
	// Of proposers that insist; who hands over seldom asks for the same round as another.
	t.Run("EqualNumbers", func(t *testing.T) {
		reordered := drawn(schedule.Options{Faults: []faults.Kind{faults.Reorder}, RMWs: schedule.ManyRMWs, Members: []int{3}})
		insist := rmwpaxos.Options{Insist: true}
		mustNotFind(t, reordered, Member(rmwpaxos.FactoryWith(insist, mistakes{})), 300)
		mustFind(t, reordered, Member(rmwpaxos.FactoryWith(insist, mistakes{EqualNumbers: true})), 80, 2000, harm)
	})
	t.Run("KeepDuelling", func(t *testing.T) { // without any fault
		calm := drawn(schedule.Options{RMWs: schedule.ManyRMWs, Members: []int{3, 5}})
		mustNotFind(t, calm, Member(rmwpaxos.Factory), 200)
		mustFind(t, calm, Member(rmwpaxos.FactoryWith(rmwpaxos.Options{}, mistakes{KeepDuelling: true})), 0, 200, found(check.Stuck))
	})
}

// drawForgottenPromise makes a schedule in which a proposer (0) with a slow disk stops before its own promise is
// durable, and another member (1) would have its VOTE by then. The third (2), which heard of nothing, goes on with the
// proposer's next process, which has promised nothing; then it meets the one that would have voted, in the same round
// as they.
func drawForgottenPromise(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := triangle(seed)
	s.Environment.Disks[0] = schedule.Window{Low: 60 * ms, High: 120 * ms}
	plan(&s, 0, 100*ms, schedule.Call("", register.Append, "x"))
	stop := 125*ms + draw.Between(0, 50*ms)
	next := stop + 12*ms
	plan(&s, 2, next+10*ms, schedule.Call("", register.Append, "y"))
	meet := next + 450*ms
	for i := range time.Duration(4) {
		plan(&s, 1, meet+10*ms+i*60*ms, register.Operation{Kind: register.Read})
	}
	end := meet + 400*ms
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 90 * ms, For: next - 90*ms, Side: 1 << 2},
		{Kind: faults.Crash, Node: 0, At: stop, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: next, For: meet - next, Side: 1 << 1},
		{Kind: faults.Partition, Everywhere: true, At: meet, For: end - meet, Side: 1 << 0},
	}
	s.Settle = end + 500*ms
	return s
}

// minority makes a schedule in which two of five members (0 and 1) vote for a write whose proposer stops, and another
// member (home) has its round granted by the other three, who did not see that; its VOTE leaves and can't be heard
// until the end. Who counts what is no vote for one reads the write, and then loses it. What happens meanwhile begins
// at the time that it returns.
func minority(seed uint64, home int, lasts time.Duration) (s schedule.Schedule, begin time.Duration) {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("one")})
	plan(&s, home, 140*ms, schedule.Call("", register.Append, "y"))
	cut := 122*ms + draw.Between(0, 8*ms)
	begin = 162*ms + draw.Between(0, 9*ms)
	end := begin + lasts
	plan(&s, home, end+200*ms, register.Operation{Kind: register.Read})
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: begin - cut, Side: 1<<0 | 1<<1, Rate: 1000},
		{Kind: faults.Crash, Node: 0, At: begin, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: begin, For: end - begin, Side: 1 << home, Rate: 1000},
	}
	s.Settle = end + 300*ms
	return s, begin
}

// drawCopies has one of the other three lose its disk, and copy what the minority has voted for.
func drawCopies(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, begin := minority(seed, 4, 400*ms)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Wipe, Node: 2, At: begin, For: ms})
	for i := range time.Duration(6) {
		plan(&s, 1, begin+100*ms+i*40*ms, register.Operation{Kind: register.Read})
	}
	return s
}

// drawOldVotes has two members leave: the minority may be a majority then.
func drawOldVotes(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, begin := minority(seed, 2, 900*ms)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Change, Node: 3, At: begin + 5*ms, For: 20 * ms, Leave: 2, Alive: true, Side: 1 << 2})
	for i := range time.Duration(6) {
		plan(&s, int(i%2), begin+400*ms+i*60*ms, register.Operation{Kind: register.Read})
	}
	return s
}

// What random schedules come to too seldom.
func TestRareMistakesOfRMWPaxosAreFound(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name  string
		draw  func(uint64) schedule.Schedule
		wrong rmwpaxos.Mistakes
	}{
		{"VoteBeforePersist", drawForgottenPromise, rmwpaxos.Mistakes{VoteBeforePersist: true}},
		{"CopyVotes", drawCopies, rmwpaxos.Mistakes{CopyVotes: true}},
		{"CountOldVotes", drawOldVotes, rmwpaxos.Mistakes{CountOldVotes: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			mustNotFind(t, c.draw, Member(rmwpaxos.Factory), 500)
			mustFind(t, c.draw, Member(rmwpaxos.FactoryWith(rmwpaxos.Options{}, c.wrong)), 0, 500, harm)
		})
	}
}
