package simulator

import (
	"context"
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// searchSeeds is how many random schedules a test of all of a protocol's paths tries. With those of changes, of duels,
// of lost members and of directed schedules a protocol has 1,400 and more: the paths that each test must have taken
// say whether they are enough.
const searchSeeds = 800

// seedsFor leaves out most of them where each costs much more: what worlds share by mistake, the race detector sees in
// a few.
func seedsFor(t *testing.T) int {
	t.Helper()
	switch {
	case raceEnabled:
		return searchSeeds / 100
	case testing.Short():
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

// survivesEach is survives with half as many schedules for each of two numbers of members or more.
func survivesEach(t *testing.T, s Search, sizes []int, paths []string) {
	t.Helper()
	s.Options.Members, s.Seeds = sizes, s.Seeds/2*len(sizes)
	survives(t, s, paths)
}

// survives runs a search that must find nothing, hit enough work in flight, and take every path. It ends when a quarter
// of the schedules shows no path that is new.
func survives(t *testing.T, s Search, paths []string) Report {
	t.Helper()
	s.Until = append([]string{}, paths...) // none, and not nil: it ends where paths are judged by who calls
	r := s.Run(context.Background())
	for _, f := range r.Failures {
		t.Errorf("%v\n%s", f, Explain(Shrink(t.Context(), f)))
	}
	t.Logf("members %v: %d schedules, %d operations, %d faults that hit work in flight, %d events; paths %v",
		s.Options.Members, r.Schedules, r.Operations, r.Hits, r.Events, r.Paths)
	if seedsFor(t) < searchSeeds {
		return r // the numbers of a few seeds prove nothing, and those of all are looked at in every other run
	}
	if all := r.Schedules + r.Skipped; r.Schedules < all*6/7 { // an outage ends some before much has gone wrong
		t.Errorf("%d of %d schedules count, want %d", r.Schedules, all, all*6/7)
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
		// expose-volatile: see TestMembersBreakInvariants. quorum/count-dead-disks and member/keep-incarnation: see
		// TestLostDisksAreFenced.
	})
}

// What random schedules come to too seldom.
func TestRareMistakesOfABDAreFound(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "it", "member/dead-disk-second-phase", func(t *testing.T) {
		mustFind(t, directed.HoldersGone, Member(abd.Factory), 0, 3000, nil)
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
