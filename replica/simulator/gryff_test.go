package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol/gryff"
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
	crashed := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{3}}
	five := schedule.Options{Faults: stops, RMWs: schedule.ManyRMWs, Members: []int{5}}
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Wipe, faults.Loss, faults.Crash}, RMWs: schedule.ManyRMWs}
	mustFindEach(t, Member(gryff.Factory), divided, []hunt{
		{"gryff/answer-before-persist", crashes, 400, 3000},
		{"gryff/skip-write-back", few, 510, 2000},
		{"gryff/reread-value", few, 60, 500},
		{"gryff/retry-with-new-tag", few, 5, 500},
		{"gryff/same-tag", few, 120, 2000},
		{"base/send-before-persist", crashed, 0, 500},
		{"instance/fast-on-merged", crashed, 0, 2000},
		{"instance/fast-on-merged of five", five, 390, 2000},
		{"instance/fast-on-majority", five, 3600, 500},
		{"instance/ask-all-alone", crashed, 0, 2000},
		{"instance/stay-alone", crashed, 1150, 4000},
		{"instance/recover-initial", crashed, 120, 2000},
		{"instance/commit-before-persist", crashed, 70, 3000},
		{"instance/speak-at-once", crashes, 250, 1500},
		{"instance/take-up-executed", crashed, 0, 500},
		{"gryff/serve-awaited", crashes, 19700, 500},
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
		// TestMistakesOfLostDisksAreFound. reply-volatile and spread-volatile: see TestMembersBreakInvariants.
	})
}

func TestRareMutantsOfGryffAreFound(t *testing.T) {
	t.Parallel()
	found := mutants.Build(t)
	for _, c := range []struct {
		name, mutant string
		draw         func(uint64) schedule.Schedule
	}{
		{"tag-without-boot", "gryff/tag-without-boot", directed.WritersBack},
		{"one-ballot of three", "instance/one-ballot", directed.Duels},
		{"one-ballot of five", "instance/one-ballot", directed.DuelsOfFive},
	} {
		found.Run(t, c.name, c.mutant, func(t *testing.T) {
			mustFail(t, c.draw, Member(gryff.Factory), 0, 2000, divided)
		})
	}
}
