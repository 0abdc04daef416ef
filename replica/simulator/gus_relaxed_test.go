package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// relaxed is Gus of which two members may be lost, so that seven and nine have relaxed quorums.
func relaxed(m gus.Mistakes) Start {
	return Member(func(c protocol.Config, j *protocol.Journal, r *quorum.Incarnations) member.Inner {
		c.Faults = 2
		return gus.New(c, j, r, m)
	})
}

func TestRelaxedGusSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: relaxed(gus.Mistakes{}), Options: schedule.Options{Faults: sameMembers(), RMWs: schedule.FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{7, 9}, append(gus.Paths(), gus.RelaxedPaths()...))
}

// Members change from and to numbers for which there are relaxed quorums.
func TestRelaxedGusSurvivesChanges(t *testing.T) {
	t.Parallel()
	report := Search{
		Start: relaxed(gus.Mistakes{}), Options: schedule.Options{Faults: faults.Kinds(), RMWs: schedule.FewRMWs, Members: []int{5, 7, 9}}, First: 1, Seeds: seedsFor(t) / 16,
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
	for _, c := range []struct {
		name    string
		wrong   gus.Mistakes
		faults  []faults.Kind
		members int
		after   uint64
	}{
		{"SmallWriteQuorum of seven", gus.Mistakes{SmallWriteQuorum: true}, orders, 7, 1190},
		{"SmallWriteQuorum of nine", gus.Mistakes{SmallWriteQuorum: true}, orders, 9, 660},
		{"HeldByReadQuorum", gus.Mistakes{HeldByReadQuorum: true}, orders, 7, 800},
		{"RetagHeld", gus.Mistakes{RetagHeld: true}, []faults.Kind{faults.Change, faults.Partition}, 7, 260},
		// CountVotes and RejoinAsHolder: see the scripts of the protocol.
	} {
		t.Run(c.name, func(t *testing.T) {
			options := schedule.Options{Faults: c.faults, RMWs: schedule.FewRMWs, Members: []int{c.members}}
			mustFind(t, drawn(options), relaxed(c.wrong), c.after, 1200, found(check.Violation))
		})
	}
}
