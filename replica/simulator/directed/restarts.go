package directed

import (
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// StoppedWhileAsking makes a schedule in which processes that have just started, and ask the others what they know of
// their disks or for their states, stop again, some with their disks, so that answers meet another process than the one
// that asked.
func StoppedWhileAsking(seed uint64, options schedule.Options) schedule.Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 25)
	sizes := options.Members
	if len(sizes) == 0 {
		sizes = []int{3, 5}
	}
	n := sizes[draw.Below(len(sizes))]
	env := drawNear(draw, "stopped-while-asking", n)
	trip := 40*ms + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience, env.Doubtful = trip, 3*trip, 12*trip, true
	s := schedule.Schedule{Seed: seed, Environment: env, Abandon: 100}
	script := schedule.NewScript(draw, options.RMWs)
	script.Idempotent, script.Large = options.Idempotent, options.Large
	script.Keys = 2 + draw.Below(6)
	at := 2 * trip
	for range 4 + draw.Below(4) {
		f := faults.Fault{Kind: faults.Crash, Node: draw.Below(n), At: at, For: draw.Between(ms, 2*trip)}
		if draw.Chance(200) {
			f.Kind = faults.Wipe
		}
		s.Faults = append(s.Faults, f)
		for range 1 + draw.Below(2) {
			f.At += f.For + draw.Between(ms, env.Network.Largest())
			f.For = draw.Between(ms, 1+env.Network.Largest()/2)
			if draw.Chance(100) {
				f.Kind = faults.Wipe
			}
			s.Faults = append(s.Faults, f)
		}
		at = f.At + f.For + draw.Between(trip, 8*trip)
	}
	s.SortFaults()
	for c := range 2 * n {
		work(&s, draw, c%n, trip+draw.Between(0, trip), at, trip/2, 4*trip, reading(draw, script, 300))
	}
	s.Settle = at + 10*trip
	return s
}
