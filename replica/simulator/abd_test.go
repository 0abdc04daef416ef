package simulator

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// searchSeeds is how many random schedules the test command tries for each protocol and number of members: some more
// than the 2,000 that must count, since a few hit too little.
const searchSeeds = 2200

// seedsFor leaves out most of them where each costs much more: what worlds share by mistake, the race detector sees in
// a few.
func seedsFor(t *testing.T) int {
	t.Helper()
	if testing.Short() || raceEnabled {
		return searchSeeds / 50
	}
	return searchSeeds
}

func TestABDSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: Member(abd.Factory), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{3, 5, 7}, abd.Paths())
}

// survivesEach is survives with as many schedules for each number of members, which take every path together.
func survivesEach(t *testing.T, s Search, sizes []int, paths []string) {
	t.Helper()
	all := Report{Paths: map[string]uint64{}}
	for _, n := range sizes {
		s.Options.Members = []int{n}
		for path, taken := range survives(t, s, nil).Paths {
			all.Paths[path] += taken
		}
	}
	if missing := all.Missing(paths); missing != nil && seedsFor(t) == searchSeeds {
		t.Errorf("paths never taken: %v", missing)
	}
}

// survives runs a search that must find nothing, hit enough work in flight, and take every path.
func survives(t *testing.T, s Search, paths []string) Report {
	t.Helper()
	r := s.Run(context.Background())
	for _, f := range r.Failures {
		t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
	}
	t.Logf("members %v: %d schedules, %d operations, %d faults that hit work in flight, %d events; paths %v",
		s.Options.Members, r.Schedules, r.Operations, r.Hits, r.Events, r.Paths)
	if seedsFor(t) < searchSeeds {
		return r // the numbers of a few seeds prove nothing, and those of all are looked at in every other run
	}
	if least := s.Seeds * 6 / 7; r.Schedules < least { // an outage ends some before much has gone wrong
		t.Errorf("%d of %d schedules count, want %d", r.Schedules, s.Seeds, least)
	}
	if r.Operations < 100*r.Schedules || r.Hits < MinHits*r.Schedules {
		t.Errorf("%d operations and %d hits in %d schedules", r.Operations, r.Hits, r.Schedules)
	}
	if missing := r.Missing(paths); missing != nil {
		t.Errorf("paths never taken: %v", missing)
	}
	return r
}

func TestMistakesOfABDAreFound(t *testing.T) {
	t.Parallel()
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
	// The rarer ones are looked for where they live.
	crashes := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.FewRMWs, Members: []int{3}}
	copies := schedule.Options{Faults: []faults.Kind{faults.Duplicate, faults.Loss, faults.Partition, faults.Crash}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Partition}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	mustFindEach(t, Member(abd.Factory), nil, []hunt{
		{"abd/ack-before-persist", crashes, 280, 500},
		{"abd/complete-before-persist", crashes, 400, 4000},
		{"abd/expose-volatile", crashes, 450, 2000},
		{"abd/skip-write-back", all, 0, 500},
		{"abd/share-tags", all, 0, 2000},
		{"abd/tag-without-boot", crashes, 2800, 6000},
		{"abd/number-without-boot", crashes, 60, 4000},
		{"abd/reread-value", all, 0, 500},
		{"quorum/count-twice", copies, 0, 2000},
		{"quorum/one-more", schedule.Options{Faults: []faults.Kind{faults.Outage}, Members: []int{3, 5}}, 0, 3},
		{"abd/retry-with-new-tag", all, 0, 500},
		{"abd/keep-holders", schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs}, 0, 500},
		{"member/vote-at-once", wipes, 0, 200},
		{"member/transfer-from-one", wipes, 0, 1000},
		// quorum/count-dead-disks and member/keep-incarnation: see TestLostDisksAreFenced.
	})
}

// drawGoneHolder makes a schedule in which the acknowledgement of a write's second phase is on its way for so long that
// the disk it tells of is lost meanwhile, and the member is back with what those have who have not heard of the write.
// The writer has heard of that, from operations on another key. One more member then holds the write, and the others are
// read.
func drawGoneHolder(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	rtt := s.Environment.Network.RTT
	for a := range 5 {
		for b := range 5 {
			if a != b && a != 0 && b != 0 {
				rtt[a][b] = 4 * ms
			}
		}
	}
	rtt[0][1], rtt[1][0] = 160*ms, 160*ms
	s.Environment.Retry, s.Environment.Suspect = 200*ms, 600*ms
	loss := 245*ms + draw.Between(0, 20*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Loss, Node: 0, At: loss, For: 485*ms - loss, Rate: 400 + draw.Below(400)},
		{Kind: faults.Wipe, Node: 1, At: 340*ms + draw.Between(0, 35*ms), For: draw.Between(ms, 5*ms)},
	}
	plan(&s, 1, 10*ms, register.Operation{Kind: register.Write, Value: register.Value("before")})
	plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("acknowledged")})
	for home := 1; home < 5; home++ {
		other := schedule.Plan{Home: home}
		for at := 360 * ms; at < 430*ms; at += draw.Between(5*ms, 15*ms) {
			other.Operations = append(other.Operations, schedule.Planned{At: at, Operation: register.Operation{
				Kind: register.Write, Key: schedule.MixedPrefix + "1", Value: register.Value(fmt.Sprint(home, at)),
			}})
		}
		s.Clients = append(s.Clients, other)
		for i := range time.Duration(4) {
			plan(&s, home, 490*ms+draw.Between(0, 10*ms)+i*20*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 1000 * ms
	return s
}

// What random schedules come to too seldom.
func TestRareMistakesOfABDAreFound(t *testing.T) {
	t.Parallel()
	t.Run("right", func(t *testing.T) { mustNotFind(t, drawGoneHolder, Member(abd.Factory), 500) })
	mutants.Build(t).Run(t, "it", "member/dead-disk-second-phase", func(t *testing.T) {
		mustFind(t, drawGoneHolder, Member(abd.Factory), 0, 3000, nil)
	})
}

// A read that returns what no majority holds has later reads go back, of which carstamps tell also where values don't.
func TestAnOrderThatGoesBackIsFound(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "disordered", "abd/skip-write-back", func(t *testing.T) {
		options := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
		draw := func(seed uint64) schedule.Schedule { return schedule.Draw(seed, options) }
		mustFind(t, draw, Member(abd.Factory), 0, 500, found(check.Disordered))
	})
}
