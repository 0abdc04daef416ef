package simulator

import (
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// smallCURPRaft makes members that were cut off for a while fetch each other's state, and witnesses reject for want of
// room.
var smallCURPRaft = protocol.Tuning{LogEntries: shortLog.LogEntries, LogBytes: shortLog.LogBytes, Slots: 64}

func shortCURPRaft(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations,
) member.Inner {
	config.Tuning.LogEntries = cmp.Or(config.Tuning.LogEntries, smallCURPRaft.LogEntries)
	config.Tuning.LogBytes = cmp.Or(config.Tuning.LogBytes, smallCURPRaft.LogBytes)
	config.Tuning.Slots = cmp.Or(config.Tuning.Slots, smallCURPRaft.Slots)
	return curpraft.Factory(config, journal, known)
}

// The protocol runs on Raft, which has its own tests: half as many schedules show what it adds.
func TestCURPRaftSurvives(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, pathsFor(t, curpraft.Paths()))
}

// Members that suspect a leader long before it could be heard.
func TestCURPRaftSurvivesDuels(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 8,
		Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.ManyRMWs, Members: []int{3, 5, 7}, Impatient: true},
	}, nil)
}

func TestCURPRaftSurvivesChanges(t *testing.T) {
	t.Parallel()
	paths := slices.DeleteFunc(changePathsFor(t), func(path string) bool { return strings.Contains(path, "from-one") })
	survives(t, Search{
		Start: Member(shortCURPRaft), First: 1, Seeds: seedsFor(t) / 4,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}},
	}, pathsFor(t, append(paths, raft.ChangePaths()...)))
}

// Leaders that are lost with commands that only witnesses have.
func TestCURPRaftSurvivesLostLeaders(t *testing.T) {
	t.Parallel()
	replayed := 0
	seeds := seedsFor(t) / 8
	for seed := range uint64(seeds) {
		o := Run(drawLeaderLoss(seed+1), Member(shortCURPRaft), func(path string) {
			if path == "curp.replayed" {
				replayed++
			}
		})
		if o.Failure != nil {
			t.Errorf("%v\n%s", o.Failure, Explain(o.Failure))
		}
	}
	if replayed < seeds/8 {
		t.Errorf("%d leaders replayed something: this proves little", replayed)
	}
}

// pathsFor are the paths that schedules must lead to; few schedules miss some.
func pathsFor(t *testing.T, paths []string) []string {
	t.Helper()
	if seedsFor(t) < searchSeeds {
		return nil
	}
	return paths
}

// Mistakes of members and of changes are Raft's.
func TestMistakesOfCURPRaftAreFound(t *testing.T) {
	t.Parallel()
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Partition, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs, Members: []int{3}}
	found := mutants.Build(t)
	for _, c := range []struct {
		mutant string
		after  uint64
		seeds  int
	}{
		{"curpraft/quorum-of-witnesses", 0, 500},
		{"curpraft/more-than-threshold", 0, 1000},
		{"curpraft/any-term", 250, 2000},
		{"curpraft/read-unsynced", 0, 200},
	} {
		found.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			mustFind(t, drawn(all), Member(shortCURPRaft), c.after, c.seeds, harm)
		})
	}
	mustFindEach(t, Member(shortCURPRaft), byClass(harm), []hunt{{"member/vote-at-once", wipes, 0, 500}})
}

// drawHeard is drawLeaderLoss with five members and a leader of whom one other hears alone before it is lost: clients at
// both go on by what witnesses save, and the others know of nothing else.
func drawHeard(seed uint64) schedule.Schedule {
	s := schedule.OfFive(seed, drawLeaderLoss)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 22)
	trip, lost := s.Environment.Retry, s.Faults[0]
	cut := lost.At - draw.Between(trip/2, 3*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Node: 0, At: cut, For: lost.At - cut, Side: 1<<0 | 1<<1, OneWay: true}, lost,
	}
	for c := range 8 {
		s.Clients[c].Home = draw.Below(2)
	}
	return s
}

// drawUnsent is drawLeaderLoss with a leader of whom one other hears at most, and of three members nobody, before it is
// lost, often with all others; its disk may be slow, and some records of what it hears are lost, or late.
func drawUnsent(seed uint64) schedule.Schedule {
	s := drawLeaderLoss(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 21)
	n, trip, lost := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0]
	cut := lost.At - draw.Between(trip/2, 3*trip)
	from := cut - 2*trip
	hearer := n / 5 // 0: nobody else
	s.Faults = []faults.Fault{{Kind: faults.Partition, Node: 0, At: cut, For: 14 * trip, Side: 1 | 1<<hearer, OneWay: true}}
	if draw.Chance(500) { // nor does it send what its own disk has yet to store
		s.Environment.Disks[0] = schedule.Window{Low: trip / 2, High: 2 * trip}
	}
	if draw.Chance(600) {
		s.Faults = append(s.Faults, lost)
	}
	if draw.Chance(300) { // with who has heard of it
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Crash, Node: 1, At: lost.At + draw.Between(0, trip), For: 20 * trip, Rate: 500,
		})
	}
	if draw.Chance(500) { // some records don't arrive
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Loss, Node: []int{0, n - 1}[draw.Below(2)], At: from, For: lost.At - from, Rate: 300 + draw.Below(500),
		})
	}
	if draw.Chance(500) { // or late
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Reorder, Everywhere: true, At: from, For: lost.At - from, Rate: 700,
			Size: draw.Between(trip, 2*s.Environment.Suspect+2*trip),
		})
	}
	if draw.Chance(300) { // all lose power
		for other := 1; other < n; other++ {
			s.Environment.Disks[other] = schedule.Window{Low: trip / 8, High: trip / 2}
			s.Faults = append(s.Faults, faults.Fault{
				Kind: faults.Crash, Node: other, At: lost.At, For: draw.Between(time.Millisecond, trip),
			})
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
	few := draw.Chance(500)
	for c := range 8 {
		p := &s.Clients[c]
		p.Home = []int{0, hearer, n - 1}[draw.Below(3)]
		for i := range p.Operations {
			if op := &p.Operations[i].Operation; few {
				op.Key = strings.TrimRight(op.Key, "0123456789") + "0"
			}
		}
	}
	return s
}

// The other mutants are found where a leader is lost that few have heard. A script shows curpraft/keep-accepting step by
// step: random schedules come to it too seldom.
func TestRareMistakesOfCURPRaftAreFound(t *testing.T) {
	t.Parallel()
	for _, draw := range []func(uint64) schedule.Schedule{drawHeard, drawUnsent} {
		t.Run("without", func(t *testing.T) { mustNotFind(t, draw, Member(shortCURPRaft), seedsFor(t)/80) })
	}
	program := mutants.Build(t)
	for _, c := range []struct {
		mutant string
		draw   func(uint64) schedule.Schedule
		after  uint64
	}{
		{"curpraft/drop-early", drawLeaderLoss, 60},
		{"curpraft/serve-early", drawHeard, 0},
		{"curpraft/heed-acks", drawHeard, 0},
		{"curpraft/ack-before-persist", drawUnsent, 0},
		{"curpraft/update-unsynced", drawUnsent, 300},
	} {
		program.Run(t, c.mutant, c.mutant, func(t *testing.T) {
			mustFind(t, c.draw, Member(shortCURPRaft), c.after, 4000, harm)
		})
	}
}
