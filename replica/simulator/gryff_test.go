package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

func TestGryffSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(gryff.Factory), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 5}, gryff.Paths())
}

// Recoveries that duel with coordinators and with each other.
func TestGryffSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(gryff.Factory), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: patient(), RMWs: schedule.ManyRMWs, Impatient: true},
	}, nil)
}

func TestMutantsOfGryffAreFound(t *testing.T) {
	t.Parallel()
	few := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
	many := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs}
	// The rarer ones are looked for where they live.
	stops := []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}
	crashes := schedule.Options{Faults: stops, RMWs: schedule.FewRMWs, Members: []int{3}}
	crash := schedule.Options{Faults: []faults.Kind{faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	crashed := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{3}}
	five := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs}
	mustFindEach(t, Member(gryff.Factory), divided, []hunt{
		{"gryff/answer-before-persist", crashes, 400, 3000},
		{"gryff/reply-volatile", crashes, 1900, 4000},
		{"gryff/spread-volatile", crash, 1000, 2000},
		{"gryff/skip-write-back", few, 510, 2000},
		{"gryff/reread-value", few, 60, 500},
		{"gryff/retry-with-new-tag", few, 5, 500},
		{"gryff/same-tag", few, 120, 2000},
		{"base/send-before-persist", crashed, 0, 500},
		{"instance/fast-on-merged", crashed, 0, 2000},
		{"instance/fast-on-merged of five", five, 390, 2000},
		{"instance/fast-on-majority", five, 250, 500},
		{"instance/ask-all-alone", crashed, 0, 2000},
		{"instance/stay-alone", crashed, 1150, 4000},
		{"instance/recover-initial", crashed, 120, 2000},
		{"instance/commit-before-persist", crashed, 70, 3000},
		{"instance/answer-on-commit", many, 0, 200},
		{"instance/base-not-recovered", crashed, 0, 500},
		{"instance/base-not-recovered of five", five, 120, 500},
		{"instance/forget-previous", many, 0, 200},
		{"instance/forget-executed", many, 0, 200},
		{"instance/forget-sessions", many, 0, 200},
		{"instance/order-by-self", many, 0, 200},
		{"member/vote-at-once", wipes, 0, 500},
		{"member/skip-settling", wipes, 90, 4000},
		// gryff/tag-without-boot and instance/one-ballot: see TestRareMutantsOfGryffAreFound. Of lost disks: see
		// TestMistakesOfLostDisksAreFound.
	})
}

// triangle is three members, the first two near each other, with a client for each operation.
func triangle(seed uint64) (schedule.Schedule, kernel.Stream) {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 2)
	network := profile.Profile{Name: "triangle", Sites: []string{"a", "b", "c"}, RTT: [][]time.Duration{
		{profile.Local, 20 * ms, 22 * ms}, {20 * ms, profile.Local, 22 * ms}, {22 * ms, 22 * ms, profile.Local},
	}}
	return schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 100, Disks: slices.Repeat([]schedule.Window{{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}}, 3),
		Sealed: true, Retry: 30 * ms, Suspect: 60 * ms, ClientRTT: profile.Local, Patience: time.Second,
	}}, draw
}

func plan(s *schedule.Schedule, home int, at time.Duration, op register.Operation) {
	op.Key = schedule.MixedPrefix + "0"
	s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
}

// drawDuel makes a schedule of two recoveries of one instance: c was not heard when it asked one member, asked both,
// accepted what they added in its own ballot, was cut off, and promised itself higher ones; a and b made it a no-op,
// and b alone remembers. Who has but one ballot takes c's promise for the later acceptance.
func drawDuel(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := triangle(seed)
	plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("base")})
	plan(&s, 2, 160*ms, register.Operation{Kind: register.RMW, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("x")}}})
	unheard := 158 * ms
	alone := 212*ms + draw.Between(0, 8*ms)
	silent := 320*ms + draw.Between(0, 50*ms)
	again := 390 * ms
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: unheard, For: 20 * ms, Side: 1 << 2, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: alone, For: again - alone, Side: 1 << 2, Rate: 1000},
		{Kind: faults.Crash, Node: 2, At: alone + 10*ms, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: silent, For: time.Second, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Crash, Node: 2, At: alone + draw.Between(60*ms, 100*ms), For: ms},
	}
	s.Settle = silent + time.Second
	return s
}

// drawReborn makes a schedule in which a writer stops after one member has its write, before it is on the writer's
// own disk, and writes again where that member can't be heard.
func drawReborn(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := triangle(seed)
	s.Environment.Disks[0] = schedule.Window{Low: 30 * ms, High: 60 * ms}
	plan(&s, 0, 300*ms, register.Operation{Kind: register.Write, Value: register.Value("first")})
	stop := 325*ms + draw.Between(0, 20*ms)
	cut := stop + draw.Between(5*ms, 15*ms)
	plan(&s, 0, cut+10*ms, register.Operation{Kind: register.Write, Value: register.Value("second")})
	end := cut + 600*ms
	for i := range 6 {
		plan(&s, 1+i%2, end+time.Duration(i)*60*ms, register.Operation{Kind: register.Read})
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Crash, Node: 0, At: stop, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: cut, For: end - cut, Side: 1 << 1},
	}
	s.Settle = end + 500*ms
	return s
}

func TestRareMutantsOfGryffAreFound(t *testing.T) {
	t.Parallel()
	found := mutants.Build(t)
	for _, c := range []struct {
		name, mutant string
		draw         func(uint64) schedule.Schedule
	}{
		{"tag-without-boot", "gryff/tag-without-boot", drawReborn},
		{"one-ballot of three", "instance/one-ballot", drawDuel},
		{"one-ballot of five", "instance/one-ballot", drawDuelOfFive},
	} {
		t.Run("correct, "+c.name, func(t *testing.T) { mustNotFind(t, c.draw, Member(gryff.Factory), 300) })
		found.Run(t, c.name, c.mutant, func(t *testing.T) {
			mustFail(t, c.draw, Member(gryff.Factory), 0, 2000, divided)
		})
	}
}
