package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/abd"
	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/rmwpaxos"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// What members say contradicts their disks long before a client can tell: in 300 schedules none sees
// caspaxos/propose-volatile.
func TestMembersBreakInvariants(t *testing.T) {
	t.Parallel()
	few := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Loss}, Members: []int{3}, RMWs: schedule.ManyRMWs}
	plain := few
	plain.RMWs = 0
	for _, c := range []struct {
		start Start
		hunts []hunt
	}{
		{Member(abd.Factory), []hunt{{"abd/expose-volatile", plain, 0, 30}}},
		{Member(caspaxos.Factory), []hunt{{"caspaxos/propose-volatile", few, 0, 30}}},
		{Member(rmwpaxos.Factory), []hunt{
			{"rmwpaxos/vote-before-persist", few, 0, 30}, {"rmwpaxos/learn-lowers-promise", few, 0, 300},
		}},
		{Member(gryff.Factory), []hunt{{"gryff/reply-volatile", few, 0, 30}, {"gryff/spread-volatile", few, 0, 30}}},
		{Member(epaxos.Factory), []hunt{{"instance/commit-before-persist", few, 0, 30}}},
		{Member(gus.Factory), []hunt{{"gus/expose-volatile", plain, 0, 30}}},
	} {
		mustFindEach(t, c.start, byClass(found(check.Breach)), c.hunts)
	}
}
