package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/phase"
)

// relaxed is Gus of which two members may be lost, so that seven and nine have relaxed quorums.
func relaxed(m gus.Mistakes) Start {
	return Member(func(c protocol.Config, j *protocol.Journal, r *phase.Roster) member.Inner {
		c.Faults = 2
		return gus.New(c, j, r, m)
	})
}

func TestRelaxedGusSurvives(t *testing.T) {
	t.Parallel()
	survivesEach(t, Search{
		Start: relaxed(gus.Mistakes{}), Options: Options{Faults: sameMembers(), RMWs: FewRMWs}, First: 1, Seeds: seedsFor(t),
	}, []int{7, 9}, append(gus.Paths(), gus.RelaxedPaths()...))
}

// Members change from and to numbers for which there are relaxed quorums.
func TestRelaxedGusSurvivesChanges(t *testing.T) {
	t.Parallel()
	report := Search{
		Start: relaxed(gus.Mistakes{}), Options: Options{Faults: FaultKinds(), RMWs: FewRMWs, Members: []int{5, 7, 9}}, First: 1, Seeds: seedsFor(t) / 16,
	}.Run(t.Context())
	for _, f := range report.Failures {
		t.Errorf("%v\n%s", f, Explain(f))
	}
	t.Logf("%d schedules, paths %v", report.Schedules, report.Paths)
}

func TestMistakesOfRelaxedGusAreFound(t *testing.T) {
	t.Parallel()
	all := Options{Faults: sameMembers(), RMWs: FewRMWs, Members: []int{7, 9}}
	mustFind(t, drawn(all), relaxed(gus.Mistakes{SmallWriteQuorum: true}), 1890, 1000, nil)
}
