package simulator

import (
	"context"
	"testing"

	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/simulator/schedule"
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
	if least := s.Seeds * 10 / 11; r.Schedules < least {
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
	abdWith := func(m abd.Mistakes) Start { return Member(abd.FactoryWith(m)) }
	all := schedule.Options{Faults: wholeDisks(), RMWs: schedule.FewRMWs}
	// The rarer ones are looked for where they live.
	crashes := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Torn, faults.Partition, faults.Loss, faults.Reorder}, RMWs: schedule.FewRMWs, Members: []int{3}}
	copies := schedule.Options{Faults: []faults.Kind{faults.Duplicate, faults.Loss, faults.Partition, faults.Crash}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Partition}, RMWs: schedule.FewRMWs, Members: []int{3, 5}}
	for _, c := range []struct {
		name    string
		start   Start
		options schedule.Options
		after   uint64
		seeds   int
	}{
		{"AckBeforePersist", abdWith(abd.Mistakes{AckBeforePersist: true}), crashes, 280, 500},
		{"CompleteBeforePersist", abdWith(abd.Mistakes{CompleteBeforePersist: true}), crashes, 400, 4000},
		{"ExposeVolatile", abdWith(abd.Mistakes{ExposeVolatile: true}), crashes, 450, 2000},
		{"SkipWriteBack", abdWith(abd.Mistakes{SkipWriteBack: true}), all, 0, 500},
		{"ShareTags", abdWith(abd.Mistakes{ShareTags: true}), all, 0, 2000},
		{"TagWithoutBoot", abdWith(abd.Mistakes{TagWithoutBoot: true}), crashes, 2800, 6000},
		{"NumberWithoutBoot", abdWith(abd.Mistakes{NumberWithoutBoot: true}), crashes, 60, 4000},
		{"RereadValue", abdWith(abd.Mistakes{RereadValue: true}), all, 0, 500},
		{"CountTwice", abdWith(abd.Mistakes{CountTwice: true}), copies, 0, 2000},
		{"RetryWithNewTag", abdWith(abd.Mistakes{RetryWithNewTag: true}), all, 0, 500},
		{"VoteAtOnce", MemberWith(abd.Factory, member.Mistakes{VoteAtOnce: true}), wipes, 0, 200},
		{"TransferFromOne", MemberWith(abd.Factory, member.Mistakes{TransferFromOne: true}), wipes, 0, 1000},
		// CountDeadDisks and KeepIncarnation: see TestLostDisksAreFenced.
	} {
		t.Run(c.name, func(t *testing.T) {
			mustFind(t, drawn(c.options), c.start, c.after, c.seeds, nil)
		})
	}
}
