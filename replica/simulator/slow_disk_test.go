package simulator

import (
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/curpraft"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// onSlowDisks has all disks take so many times as long as members wait until they ask again, by a quarter less or more.
func onSlowDisks(times time.Duration, draw func(uint64) schedule.Schedule) func(uint64) schedule.Schedule {
	return func(seed uint64) schedule.Schedule {
		s := draw(seed)
		quarter := times * s.Environment.Retry / 4
		for i := range s.Environment.Disks {
			s.Environment.Disks[i] = schedule.Window{Low: 3 * quarter, High: 5 * quarter}
		}
		return s
	}
}

// What rests on a disk that takes longer than Retry is answered after its question was asked again. Nobody may begin
// anew each time that he asks.
func TestQuestionsThatSlowDisksAnswerLate(t *testing.T) {
	t.Parallel()
	many := drawn(schedule.Options{RMWs: schedule.ManyRMWs, Members: []int{3, 5}})
	contended, elected := onSlowDisks(1, many), onSlowDisks(2, many)
	masters := onSlowDisks(1, func(seed uint64) schedule.Schedule {
		s := directed.LostMasters(seed)
		s.Environment.Partitioned.Sync.Lease = max(s.Environment.Partitioned.Sync.Lease, 4*s.Environment.Retry)
		return s
	})
	program := mutants.Build(t)
	for _, p := range []struct {
		name  string
		start Start
	}{
		{"caspaxos", Member(caspaxos.Factory)}, {"curpraft", Member(curpraft.Factory)}, {"gus", Member(gus.Factory)},
		{"epaxos", Member(epaxos.Factory)}, {"gryff", Member(gryff.Factory)},
		{"raft", Member(raft.Factory)}, {"rmwpaxos", Member(rmwpaxos.Factory)},
	} {
		t.Run("without mutants, "+p.name, func(t *testing.T) { mustNotFind(t, contended, p.start, seedsFor(t)/20) })
	}
	t.Run("without mutants, curp", func(t *testing.T) { mustNotFind(t, masters, nil, seedsFor(t)/40) })
	program.Run(t, "rmwpaxos/keep-refusals", "rmwpaxos/keep-refusals", func(t *testing.T) {
		mustFind(t, contended, Member(rmwpaxos.Factory), 0, 300, found(check.Stuck))
	})
	t.Run("without mutants, raft on slower disks", func(t *testing.T) {
		mustNotFind(t, elected, Member(raft.Factory), seedsFor(t)/20)
	})
	program.Run(t, "raft/call-on", "raft/call-on", func(t *testing.T) {
		mustFind(t, elected, Member(raft.Factory), 0, 300, found(check.Stuck))
	})
	program.Run(t, "curp/ask-witness-anew", "curp/ask-witness-anew", func(t *testing.T) {
		mustFind(t, masters, nil, 0, 300, found(check.Stuck))
	})
}
