package simulator

import (
	"testing"

	"github.com/georegister/georegister/replica/protocol/caspaxos"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// Sessions of several clients are forgotten for others, and come back with what one client has in progress while another
// one still tries what was executed before.

// drawBack makes a schedule of updates of one key, of which many are sent again; members remember one session of it.
func drawBack(seed uint64) schedule.Schedule {
	s := schedule.Draw(seed, schedule.Options{
		Faults: []faults.Kind{faults.Loss, faults.Reorder, faults.Partition}, RMWs: 900, Keys: 1, Members: []int{3},
	})
	s.Environment.InFlight = 2 + kernel.NewStream(seed, kernel.ForSchedule, 24).Below(3)
	s.Environment.Tuning.Sessions = 1
	s.Abandon = 300
	return s
}

// drawMasterBack is drawBack with a master, which remembers one or two sessions.
func drawMasterBack(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 24)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	s.Environment.InFlight, s.Environment.Tuning.Sessions = 2+draw.Below(3), 1+draw.Below(2)
	s.Environment.Partitioned.Sync.Delay = draw.Between(trip/8, trip)
	end := 28 * trip
	s.Faults = []faults.Fault{{Kind: faults.Loss, Everywhere: true, At: 2 * trip, For: end, Rate: 200 + draw.Below(400)}}
	script := schedule.NewScript(draw, 1000)
	script.Keys, s.Clients, s.Abandon = 3, nil, 300
	for c := range 12 {
		p := schedule.Plan{Home: c % n}
		for at := 2*trip + draw.Between(0, 4*trip); at < end; at += draw.Between(0, 4*trip) {
			p.Operations = append(p.Operations, schedule.Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, p)
	}
	s.Settle = end + 2*trip
	return s
}

func TestSessionsThatComeBackAreNotTrusted(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, c := range []struct {
		name, mutant string
		draw         func(uint64) schedule.Schedule
		start        Start
	}{
		{"CASPaxos", "session/trust-known-sessions", drawBack, Member(caspaxos.Factory)},
		{"EPaxos", "session/trust-known-sessions", drawBack, Member(epaxos.Factory)},
		{"CURP", "store/trust-known-sessions", drawMasterBack, nil},
	} {
		t.Run("without, "+c.name, func(t *testing.T) { mustNotFind(t, c.draw, c.start, seedsFor(t)/40) })
		program.Run(t, c.name, c.mutant, func(t *testing.T) { mustFind(t, c.draw, c.start, 0, 2000, harm) })
	}
}
