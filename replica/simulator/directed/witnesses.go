package directed

import (
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// OldWitnesses is LostMasters with two witnesses, of which the disk of one goes back shortly before the first crash,
// alone (WitnessCopy) or with that of the member beside it (VolumeCopy). Until then each update has a key of its own,
// mostly, and nobody reads, so that there is much that is not synced.
func OldWitnesses(seed uint64, kind faults.Kind) schedule.Schedule {
	s := ofSize(five, seed, LostMasters)
	s.Environment.Doubtful = true
	s.Environment.Partitioned.Spares += 4
	s.Environment.Partitioned.FalseAlarms = 0 // the other witness has to stay
	s.Environment.Partitioned.Placement.Dedicated = s.Environment.Partitioned.Placement.Dedicated && kind == faults.WitnessCopy
	crash, retry := s.Faults[0].At, s.Environment.Retry
	s.Environment.Partitioned.Sync.Delay = 20 * retry
	for c := range s.Clients {
		plan := &s.Clients[c]
		plan.Operations = slices.DeleteFunc(plan.Operations, func(p schedule.Planned) bool {
			return p.At < crash && p.Operation.Kind == register.Read
		})
		for i := range plan.Operations {
			plan.Operations[i].Operation.Key += fmt.Sprint("-", i%8)
		}
	}
	from := 2*retry + time.Duration(seed%4)*retry/2
	s.Faults = append(s.Faults, faults.Fault{Kind: kind, Node: int(seed/4) % 5, At: from, Size: crash - from - retry/8, For: retry / 16})
	return s
}

// OldCopies makes a schedule in which disks go back to what they were, and nothing else goes wrong, with all of one
// kind: of members alone (OldCopy), of witnesses alone (WitnessCopy), or of both at once (VolumeCopy).
func OldCopies(seed uint64, kind faults.Kind) schedule.Schedule {
	s := schedule.Draw(seed, withMasters([]faults.Kind{faults.OldCopy}))
	for i := range s.Faults {
		if slices.Contains([]faults.Kind{faults.OldCopy, faults.WitnessCopy, faults.VolumeCopy}, s.Faults[i].Kind) {
			s.Faults[i].Kind = kind
		}
	}
	return s
}

// FalseAlarms is LostMasters with witnesses that are replaced again and again, and a member that hears of it late.
func FalseAlarms(seed uint64) schedule.Schedule {
	s := LostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 16)
	n, trip, crash := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	p := s.Environment.Partitioned
	p.FalseAlarms, p.Suspect, p.Sync.Delay = 100+draw.Below(300), 0, 20*trip
	p.Calls.Rate, p.Calls.Side = 300+draw.Below(500), 1<<(1+draw.Below(n-1))
	s.Abandon = 300
	s.Faults[0] = faults.Fault{Kind: faults.Crash, Node: 0, At: crash, For: 20 * trip, Rate: 1000}
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Loss, Everywhere: true, At: 2 * trip, For: crash, Rate: draw.Below(300)})
	return s
}

// ViewsToldToFew is FalseAlarms with one backup and one witness of five members, where a view is told to few before the
// record of it is lost.
func ViewsToldToFew(seed uint64) schedule.Schedule {
	s := ofSize(five, seed, FalseAlarms)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 15)
	trip := s.Environment.Retry
	s.Environment.Partitioned.Placement.Faults = 1
	s.Environment.Partitioned.Spares += 8
	crash := draw.Between(10*trip, 14*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Forget, At: crash - draw.Between(2*trip, 8*trip), For: draw.Between(trip/8, 2*trip)},
		{Kind: faults.Crash, Node: 0, At: crash, For: 20 * trip, Rate: 1000},
	}
	for c := range s.Clients {
		s.Clients[c].Home = c % 5
	}
	return s
}

// WitnessesAskedTwice has the clients of LostMasters, and witnesses whose disks are slow, and that get each message
// twice. Then all lose power at once, and the master stays away.
func WitnessesAskedTwice(seed uint64) schedule.Schedule {
	s, crash := clientsOfLostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 19)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	s.Environment.Disks[0] = schedule.Window{Low: time.Millisecond, High: 2 * time.Millisecond}
	for i := 1; i < n; i++ {
		s.Environment.Disks[i] = schedule.Window{Low: trip / 4, High: trip}
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Duplicate, Everywhere: true, At: crash - 3*trip, For: 3 * trip, Rate: 200 + draw.Below(700), Size: trip / 8},
		{Kind: faults.Crash, Node: 0, At: crash, For: 20 * trip, Rate: 1000},
	}
	powerFails(&s, draw, crash, trip, 0)
	return s
}

// WitnessesRestarted has the clients of LostMasters, and a master that is cut off, and goes on with clients at its
// site. While another one takes its place, the witnesses stop and start again; then they are on the side of the first
// one.
func WitnessesRestarted(seed uint64) schedule.Schedule {
	s, cut := clientsOfLostMasters(seed)
	draw, twice := kernel.NewStream(seed, kernel.ForSchedule, 20), kernel.NewStream(seed, kernel.ForSchedule, 26)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	p := s.Environment.Partitioned
	p.Suspect, p.FalseAlarms, p.Calls.Rate, p.Calls.Side = draw.Between(0, trip/2), 0, 0, 1
	p.Sync.Lease = draw.Between(6*trip, 10*trip) // the next master does not serve before they end, and the life lasts
	swap := cut + draw.Between(trip, 5*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: swap - cut, Side: 1 | 1<<n},
		{Kind: faults.Partition, Everywhere: true, At: swap, For: 10 * trip, Side: 1 | (1<<n-1)<<n},
	}
	for site := 1; site < n; site++ { // the witness there, more often than the member
		stop := faults.Fault{
			Kind: faults.Crash, Node: site, At: swap - draw.Between(0, trip/2), For: draw.Between(time.Millisecond, trip/4),
		}
		s.Faults = append(s.Faults, stop)
		if twice.Chance(300) { // while members tell the process before what they have heard of its disk
			stop.At += stop.For + twice.Between(0, trip)
			s.Faults = append(s.Faults, stop)
		}
	}
	s.SortFaults()
	for c := range 8 { // what they write to, nobody else does: it need not be synced
		key := schedule.MixedPrefix + fmt.Sprint("only-", c)
		s.Clients = append(s.Clients,
			schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: swap + draw.Between(0, 3*trip), Operation: register.Operation{
				Kind: register.Write, Key: key, Value: register.Value(key),
			}}}},
			schedule.Plan{Home: draw.Below(n), Operations: []schedule.Planned{{At: s.Settle - draw.Between(0, trip), Operation: register.Operation{
				Kind: register.Read, Key: key,
			}}}},
		)
	}
	return s
}
