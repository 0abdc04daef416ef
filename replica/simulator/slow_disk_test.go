package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// onSlowDisks has all disks take about as long as members wait until they ask again, and longer.
func onSlowDisks(draw func(uint64) schedule.Schedule) func(uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule {
		s := draw(seed)
		retry := s.Environment.Retry
		for i := range s.Environment.Disks {
			s.Environment.Disks[i] = schedule.Window{Low: retry * 3 / 4, High: retry * 5 / 4}
		}
		return s
	}
}

// What rests on a disk that takes longer than Retry is answered after its question was asked again. Nobody may begin
// anew each time that he asks.
func TestQuestionsThatSlowDisksAnswerLate(t *testing.T) {
	t.Parallel()
	contended := onSlowDisks(drawn(schedule.Options{RMWs: schedule.ManyRMWs, Members: []int{3, 5}}))
	masters := onSlowDisks(func(seed uint64) schedule.Schedule {
		s := directed.LostMasters(seed)
		s.Environment.Partitioned.Sync.Lease = max(s.Environment.Partitioned.Sync.Lease, 4*s.Environment.Retry)
		return s
	})
	program := mutants.Build(t)
	t.Run("without mutants, rmwpaxos", func(t *testing.T) {
		mustNotFind(t, contended, Member(rmwpaxos.Factory), seedsFor(t)/10)
	})
	t.Run("without mutants, curp", func(t *testing.T) { mustNotFind(t, masters, nil, seedsFor(t)/40) })
	program.Run(t, "rmwpaxos/keep-refusals", "rmwpaxos/keep-refusals", func(t *testing.T) {
		mustFind(t, contended, Member(rmwpaxos.Factory), 0, 300, found(check.Stuck))
	})
	program.Run(t, "curp/ask-witness-anew", "curp/ask-witness-anew", func(t *testing.T) {
		mustFind(t, masters, nil, 0, 300, found(check.Stuck))
	})
}
