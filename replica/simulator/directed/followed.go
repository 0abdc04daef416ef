package directed

import (
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// UpdatesFollowed makes a schedule in which the clients of one site, perhaps the master's, update a key or two all the
// time, so that each update follows another one, and all backups are cut off before the master is lost: witnesses alone
// have what is complete. Messages to witnesses are lost meanwhile. Often the master is back before anybody misses it,
// without what was not on its disk, and is lost for good a little later.
func UpdatesFollowed(seed uint64) schedule.Schedule {
	s, first := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 14)
	p, trip, n := s.Environment.Partitioned, s.Environment.Retry, len(s.Environment.Network.Sites)
	p.FalseAlarms, p.Suspect, p.Calls.Side, p.Calls.Rate = 0, 6*trip, 0, 0
	_, crash := fewKeys(first, trip) // the keys are fewer
	back := draw.Between(time.Millisecond, trip/2)
	cut := faults.Fault{Kind: faults.Partition, Everywhere: true, At: crash - draw.Between(trip/4, 2*trip)}
	for i := 1; i < n; i++ {
		cut.Side |= 1 << i
	}
	home := 0
	if draw.Chance(500) {
		home = n - 1 // no backup, and on the master's side
		cut.Side &^= 1 << home
	}
	for i := range n {
		cut.Side &^= 1 << (n + i)
	}
	again := crash + draw.Between(trip/2, 3*trip)
	cut.For = again - cut.At
	s.Faults = []faults.Fault{cut, {Kind: faults.Crash, Node: 0, At: again, For: draw.Between(4*trip, 20*trip), Rate: 500}}
	if draw.Chance(700) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 0, At: crash, For: back})
		disk := draw.Between(trip/16, trip/2)
		s.Environment.Disks[0] = schedule.Window{Low: disk, High: 2 * disk}
	}
	if draw.Chance(700) {
		at := draw.Between(0, 2*trip)
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Loss, Everywhere: true, At: crash - at, For: at, Rate: 100 + draw.Below(400),
		})
	}
	s.SortFaults()
	script := schedule.NewScript(draw, 700)
	script.Keys, script.Reads = 1+draw.Below(2), 0
	for range 3 {
		work(&s, draw, home, 2*trip+draw.Between(0, trip), crash+6*trip, 0, trip/2, script.Operation)
	}
	work(&s, draw, draw.Below(n), 2*trip+draw.Between(0, trip), crash+12*trip, 0, 4*trip, script.Operation)
	s.Settle = crash + 30*trip
	readEverywhere(&s, draw, script, crash, trip/2, 3*trip)
	return s
}
