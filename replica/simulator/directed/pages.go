package directed

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// StatesInPages makes a schedule in which a member has missed more than logs keep, or has lost its disk, and gets the
// state in many pages while messages are lost: some keys are updated while it is away, and read everywhere once it is
// back.
func StatesInPages(seed uint64, options schedule.Options) schedule.Schedule {
	draw := kernel.NewStream(seed, kernel.ForSchedule, 23)
	s, n, trip := near(draw, seed, "states-in-pages", options)
	s.Environment.Tuning = protocol.Tuning{LogEntries: 1 + draw.Below(4), PageBytes: 32 << draw.Below(3)}
	script := scriptOf(draw, options)
	script.Keys = 4 + draw.Below(12)
	script.Reads = 50 + draw.Below(200)
	who, stops := draw.Below(n), draw.Between(3*trip, 5*trip)
	away := faults.Fault{Kind: faults.Crash, Node: who, At: stops, For: draw.Between(3*trip, 8*trip)}
	switch draw.Below(3) {
	case 0:
		away.Kind = faults.Wipe
	case 1:
		away.Kind, away.Everywhere, away.Side = faults.Partition, true, 1<<who
	}
	back := stops + away.For
	s.Faults = append(s.Faults, away, faults.Fault{
		Kind: faults.Loss, Everywhere: draw.Chance(500), Node: who, At: back - trip/4,
		For: draw.Between(2*trip, 12*trip), Rate: 100 + draw.Below(500),
	})
	if draw.Chance(300) { // it stops once more in the middle of that
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Crash, Node: who, At: back + draw.Between(trip/2, 6*trip),
			For: draw.Between(time.Millisecond, 2*trip), Rate: 500,
		})
	}
	s.SortFaults()
	for c := range 2 * n {
		work(&s, draw, c%n, trip+draw.Between(0, trip), back, trip/4, 2*trip, script.Operation)
	}
	s.Settle = back + 15*trip
	readEverywhere(&s, draw, script, back, trip, 4*trip)
	return s
}
