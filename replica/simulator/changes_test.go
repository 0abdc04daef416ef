package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
)

// sameMembers are all faults but replacements: the schedules in which the view stays what it was.
func sameMembers() []FaultKind { return without(FaultKinds(), Change) }

func TestABDSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(abd.Factory), Options: Options{Faults: FaultKinds(), RMWs: FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, managerPaths())
}

func TestGryffSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(gryff.Factory), Options: Options{Faults: FaultKinds(), RMWs: ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, managerPaths())
}

func TestMistakesOfChangesAreFound(t *testing.T) {
	t.Parallel()
	faults := []FaultKind{Change, Partition}
	type factory struct {
		name  string
		inner member.Factory
		rmws  int
	}
	both := []factory{{"ABD", abd.Factory, FewRMWs}, {"Gryff", gryff.Factory, ManyRMWs}}
	for _, c := range []struct {
		name    string
		inner   []factory
		member  member.Mistakes
		manager managerMistakes
		faults  []FaultKind
		seeds   int
	}{
		{"a lost disk votes", both, member.Mistakes{VoteAtOnce: true}, managerMistakes{}, append(faults, Wipe), 1000},
		{"a lost member's successor has its ID and votes", both, member.Mistakes{}, managerMistakes{sameID: true}, faults, 1000},
		{"a change is finished too early", both, member.Mistakes{}, managerMistakes{uncovered: true}, faults, 1000},
		{"a view is told before it is recorded", both, member.Mistakes{}, managerMistakes{forgets: true}, faults, 1000},
		{"votes count on one side", both, member.Mistakes{CountOneSide: true}, managerMistakes{}, faults, 1000},
		{"the state of one is enough", both, member.Mistakes{FetchFromOne: true}, managerMistakes{}, faults, 1000},
		{"what was fetched for another change counts", both, member.Mistakes{KeepFetched: true}, managerMistakes{}, faults, 1000},
		{"members of two views count each other", both, member.Mistakes{AnyEpoch: true}, managerMistakes{anyEpoch: true}, faults, 1000},
		{"a member's boot stays what it was", both, member.Mistakes{}, managerMistakes{sameBoot: true}, faults, 1000},
		{"work of earlier views is not settled", both[1:], member.Mistakes{SettledAtOnce: true}, managerMistakes{}, faults, 4000},
	} {
		for _, f := range c.inner {
			t.Run(c.name+", "+f.name, func(t *testing.T) {
				if raceEnabled {
					t.Skip("the search takes minutes under the race detector, and is single-threaded")
				}
				f := Find(MemberWith(f.inner, c.member), Options{Faults: c.faults, RMWs: f.rmws, wrong: c.manager}, c.seeds)
				if f == nil {
					t.Fatalf("not found within %d seeds", c.seeds)
				}
				t.Logf("%v", f)
			})
		}
	}
}

// drawStraggler makes a schedule in which one of five members, b, is not told of the next view for a while. The
// member that was replaced, a, lives on near it, and so does c, which holds the next view. A write meets the other
// two members of that view and the newcomer; then b reads. If answers of one view counted in another, b would have
// a majority of the former view: a, itself and c. Random schedules come to this too seldom.
func drawStraggler(seed uint64) Schedule {
	const ms = time.Millisecond
	draw := newStream(seed, forSchedule, 3)
	network := profile.Profile{Name: "straggler", Sites: []string{"a", "b", "c", "d", "e"}}
	for a := range 5 {
		network.RTT = append(network.RTT, slices.Repeat([]time.Duration{30 * ms}, 5))
		network.RTT[a][a] = profile.Local
	}
	for _, near := range [][2]int{{0, 1}, {1, 2}, {3, 4}, {0, 3}} {
		network.RTT[near[0]][near[1]], network.RTT[near[1]][near[0]] = 6*ms, 6*ms
	}
	s := Schedule{Seed: seed, env: environment{
		network: network, shards: 1, jitter: 100, disks: slices.Repeat([]window{{100 * time.Microsecond, 500 * time.Microsecond}}, 5),
		sealed: true, retry: 70 * ms, suspect: 200 * ms, clientRTT: profile.Local, patience: 2 * time.Second,
	}}
	const round = 300 * ms // of the manager; b stands still whenever it calls
	s.Faults = append(s.Faults, Fault{Kind: Change, Node: 0, At: 100 * ms, For: round, Join: 1, Leave: 1, Alive: true})
	for i := range time.Duration(3) {
		s.Faults = append(s.Faults, Fault{Kind: Pause, Node: 1, At: 90*ms + i*round, For: 20 * ms})
	}
	s.plan(3, 20*ms, register.Operation{Kind: register.Write, Value: register.Value("old")})
	s.plan(3, 550*ms+draw.between(0, 30*ms), register.Operation{Kind: register.Write, Value: register.Value("new")})
	for i := range time.Duration(8) {
		s.plan(1, 600*ms+i*10*ms, register.Operation{Kind: register.Read})
	}
	s.Settle = 1200 * ms
	return s
}

// drawRestamp makes a schedule in which a member is given a view after one other has its write, before that is on
// its own disk, and writes again where the other can't be heard. Only its boot keeps the two carstamps apart.
func drawRestamp(seed uint64) Schedule {
	const ms = time.Millisecond
	draw := newStream(seed, forSchedule, 4)
	network := profile.Profile{Name: "restamp", Sites: []string{"a", "b", "c", "d", "e"}}
	for a := range 5 {
		network.RTT = append(network.RTT, slices.Repeat([]time.Duration{60 * ms}, 5))
		network.RTT[a][a] = profile.Local
	}
	network.RTT[0][1], network.RTT[1][0] = 20*ms, 20*ms
	s := Schedule{Seed: seed, env: environment{
		network: network, shards: 1, disks: slices.Repeat([]window{{100 * time.Microsecond, 500 * time.Microsecond}}, 5),
		sealed: true, retry: 130 * ms, suspect: 400 * ms, clientRTT: profile.Local, patience: time.Second,
	}}
	s.env.disks[0] = window{30 * ms, 60 * ms}
	s.plan(0, 300*ms, register.Operation{Kind: register.Write, Value: register.Value("first")})
	told := 365*ms + draw.between(0, 25*ms)
	cut := told + draw.between(5*ms, 15*ms)
	s.plan(0, cut+10*ms, register.Operation{Kind: register.Write, Value: register.Value("second")})
	end := cut + 600*ms
	for i := range 6 {
		s.plan(1+i%2, end+time.Duration(i)*150*ms, register.Operation{Kind: register.Read})
	}
	s.Faults = []Fault{
		{Kind: Change, Node: 4, At: told, For: 50 * ms, Join: 1, Leave: 1},
		{Kind: Partition, Node: -1, At: cut, For: end - cut, Side: 1 << 1},
	}
	s.Settle = end + 1000*ms
	return s
}

// What random schedules come to too seldom.
func TestRareMistakesOfReplacementsAreFound(t *testing.T) {
	t.Parallel()
	const seeds = 500
	find := func(draw func(uint64) Schedule, start Start, wrong managerMistakes) *Failure {
		for seed := range uint64(seeds) {
			s := draw(seed)
			s.env.wrong = wrong
			if o := s.Run(start, nil); o.Failure != nil && (o.Failure.Class == Violation || wrong == managerMistakes{}) {
				return o.Failure // members of two views also stop, since they take positions in one for the other's
			}
		}
		return nil
	}
	for _, c := range []struct {
		name   string
		draw   func(uint64) Schedule
		member member.Mistakes
		wrong  managerMistakes
	}{
		{"members of two views count each other", drawStraggler, member.Mistakes{AnyEpoch: true}, managerMistakes{anyEpoch: true}},
		{"a carstamp is issued in two views", drawRestamp, member.Mistakes{}, managerMistakes{sameBoot: true}},
	} {
		for name, inner := range map[string]member.Factory{"ABD": abd.Factory, "Gryff": gryff.Factory} { // order is irrelevant: each is a test
			t.Run(c.name+", "+name, func(t *testing.T) {
				if f := find(c.draw, Member(inner), managerMistakes{}); f != nil {
					t.Errorf("%v\n%s", f, Explain(f))
				}
				f := find(c.draw, MemberWith(inner, c.member), c.wrong)
				if f == nil {
					t.Fatalf("not found within %d seeds", seeds)
				}
				t.Logf("%v", f)
			})
		}
	}
}
