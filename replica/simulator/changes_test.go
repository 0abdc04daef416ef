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
	changes := []FaultKind{Change, Partition}
	wipes := []FaultKind{Change, Partition, Wipe, Wipe}
	stops := []FaultKind{Change, Partition, Crash, Loss}
	type mistakes struct {
		abd     abd.Mistakes
		gryff   gryff.Mistakes
		member  member.Mistakes
		manager managerMistakes
	}
	for _, c := range []struct {
		name       string
		wrong      mistakes
		faults     []FaultKind
		abd, gryff int // seeds; 0: it is no mistake there
	}{
		{"a lost disk votes", mistakes{member: member.Mistakes{VoteAtOnce: true}}, wipes, 500, 500},
		{"a successor has the ID of a lost member", mistakes{manager: managerMistakes{sameID: true}}, changes, 500, 500},
		{"a change is finished early", mistakes{manager: managerMistakes{uncovered: true}}, changes, 500, 500},
		{"a view is told before it is recorded", mistakes{manager: managerMistakes{forgets: true}}, changes, 500, 500},
		{"votes count on one side", mistakes{member: member.Mistakes{CountOneSide: true}}, changes, 500, 500},
		{"the state of one is enough", mistakes{member: member.Mistakes{FetchFromOne: true}}, changes, 2000, 2000},
		{"what another change fetched counts", mistakes{member: member.Mistakes{KeepFetched: true}}, changes, 2000, 2000},
		{"who was removed is answered", mistakes{member: member.Mistakes{AnyEpoch: true}, manager: managerMistakes{anyEpoch: true}}, changes, 2000, 2000},
		{"what is fetched replaces what is newer", mistakes{abd: abd.Mistakes{AdoptBlindly: true}, gryff: gryff.Mistakes{AdoptBlindly: true}}, changes, 2000, 2000},
		{"a write goes on with a new carstamp", mistakes{abd: abd.Mistakes{ResumeWithNewTag: true}, gryff: gryff.Mistakes{ResumeWithNewTag: true}}, changes, 2000, 2000},
		{"an rmw goes on as a new one", mistakes{gryff: gryff.Mistakes{ResumeAsNew: true}}, changes, 0, 500},
		{"work of earlier views is not settled", mistakes{member: member.Mistakes{SettledAtOnce: true}}, stops, 0, 4000},
		{"pre-accepts stay unchanged", mistakes{gryff: gryff.Mistakes{KeepUnchanged: true}}, stops, 0, 4000},
	} {
		find := func(t *testing.T, start Start, rmws, seeds int) {
			if raceEnabled {
				t.Skip("the search takes minutes under the race detector, and is single-threaded")
			}
			options := Options{Faults: c.faults, RMWs: rmws, wrong: c.wrong.manager}
			for seed := range uint64(seeds) {
				// What only keeps members from going on was not the mistake's harm.
				if f := Draw(seed+1, options).Run(start, nil).Failure; f != nil && f.Class != Stuck && f.Class != Unbounded {
					t.Logf("%v", f)
					return
				}
			}
			t.Errorf("not found within %d seeds", seeds)
		}
		if c.abd > 0 {
			t.Run(c.name+", ABD", func(t *testing.T) { find(t, MemberWith(abd.FactoryWith(c.wrong.abd), c.wrong.member), FewRMWs, c.abd) })
		}
		if c.gryff > 0 {
			t.Run(c.name+", Gryff", func(t *testing.T) {
				find(t, MemberWith(gryff.FactoryWith(c.wrong.gryff), c.wrong.member), ManyRMWs, c.gryff)
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
