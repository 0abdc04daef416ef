package simulator

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Leases that outlast several views: who is cut off with one goes on reading, while masters follow each other.
func TestCURPSurvivesLeasesOverViews(t *testing.T) {
	t.Parallel()
	mustNotFind(t, drawLeases, nil, seedsFor(t)/8)
}

// drawLeases makes a schedule in which the master or a backup is cut off while it reads under a lease of many round
// trips, and those who follow as masters are lost in turn, in the same process or not. Clocks drift up to the bound.
func drawLeases(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 9)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	p := s.Environment.Partitioned
	p.Sync.Lease, p.Sync.Delay = draw.Between(6*trip, 20*trip), draw.Between(trip/4, trip)
	p.Suspect, p.Calls.Rate, p.FalseAlarms = draw.Between(0, trip/2), 0, 0
	cut := draw.Between(24*trip, 32*trip) // no process has started within a lease
	away := draw.Below(2)                 // the master, or a backup
	side := uint64(1 << away)
	p.Calls.Side = side   // it hears of views from others alone
	if draw.Chance(800) { // with the witness beside it
		side |= 1 << (n + away)
	}
	if n == 5 && draw.Chance(300) {
		side |= 1 << (2 + draw.Below(3))
	}
	s.Faults = []faults.Fault{{Kind: faults.Partition, Everywhere: true, At: cut, For: draw.Between(6*trip, 24*trip), Side: side}}
	for range 1 + draw.Below(4) {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: []faults.Kind{faults.Crash, faults.Crash, faults.Pause}[draw.Below(3)], Node: 1 + draw.Below(n-1), At: cut + draw.Between(0, 12*trip),
			For: draw.Between(trip/2, 6*trip), Rate: 500,
		})
	}
	if draw.Chance(600) {
		for node := range n {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Skew, Node: node, At: trip, Drift: []int{-protocol.DriftBound, 0, protocol.DriftBound}[draw.Below(3)]})
		}
	}
	if draw.Chance(300) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Split, At: cut + draw.Between(-6*trip, 6*trip)})
	}
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
	s.Settle = cut + 40*trip
	script := schedule.NewScript(draw, 0)
	script.Keys = 4
	s.Clients = nil
	plan := func(home int, from, apart time.Duration, reads int) {
		c := schedule.Plan{Home: home}
		for at := from; at < s.Settle; at += draw.Between(apart/4, apart) {
			op := script.Operation()
			if draw.Chance(reads) {
				op = register.Operation{Kind: register.Read, Key: op.Key}
			}
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: op})
		}
		s.Clients = append(s.Clients, c)
	}
	for home := range n {
		if home != away { // what is written where nobody syncs it is not read there, either
			plan(home, cut-4*trip, 2*trip, 300)
		}
	}
	for range 3 {
		plan(away, cut-4*trip, trip/2, 1000)
	}
	return s
}
