package directed

import (
	"time"

	"github.com/georegister/georegister/replica/membership"
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

// LateQuestions makes a schedule of a master and of members that are no backups, one of which loses its disk, or misses
// more than logs keep: it copies the state in pages, and its questions come late and more than once, while there are a
// few last updates, of which messages to it are lost.
func LateQuestions(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 27)
	p, trip, n := s.Environment.Partitioned, s.Environment.Retry, len(s.Environment.Network.Sites)
	p.Placement = membership.Placement{Partitions: 1, Faults: 1}
	p.Spares, p.FalseAlarms, p.Calls.Side, p.Calls.Rate = 2, 0, 0, 0
	p.Sync.Kept, p.Sync.Delay = 2<<draw.Below(3), draw.Between(0, trip)
	s.Environment.Tuning.PageBytes = 64 << draw.Below(6)
	learner, stops := n-1, draw.Between(3*trip, 6*trip)
	away := faults.Fault{
		Kind: faults.Wipe, Node: learner, At: stops, For: draw.Between(time.Millisecond, 4*trip), Rate: 1000,
	}
	if draw.Chance(300) {
		away.Kind, away.Everywhere, away.Side, away.For = faults.Partition, true, 1<<learner, draw.Between(4*trip, 8*trip)
	}
	back := stops + away.For
	last := back + draw.Between(4*trip, 10*trip)
	late := faults.Fault{
		Everywhere: true, At: back, For: last - back, Rate: 200 + draw.Below(500), Size: draw.Between(trip, 8*trip),
	}
	twice, lost := late, late
	late.Kind, twice.Kind = faults.Reorder, faults.Duplicate
	lost.Kind, lost.Everywhere, lost.Node, lost.At, lost.For = faults.Loss, false, learner, last-2*trip, 12*trip
	lost.Rate += 300
	s.Faults = []faults.Fault{away, late, twice, lost}
	s.SortFaults()
	script := schedule.NewScript(draw, 300)
	script.Keys, script.Reads = 4+draw.Below(8), 100
	for c := range n {
		work(&s, draw, c, trip, back, 0, trip/4, script.Operation)
	}
	work(&s, draw, draw.Below(n), back, last, trip/4, 2*trip, script.Operation)
	s.Settle = back + 20*trip
	return s
}
