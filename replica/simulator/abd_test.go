package simulator

import (
	"context"
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/member"
)

// searchSeeds is how many random schedules the test command tries for each protocol: some more than the 2,000
// that must count, since a few hit too little.
const searchSeeds = 2200

// seedsFor leaves out most of them where each costs much more.
func seedsFor(t *testing.T) int {
	t.Helper()
	if testing.Short() || raceEnabled {
		return searchSeeds / 20
	}
	return searchSeeds
}

func TestABDSurvives(t *testing.T) {
	t.Parallel()
	seeds := seedsFor(t)
	r := Search{
		Start: Member(abd.Factory), Options: Options{Faults: FaultKinds(), RMWs: FewRMWs}, First: 1, Seeds: seeds,
	}.Run(context.Background())
	for _, f := range r.Failures {
		t.Errorf("%v\n%s", f, Explain(Shrink(f)))
	}
	t.Logf("%d schedules, %d operations, %d faults that hit work in flight, %d events; paths %v",
		r.Schedules, r.Operations, r.Hits, r.Events, r.Paths)
	if least := seeds * 10 / 11; r.Schedules < least {
		t.Errorf("%d of %d schedules count, want %d", r.Schedules, seeds, least)
	}
	if r.Operations < 100*r.Schedules || r.Hits < MinHits*r.Schedules {
		t.Errorf("%d operations and %d hits in %d schedules", r.Operations, r.Hits, r.Schedules)
	}
	if missing := r.Missing(abd.Paths()); missing != nil {
		t.Errorf("paths never taken: %v", missing)
	}
}

func TestMistakesOfABDAreFound(t *testing.T) {
	t.Parallel()
	few := Options{Faults: FaultKinds(), RMWs: FewRMWs}
	crashes := Options{Faults: []FaultKind{Crash, Torn, Partition, Loss, Reorder}, RMWs: FewRMWs, Members: []int{3}}
	for _, c := range []struct {
		name    string
		start   Start
		options Options
		seeds   int
	}{
		{"AckBeforePersist", Member(abd.FactoryWith(abd.Mistakes{AckBeforePersist: true})), crashes, 200},
		{"CompleteBeforePersist", Member(abd.FactoryWith(abd.Mistakes{CompleteBeforePersist: true})), crashes, 2000},
		{"ExposeVolatile", Member(abd.FactoryWith(abd.Mistakes{ExposeVolatile: true})), crashes, 2000},
		{"SkipWriteBack", Member(abd.FactoryWith(abd.Mistakes{SkipWriteBack: true})), few, 200},
		{"ShareTags", Member(abd.FactoryWith(abd.Mistakes{ShareTags: true})), few, 500},
		{"NumberWithoutBoot", Member(abd.FactoryWith(abd.Mistakes{NumberWithoutBoot: true})), crashes, 2000},
		{"RereadValue", Member(abd.FactoryWith(abd.Mistakes{RereadValue: true})), few, 500},
		{"CountTwice", Member(abd.FactoryWith(abd.Mistakes{CountTwice: true})), few, 500},
		{"RetryWithNewTag", Member(abd.FactoryWith(abd.Mistakes{RetryWithNewTag: true})), few, 200},
		{"VoteAtOnce", MemberWith(abd.Factory, member.Mistakes{VoteAtOnce: true}), few, 500},
		{"TransferFromOne", MemberWith(abd.Factory, member.Mistakes{TransferFromOne: true}), few, 2000},
	} {
		t.Run(c.name, func(t *testing.T) {
			if raceEnabled {
				t.Skip("the search takes minutes under the race detector, and is single-threaded")
			}
			f := Find(c.start, c.options, c.seeds)
			if f == nil {
				t.Fatalf("not found within %d seeds", c.seeds)
			}
			t.Logf("%v", f)
		})
	}
}
