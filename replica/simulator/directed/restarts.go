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
	s, n, trip := near(draw, seed, "stopped-while-asking", options)
	s.Environment.Doubtful = true
	farthest := s.Environment.Network.Largest()
	script := scriptOf(draw, options)
	script.Keys = 2 + draw.Below(6)
	at := 2 * trip
	for range 4 + draw.Below(4) {
		f := faults.Fault{Kind: faults.Crash, Node: draw.Below(n), At: at, For: draw.Between(ms, 2*trip)}
		if draw.Chance(200) {
			f.Kind = faults.Wipe
		}
		s.Faults = append(s.Faults, f)
		for range 1 + draw.Below(2) {
			f.At += f.For + draw.Between(ms, farthest)
			f.For = draw.Between(ms, 1+farthest/2)
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
