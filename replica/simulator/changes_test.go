package simulator

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// sameMembers are all faults but replacements: the schedules in which the view stays what it was.
func sameMembers() []faults.Kind { return faults.Without(faults.Kinds(), faults.Change) }

// patient are those of them that members survive who suspect each other before they could have answered, or have
// forgotten what they said: with just enough members left after an outage neither need come to an end.
func patient() []faults.Kind { return faults.Without(sameMembers(), faults.Outage) }

// plain leaves out of some kinds those that say how schedules are drawn, for mistakes that have nothing to do with that.
func plain(kinds []faults.Kind) []faults.Kind { return faults.Without(kinds, faults.Variations()...) }

// wholeDisks are the kinds without those that need members to ask each other about their disks, and without those that
// end a schedule early: for mistakes that have nothing to do with that.
func wholeDisks() []faults.Kind {
	return faults.Without(plain(sameMembers()), faults.OldCopy, faults.Rot, faults.Outage)
}

// changePathsFor are the paths of changes that as many schedules as seedsFor says take: clusters of one are rare.
func changePathsFor(t *testing.T) []string {
	t.Helper()
	return slices.DeleteFunc(changePaths(), func(path string) bool {
		return seedsFor(t) < searchSeeds && strings.Contains(path, "from-one")
	})
}

func TestABDSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(abd.Factory), Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, changePathsFor(t))
}

func TestGryffSurvivesChanges(t *testing.T) {
	t.Parallel()
	survives(t, Search{
		Start: Member(gryff.Factory), First: 1, Seeds: seedsFor(t) / 2,
		Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.ManyRMWs},
	}, changePathsFor(t))
}

func TestMutantsOfChangesAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		mutant string
		name   string
		start  member.Factory
		rmws   int
		seeds  int
	}{
		{"abd/resume-with-new-tag", "ABD", abd.Factory, schedule.FewRMWs, 2000},
		{"base/adopt-blindly", "ABD", abd.Factory, schedule.FewRMWs, 2000},
		{"base/adopt-blindly", "Gryff", gryff.Factory, schedule.ManyRMWs, 2000},
		{"gryff/resume-with-new-tag", "Gryff", gryff.Factory, schedule.ManyRMWs, 2000},
		{"instance/resume-as-new", "Gryff", gryff.Factory, schedule.ManyRMWs, 500},
		{"members/reuse-id", "ABD", abd.Factory, schedule.FewRMWs, 500},
		{"members/reuse-id", "Gryff", gryff.Factory, schedule.ManyRMWs, 500},
		{"membership/finish-uncovered", "ABD", abd.Factory, schedule.FewRMWs, 500},
		{"membership/finish-uncovered", "Gryff", gryff.Factory, schedule.ManyRMWs, 500},
		{"membership/finish-uncovered", "Gus", gus.Factory, schedule.FewRMWs, 500},
		{"members/tell-before-record", "ABD", abd.Factory, schedule.FewRMWs, 500},
		{"members/tell-before-record", "Gryff", gryff.Factory, schedule.ManyRMWs, 500},
	} {
		program.Run(t, fmt.Sprintf("%s, %s", c.mutant, c.name), c.mutant, func(t *testing.T) {
			options := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: c.rmws}
			counts := byClass(found(""))
			if c.mutant == "members/tell-before-record" {
				counts = twoViews
			}
			mustFail(t, drawn(options), Member(c.start), 0, c.seeds, counts)
		})
	}
	// Nothing wrong is read with this one.
	gone := schedule.Options{
		Faults: []faults.Kind{faults.Change, faults.Partition, faults.Crash, faults.Wipe}, RMWs: schedule.ManyRMWs,
	}
	mustFindEach(t, Member(gryff.Factory), byClass(found(check.Stuck)), []hunt{{"membership/wait-for-gone", gone, 0, 200}})
	mustFindEach(t, Member(gryff.Factory), byClass(found(check.Breach)), []hunt{{"membership/give-ids-again", gone, 0, 10}})
}

// twoViews counts that two views of one epoch were committed.
func twoViews(f *Failure) bool { return strings.HasSuffix(f.Reason, "are committed") }

func TestMutantsOfMembersInChangesAreFound(t *testing.T) {
	t.Parallel()
	changes := []faults.Kind{faults.Change, faults.Partition}
	wipes := []faults.Kind{faults.Change, faults.Partition, faults.Wipe, faults.Wipe}
	few := schedule.Options{Faults: changes, RMWs: schedule.FewRMWs}
	many := schedule.Options{Faults: changes, RMWs: schedule.ManyRMWs}
	mustFindEach(t, Member(abd.Factory), noticed, []hunt{
		{"member/vote-at-once of ABD", schedule.Options{Faults: wipes, RMWs: schedule.FewRMWs}, 0, 500},
		{"quorum/count-one-side of ABD", few, 0, 500},
		{"member/fetch-from-one of ABD", few, 500, 2000},
	})
	pages := []faults.Kind{faults.Change, faults.Wipe, faults.Limits, faults.Mix}
	mustFindEach(t, Member(abd.Factory), noticed, []hunt{
		{"member/skip-boundary", schedule.Options{Faults: pages, RMWs: schedule.FewRMWs}, 0, 500},
	})
	mustFindEach(t, Member(gryff.Factory), noticed, []hunt{
		{"member/vote-at-once of Gryff", schedule.Options{Faults: wipes, RMWs: schedule.ManyRMWs}, 0, 500},
		{"quorum/count-one-side of Gryff", many, 0, 500},
		{"member/fetch-from-one of Gryff", many, 1000, 2000},
	})
	many.Members = []int{3} // it lives where few know of an instance
	mustFindEach(t, Member(gryff.Factory), byClass(harm), []hunt{{"member/settled-at-once of Gryff", many, 0, 1000}})
	lost := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Wipe}, RMWs: schedule.ManyRMWs}
	mustFindEach(t, Member(gryff.Factory), byClass(found(check.Breach)), []hunt{
		{"member/forget-numbers", lost, 600, 1500},
	})
}

// drawStraggler makes a schedule in which three of five members change, and the manager does not reach two: if one of
// them stays, it holds the view before while the others and the newcomers have gone on; the other one leaves, and lives
// on. A write meets the newcomers; then the one that stays reads. If answers of one view counted in another, it would
// have a majority of the view before: itself, the one that left, and the other one that stays. Random schedules come to
// this too seldom, and the network delivers nothing of another view elsewhere, where who is behind learns of the view by
// that: so it is no kind of directed schedules.
func drawStraggler(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := directed.Pentagon(seed)
	s.Environment.Mixed = true
	first, one, other := draw.Below(5), draw.Below(5), draw.Below(5)
	s.Faults = []faults.Fault{{
		Kind: faults.Change, Node: first, At: 100 * ms, For: 20 * ms, Join: 3, Leave: 3, Alive: true, Side: 1<<one | 1<<other,
	}}
	directed.Plan(&s, 3, 20*ms, register.Operation{Kind: register.Write, Value: register.Value("old")})
	directed.Plan(&s, draw.Below(5), 1800*ms, register.Operation{Kind: register.Write, Value: register.Value("new")})
	for home := range 5 {
		for i := range time.Duration(4) {
			directed.Plan(&s, home, 1900*ms+i*50*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 2500 * ms
	return s
}

// What random schedules come to too seldom. instance/keep-agreed and instance/recover-as-plain are shown step by
// step, by scripts of EPaxos and Gryff.
func TestRareMutantsOfChangesAreFound(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for mutant, draw := range map[string]func(uint64) schedule.Schedule{
		"member/any-epoch": drawStraggler, "member/keep-fetched": directed.ChangesInTurn,
	} {
		for name, inner := range map[string]member.Factory{
			"ABD": abd.Factory, "EPaxos": epaxos.Factory, "Gryff": gryff.Factory, "Gus": gus.Factory, "RMWPaxos": rmwpaxos.Factory,
		} { // order is irrelevant: each is a test
			if mutant == "member/any-epoch" { // TestDirectedSchedulesSurvive has the other one's
				t.Run(name+" without "+mutant, func(t *testing.T) { mustNotFind(t, draw, Member(inner), 500) })
			}
			program.Run(t, name+" with "+mutant, mutant, func(t *testing.T) {
				// Members of two views also stop, since they take positions in one for the other's.
				mustFind(t, draw, Member(inner), 0, 500, found(check.Violation))
			})
		}
	}
}

// Who is left behind in a joint view is told nothing by half of it. Any protocol with quorums has to see to that.
func TestWhoIsLeftBehindReadsNothingOld(t *testing.T) {
	t.Parallel()
	mutant := "rmwpaxos/answered-by-one-side"
	mutants.Build(t).Run(t, mutant, mutant, func(t *testing.T) {
		mustFind(t, directed.LeftBehind, Member(rmwpaxos.Factory), 0, 200, found(check.Violation))
	})
}

// The decisions that the operator makes, with its policy, are searched: mistakes in their sequencing are found.
func TestMistakesOfTheOperatorAreFound(t *testing.T) {
	t.Parallel()
	operator := func(draw func(uint64) schedule.Schedule) func(uint64) schedule.Schedule {
		return func(seed uint64) schedule.Schedule {
			s := draw(seed)
			s.Environment.OperatorPolicy = true
			return s
		}
	}
	changes := drawn(schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.FewRMWs})
	program := mutants.Build(t)
	seen := byClass(found(check.Violation))
	for mutant, c := range map[string]struct {
		draw   func(uint64) schedule.Schedule
		seeds  int
		counts func(*Failure) bool
	}{
		"membership/finish-uncovered":    {changes, 500, seen},
		"membership/count-earlier-views": {directed.LeftBehind, 500, seen},
		"members/stale-record":           {directed.ChangesUnheard, 2000, twoViews},
	} { // order is irrelevant: each is a test
		t.Run("without "+mutant, func(t *testing.T) { mustNotFind(t, operator(c.draw), Member(abd.Factory), 100) })
		program.Run(t, mutant, mutant, func(t *testing.T) {
			mustFail(t, operator(c.draw), Member(abd.Factory), 0, c.seeds, c.counts)
		})
	}
}

// A member that says that it has adopted a newcomer's disk knows it from then on, also after a crash.
func TestNumbersOfDisksAreNotGivenTwice(t *testing.T) {
	t.Parallel()
	mutants.Build(t).Run(t, "it", "member/adopt-before-durable", func(t *testing.T) {
		mustFind(t, directed.DisksLostTwice, Member(abd.Factory), 0, 500, found(check.Violation))
	})
}
