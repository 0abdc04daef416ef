package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// relaxed is Gus of which two members may be lost, so that seven and nine have relaxed quorums.
func relaxed(config protocol.Config, journal *protocol.Journal) (protocol.Protocol, error) {
	config.Faults = 2
	return member.Start(config, journal, gus.Factory)
}

func TestRelaxedGusSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: relaxed, Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{7, 9}, append(gus.Paths(), gus.RelaxedPaths()...))
}

// Members change from and to numbers for which there are relaxed quorums.
func TestRelaxedGusSurvivesChanges(t *testing.T) {
	t.Parallel()
	report := Search{
		Start: relaxed, Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs, Members: []int{5, 7, 9}}, First: 1, Seeds: seedsFor(t) / 16,
	}.Run(t.Context())
	for _, f := range report.Failures {
		t.Errorf("%v\n%s", f, Explain(f))
	}
	t.Logf("%d schedules, paths %v", report.Schedules, report.Paths)
}

func TestMistakesOfRelaxedGusAreFound(t *testing.T) {
	t.Parallel()
	// The first live where answers differ in which of two writes came first.
	orders := []faults.Kind{faults.Reorder, faults.Loss}
	options := func(members int, kinds ...faults.Kind) schedule.Options {
		return schedule.Options{Faults: kinds, RMWs: schedule.FewRMWs, Members: []int{members}}
	}
	mustFindEach(t, relaxed, byClass(found(check.Violation)), []hunt{
		{"gus/small-write-quorum of seven", options(7, orders...), 1190, 1200},
		{"gus/small-write-quorum of nine", options(9, orders...), 660, 1200},
		{"gus/held-by-read-quorum", options(7, orders...), 800, 1200},
		{"gus/retag-held", options(7, faults.Change, faults.Partition), 260, 1200},
	})
	// Clients come to see it too seldom.
	mustFindEach(t, relaxed, byClass(found(check.Breach)), []hunt{
		{"gus/count-votes", options(7, faults.Crash, faults.Partition, faults.Loss), 0, 30},
		{"gus/rejoin-as-holder", options(7, faults.Wipe), 0, 30},
	})
	told := options(7, orders...) // so that what is read is held by enough
	told.Tolerance = 2
	mustFindEach(t, relaxed, byClass(found(check.Breach)), []hunt{{"gus/held-by-read-quorum", told, 0, 200}})
}
