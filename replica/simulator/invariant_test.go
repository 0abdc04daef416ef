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
	"github.com/georegister/georegister/replica/simulator/directed"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// What members say contradicts their disks long before a client can tell: in 300 schedules none sees
// caspaxos/propose-volatile.
func TestMembersBreakInvariants(t *testing.T) {
	t.Parallel()
	few := schedule.Options{Faults: []faults.Kind{faults.Crash, faults.Loss}, Members: []int{3}, RMWs: schedule.ManyRMWs}
	changes := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Partition}, RMWs: schedule.ManyRMWs}
	plain := few
	plain.RMWs = 0
	changing := schedule.Options{Faults: []faults.Kind{faults.Change, faults.Wipe, faults.Crash, faults.Loss, faults.Partition}}
	asking := schedule.Options{
		Faults: []faults.Kind{faults.Directed}, Directed: []schedule.Directed{directed.StoppedWhileAsking},
	}
	losses := fragmentedOptions(faults.Loss)
	losses.Members, losses.Keys = []int{5}, 8
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
		{Member(gryff.Factory), []hunt{
			{"instance/tell-at-once", few, 0, 30}, {"instance/ask-before-persist", few, 0, 30}, {"instance/share-slots", few, 0, 30},
		}},
		{Member(epaxos.Factory), []hunt{
			{"instance/commit-before-persist", few, 0, 30}, {"instance/keep-agreed", changes, 0, 30},
			{"instance/forget-own-vote", few, 0, 30},
		}},
		{Member(gus.Factory), []hunt{{"gus/expose-volatile", plain, 0, 30}, {"gus/forget-held", plain, 0, 30}}},
		{Member(gus.Factory), []hunt{{"gus/hold-in-any-view", changing, 0, 1000}}},
		{Member(abd.Factory), []hunt{
			{"abd/count-before", changing, 0, 100}, {"member/tell-volatile", changing, 0, 100},
			{"position/count-earlier-answers", asking, 0, 100}, {"position/trust-few-at-once", asking, 0, 100},
		}},
		{Member(gryff.Factory), []hunt{{"member/settled-volatile", changing, 0, 100}}},
		{fragmented(), []hunt{
			{"layered/keep-as-first", fragmentedChanges(), 0, 100}, {"layered/rebuild-all", fragmentedChanges(), 0, 100},
			{"layered/wait-in-silence", fragmentedChanges(), 0, 100},
			{"layered/forget-over", fragmentedOptions(wholeDisks()...), 0, 1000},
		}},
	} {
		mustFindEach(t, c.start, byClass(found(check.Breach)), c.hunts)
	}
}

// What members have not done long after all is quiet they never do. Rules of when it is to be done may tell before.
func TestMembersLeaveThingsUndone(t *testing.T) {
	t.Parallel()
	copies := schedule.Options{Faults: []faults.Kind{faults.OldCopy, faults.Crash}}
	losses := fragmentedOptions(faults.Loss)
	losses.Members, losses.Keys = []int{5}, 8
	quiet := curpOptions(faults.Change, faults.Duplicate, faults.Loss, faults.Reorder, faults.Limits)
	reads := quiet
	reads.Stale = schedule.SomeStale
	for _, c := range []struct {
		start Start
		hunts []hunt
	}{
		{fragmented(), []hunt{{"layered/never-repair", losses, 0, 300}}},
		{nil, []hunt{
			{"curp/leave-log-unsynced", quiet, 60, 500},
			{"curp/leave-expiry-unsynced", reads, 20400, 500},
		}},
		{Member(abd.Factory), []hunt{{"position/forget-heard", copies, 0, 30}}},
		{nil, []hunt{{"position/keep-to-itself", curpOptions(faults.OldCopy, faults.Crash), 60, 300}}},
	} {
		undone := func(c check.Class) bool { return c == check.Unbounded || c == check.Breach }
		mustFindEach(t, c.start, byClass(undone), c.hunts)
	}
}
