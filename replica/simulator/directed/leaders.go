package directed

import (
	"strings"

	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// LostLeaders makes a schedule in which leaders are lost with operations that few others have: clients work on some
// keys, what the leader says is lost or late, and then it crashes, perhaps with its successor; then everything is read.
// A leader replicates at once, so that random schedules have few such operations.
func LostLeaders(seed uint64, options schedule.Options) schedule.Schedule {
	draw := kernel.NewStream(seed, kernel.ForSchedule, 5)
	s, n, trip := near(draw, seed, "lost-leaders", options)
	if draw.Chance(300) {
		s.Environment.Suspect = trip / 4 // leaders change while messages are under way
	}
	script := scriptOf(draw, options)
	script.Keys = 4 + draw.Below(12)
	script.Reads = 50 + draw.Below(200)
	crash := draw.Between(6*trip, 12*trip)
	at := draw.Between(trip/2, 3*trip)
	s.Faults = append(s.Faults,
		faults.Fault{Kind: []faults.Kind{faults.Crash, faults.Torn, faults.Pause}[draw.Below(3)], Node: 0, At: crash, For: draw.Between(6*trip, 20*trip), Rate: []int{0, 500, 1000}[draw.Below(3)]},
		faults.Fault{Kind: faults.Loss, Everywhere: true, At: crash - at, For: at, Rate: 200 + draw.Below(500)})
	if draw.Chance(500) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Reorder, Everywhere: true, At: crash - at, For: at, Rate: 500, Size: 8 * trip})
	}
	if draw.Chance(400) { // the leader is heard by one other, at most
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Partition, Everywhere: true, At: crash - at, For: at + 8*trip, Side: 1 | uint64(draw.Below(2))<<(1+draw.Below(n-1)), OneWay: draw.Chance(500)})
	}
	if draw.Chance(400) { // all lose power
		powerFails(&s, draw, crash, trip, 500)
	}
	if draw.Chance(500) { // and its successor, perhaps before it serves
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1 + draw.Below(n-1), At: crash + draw.Between(3*trip, 8*trip), For: draw.Between(trip, 8*trip), Rate: 500})
	}
	for c := range 8 {
		work(&s, draw, (c+draw.Below(2))%n, 3*trip+draw.Between(0, trip), crash+10*trip, 0, trip, script.Operation)
	}
	s.Settle = crash + 25*trip
	readEverywhere(&s, draw, script, crash, trip/4, 2*trip)
	return s
}

// lostLeaders is LostLeaders of three or five members with many rmws.
func lostLeaders(seed uint64) schedule.Schedule {
	return LostLeaders(seed, schedule.Options{RMWs: 500})
}

// LeadersHeardByOne is LostLeaders with five members and a leader of whom one other hears alone before it is lost:
// clients at both go on by what witnesses save, and the others know of nothing else.
func LeadersHeardByOne(seed uint64) schedule.Schedule {
	s := ofSize(five, seed, lostLeaders)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 22)
	trip, lost := s.Environment.Retry, s.Faults[0]
	cut := lost.At - draw.Between(trip/2, 3*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Node: 0, At: cut, For: lost.At - cut, Side: 1<<0 | 1<<1, OneWay: true}, lost,
	}
	for c := range 8 {
		s.Clients[c].Home = draw.Below(2)
	}
	return s
}

// LeadersHardlyHeard is LostLeaders with a leader of whom one other hears at most, and of three members nobody, before
// it is lost, often with all others; its disk may be slow, and some records of what it hears are lost, or late.
func LeadersHardlyHeard(seed uint64) schedule.Schedule {
	s := lostLeaders(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 21)
	n, trip, lost := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0]
	cut := lost.At - draw.Between(trip/2, 3*trip)
	from := cut - 2*trip
	hearer := n / 5 // 0: nobody else
	s.Faults = []faults.Fault{{Kind: faults.Partition, Node: 0, At: cut, For: 14 * trip, Side: 1 | 1<<hearer, OneWay: true}}
	if draw.Chance(500) { // nor does it send what its own disk has yet to store
		s.Environment.Disks[0] = schedule.Window{Low: trip / 2, High: 2 * trip}
	}
	if draw.Chance(600) {
		s.Faults = append(s.Faults, lost)
	}
	if draw.Chance(300) { // with who has heard of it
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Crash, Node: 1, At: lost.At + draw.Between(0, trip), For: 20 * trip, Rate: 500,
		})
	}
	if draw.Chance(500) { // some records don't arrive
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Loss, Node: []int{0, n - 1}[draw.Below(2)], At: from, For: lost.At - from, Rate: 300 + draw.Below(500),
		})
	}
	if draw.Chance(500) { // or late
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Reorder, Everywhere: true, At: from, For: lost.At - from, Rate: 700,
			Size: draw.Between(trip, 2*s.Environment.Suspect+2*trip),
		})
	}
	if draw.Chance(300) { // all lose power
		for other := 1; other < n; other++ {
			s.Environment.Disks[other] = schedule.Window{Low: trip / 8, High: trip / 2}
		}
		powerFails(&s, draw, lost.At, trip, 0)
	}
	s.SortFaults()
	few := draw.Chance(500)
	for c := range 8 {
		p := &s.Clients[c]
		p.Home = []int{0, hearer, n - 1}[draw.Below(3)]
		for i := range p.Operations {
			if op := &p.Operations[i].Operation; few {
				op.Key = strings.TrimRight(op.Key, "0123456789") + "0"
			}
		}
	}
	return s
}

// LeadersCutOff is LostLeaders with a leader that is cut off with its clients, perhaps with one other of five, so long
// that the others elect another one and go on, and is back then. Logs are short, so that others may have forgotten the
// entries that it has others in the place of; it or its disk may stop soon after.
func LeadersCutOff(seed uint64) schedule.Schedule {
	s := lostLeaders(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 35)
	n, trip, lost := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0]
	s.Environment.Suspect = 3 * trip
	tuning := &s.Environment.Tuning
	tuning.LogEntries, tuning.PageBytes = 1+draw.Below(6), 32<<draw.Below(4)
	side := uint64(1)
	if n == 5 && draw.Chance(500) {
		side |= 1 << 1
	}
	cut, back := lost.At-draw.Between(trip, 3*trip), lost.At+draw.Between(4*trip, 8*trip)
	s.Faults = []faults.Fault{{Kind: faults.Partition, Everywhere: true, At: cut, For: back - cut, Side: side}}
	if draw.Chance(400) {
		lost.At, lost.For = back+draw.Between(0, 4*trip), draw.Between(0, 4*trip)
		s.Faults = append(s.Faults, lost)
	}
	if draw.Chance(400) { // and others are not up to date when they hear of it
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Loss, Everywhere: true, At: back, For: draw.Between(trip, 4*trip), Rate: 200 + draw.Below(500),
		})
	}
	others := []int{100, 500}[draw.Below(2)]
	for c := range 8 {
		if s.Clients[c].Home = 0; draw.Chance(others) {
			s.Clients[c].Home = 1 + draw.Below(n-1)
		}
	}
	s.SortFaults()
	return s
}
