package directed

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// LeasesCutOff makes a schedule in which the master or a backup is cut off while it reads under a lease of many round
// trips, and those who follow as masters are lost in turn, in the same process or not. Clocks drift up to the bound.
func LeasesCutOff(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
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
	s.SortFaults()
	s.Settle = cut + 40*trip
	script := schedule.NewScript(draw, 0)
	script.Keys = 4
	for home := range n {
		if home != away { // what is written where nobody syncs it is not read there, either
			work(&s, draw, home, cut-4*trip, s.Settle, trip/2, 2*trip, reading(draw, script, 300))
		}
	}
	for range 3 {
		work(&s, draw, away, cut-4*trip, s.Settle, trip/8, trip/2, reading(draw, script, 1000))
	}
	return s
}

// ReplacedUnderLeases is LeasesCutOff in which nobody stops: who is cut off, often a backup with the witness beside it,
// is replaced.
func ReplacedUnderLeases(seed uint64) schedule.Schedule {
	s := LeasesCutOff(seed)
	s.Faults = slices.DeleteFunc(s.Faults, func(f faults.Fault) bool { return f.Kind != faults.Partition && f.Kind != faults.Skew })
	return s
}

// BackupsOnBothSides is ReplacedUnderLeases with five members, of which two are backups: the master is cut off with one
// of them, the other one takes its place, and both are read.
func BackupsOnBothSides(seed uint64) schedule.Schedule {
	s := ofSize(five, seed, LeasesCutOff)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 17)
	trip := s.Environment.Retry
	s.Faults = slices.DeleteFunc(s.Faults, func(f faults.Fault) bool { return f.Kind != faults.Partition })
	with := 1 + draw.Below(4)
	side := uint64(1 | 1<<with)
	s.Environment.Partitioned.Calls.Side = side
	s.Faults[0].Side = side | side<<5
	addReads(&s, draw, 0, s.Faults[0].At-4*trip, trip/2)
	return s
}

// LeasesOfFormerProcesses makes a schedule in which a backup that is read at its site stops for a moment, hears late
// what its former process was told of leases, and is cut off.
func LeasesOfFormerProcesses(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 28)
	n, trip, p := len(s.Environment.Network.Sites), s.Environment.Retry, s.Environment.Partitioned
	p.Sync.Lease, p.Sync.Delay = draw.Between(6*trip, 12*trip), draw.Between(trip/4, trip)
	p.Suspect, p.FalseAlarms, p.Calls.Rate, p.Calls.Side = draw.Between(0, trip/2), 0, 0, 1<<1
	cut := draw.Between(24*trip, 32*trip) // no process has started within a lease
	stops := cut - draw.Between(trip/2, 4*trip)
	s.Faults = []faults.Fault{
		{
			Kind: faults.Reorder, Everywhere: true, At: stops - 4*trip, For: cut - stops + 4*trip,
			Rate: 200 + draw.Below(500), Size: draw.Between(trip, 6*trip),
		},
		{Kind: faults.Crash, Node: 1, At: stops, For: draw.Between(time.Millisecond, trip/4)},
		{Kind: faults.Partition, Everywhere: true, At: cut, For: draw.Between(12*trip, 24*trip), Side: 1<<1 | 1<<(n+1)},
	}
	s.SortFaults()
	s.Settle = cut + 40*trip
	script := schedule.NewScript(draw, 0)
	script.Keys = 4
	for home := range n {
		if home != 1 {
			work(&s, draw, home, stops-8*trip, s.Settle, trip/4, 2*trip, reading(draw, script, 300))
		}
	}
	for range 3 {
		work(&s, draw, 1, stops-8*trip, s.Settle, trip/8, trip/2, reading(draw, script, 1000))
	}
	return s
}

// LeasesHeardLate has the clients of LostMasters, and a master that stands still, at the end of which nobody else
// reaches it for some time: what it was told before of leases, it hears then.
func LeasesHeardLate(seed uint64) schedule.Schedule {
	s, at := clientsOfLostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 18)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	p := s.Environment.Partitioned
	p.Suspect, p.FalseAlarms, p.Calls.Rate, p.Calls.Side = draw.Between(0, trip/2), 0, 0, 1
	p.Sync.Lease, p.Sync.Delay = draw.Between(4*trip, 10*trip), draw.Between(trip/8, trip)
	still := draw.Between(p.Sync.Lease/2, p.Sync.Lease*3/2)
	s.Faults = []faults.Fault{
		{Kind: faults.Pause, Node: 0, At: at, For: still},
		{Kind: faults.Partition, Everywhere: true, At: at + draw.Between(0, trip), For: still + 8*trip, Side: 1 | 1<<n},
	}
	addReads(&s, draw, 0, at-6*trip, trip/2)
	return s
}

// BackupReads makes a schedule in which members near each other read at their sites what others write now and then,
// and what is sent is lost or comes late, but before it is sent again. Nobody stops.
func BackupReads(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 10)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	for a := range n {
		for b := range n {
			if a != b {
				s.Environment.Network.RTT[a][b] /= 4
			}
		}
	}
	p := s.Environment.Partitioned
	p.Sync.Lease, p.Sync.Delay = 10*trip, draw.Between(trip/16, trip/2)
	p.FalseAlarms, p.Suspect = 0, 10*trip
	end := 24 * trip
	s.Faults = []faults.Fault{
		{Kind: faults.Reorder, Everywhere: true, At: 2 * trip, For: end, Rate: 100 + draw.Below(300), Size: draw.Between(trip/2, trip)},
		{Kind: faults.Loss, Everywhere: true, At: 2 * trip, For: end, Rate: []int{0, 100, 300}[draw.Below(3)]},
	}
	script := schedule.NewScript(draw, 0)
	script.Keys = 1 + draw.Below(3)
	plan := func(home int, apart time.Duration, reads int) {
		work(&s, draw, home, 2*trip+draw.Between(0, trip), end, apart/8, apart, reading(draw, script, reads))
	}
	for home := range n {
		plan(home, trip/2, 1000)
		plan(home, trip/4, 1000)
	}
	plan(0, draw.Between(trip/2, 4*trip), 0)
	plan(draw.Below(n), draw.Between(trip, 4*trip), 0)
	s.Settle = end
	return s
}

// LeasesOnSlowDisks has the clients of LostMasters, and disks that take so long that leases end within a few writes;
// all members read the keys of partitions of several masters. Nobody stops.
func LeasesOnSlowDisks(seed uint64) schedule.Schedule {
	s, _ := clientsOfLostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 27)
	trip := s.Environment.Retry
	for i := range s.Environment.Disks {
		s.Environment.Disks[i] = schedule.Window{Low: trip / 2, High: trip}
	}
	p := s.Environment.Partitioned
	p.Placement.Partitions, p.Placement.Faults = 2+draw.Below(2), 1
	p.Sync.Lease, p.Sync.Delay = 2*trip, draw.Between(trip/8, trip)
	p.FalseAlarms, p.Suspect = 0, 10*trip
	return s
}

// addReads has three more clients at a site read all the time.
func addReads(s *schedule.Schedule, draw kernel.Stream, home int, from, apart time.Duration) {
	script := schedule.NewScript(draw, 0)
	script.Keys, script.Reads = 2, 1000
	for range 3 {
		work(s, draw, home, from, s.Settle, apart/4, apart, script.Operation)
	}
}
