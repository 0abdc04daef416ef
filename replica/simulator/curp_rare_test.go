package simulator

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// What random schedules come to too seldom: each is made for some mutants (TestMistakesOfCURPAreFound).
func TestCURPSurvivesRareSchedules(t *testing.T) {
	t.Parallel()
	for name, draw := range map[string]func(seed uint64) schedule.Schedule{
		"reads of backups": drawBackupReads, "no backups": drawAlone, "an empty disk": drawEmptied, "a copy in pages": drawCopied,
		"sessions soon forgotten": drawForgetful, "false alarms": drawAlarms, "a view told to few": drawUntold, "a backup left": drawLeft,
		"a backup kept": drawKept, "a master suspended": drawSuspended, "a witness asked again": drawAskedAgain, "a witness restarted": drawThawed,
	} { // order is irrelevant: each is a test
		t.Run(name, func(t *testing.T) { mustNotFind(t, draw, nil, seedsFor(t)/80) })
	}
}

// drawBackupReads makes a schedule in which members near each other read at their sites what others write now and then,
// and what is sent is lost or comes late, but before it is sent again. Nobody stops.
func drawBackupReads(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
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
	s.Clients = nil
	plan := func(home int, apart time.Duration, reads int) {
		c := schedule.Plan{Home: home}
		for at := 2*trip + draw.Between(0, trip); at < end; at += draw.Between(apart/8, apart) {
			op := script.Operation()
			if draw.Chance(reads) {
				op = register.Operation{Kind: register.Read, Key: op.Key}
			}
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: op})
		}
		s.Clients = append(s.Clients, c)
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

// drawAlone is drawBurst with a master that has no backups: what its disk lacks when it starts again, witnesses have.
func drawAlone(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 11)
	p, trip := s.Environment.Partitioned, s.Environment.Retry
	p.Placement = membership.Placement{Partitions: 1, Alone: 1 + draw.Below(2)}
	p.Suspect, p.FalseAlarms = 10*trip, 0
	disk := draw.Between(trip/8, trip)
	s.Environment.Disks[0] = schedule.Window{Low: disk, High: 2 * disk}
	crash := s.Faults[0].At
	s.Faults = []faults.Fault{{Kind: faults.Crash, Node: 0, At: crash, For: draw.Between(time.Millisecond, trip)}}
	return s
}

// drawEmptied is drawBurst in which the disk of a member is lost shortly before the master is.
func drawEmptied(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 12)
	n, trip, crash := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	s.Environment.Partitioned.Spares += 6
	s.Faults = append(s.Faults, faults.Fault{
		Kind: faults.Wipe, Node: 1 + draw.Below(n-1), At: crash - draw.Between(0, trip), For: draw.Between(time.Millisecond, trip), Rate: 1000,
	})
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
	return s
}

// drawCopied is drawEmptied with states of many pages.
func drawCopied(seed uint64) schedule.Schedule {
	s := drawEmptied(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 13)
	trip := s.Environment.Retry
	for i := range s.Faults {
		if s.Faults[i].Kind == faults.Wipe {
			s.Faults[i].At -= draw.Between(0, 3*trip)
		}
	}
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
	s.Environment.Partitioned.Sync.Kept, s.Environment.Partitioned.Sync.Delay = 1+draw.Below(4), draw.Between(0, trip)
	s.Environment.Tuning.PageBytes = 32
	return s
}

// drawForgetful is drawBurst with sessions that do little and are soon forgotten, and requests that come late.
func drawForgetful(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 14)
	n, trip, crash := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	s.Environment.Tuning.SessionsFor = draw.Between(trip/2, 3*trip)
	s.Environment.Partitioned.Sync.Delay = draw.Between(trip, 8*trip)
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Loss, Everywhere: true, At: 2 * trip, For: crash - 2*trip, Rate: 100 + draw.Below(400)})
	script := schedule.NewScript(draw, 1000)
	script.Keys = 20
	s.Clients, s.Abandon = s.Clients[len(s.Clients)-n:], 300
	for range 24 {
		p := schedule.Plan{Home: draw.Below(n)}
		at := draw.Between(trip, crash)
		for range 1 + draw.Below(2) {
			p.Operations = append(p.Operations, schedule.Planned{At: at, Operation: script.Operation()})
			at += draw.Between(0, trip)
		}
		s.Clients = append(s.Clients, p)
	}
	return s
}

// drawUntold is drawAlarms with one backup and one witness of five members, where a view is told to few before the
// record of it is lost.
func drawUntold(seed uint64) schedule.Schedule {
	s := schedule.OfFive(seed, drawAlarms)
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

// drawAlarms is drawBurst with witnesses that are replaced again and again, and a member that hears of it late.
func drawAlarms(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
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

// drawLeft is drawLeases in which nobody stops: who is cut off, often a backup with the witness beside it, is replaced.
func drawLeft(seed uint64) schedule.Schedule {
	s := drawLeases(seed)
	s.Faults = slices.DeleteFunc(s.Faults, func(f faults.Fault) bool { return f.Kind != faults.Partition && f.Kind != faults.Skew })
	return s
}

// drawKept is drawLeft with five members, of which two are backups: the master is cut off with one of them, the other
// one takes its place, and both are read.
func drawKept(seed uint64) schedule.Schedule {
	s := schedule.OfFive(seed, drawLeases)
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

// drawSuspended is drawBurst with a master that stands still, at the end of which nobody else reaches it for some time:
// what it was told before of leases, it hears then.
func drawSuspended(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 18)
	n, trip, at := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
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

// drawAskedAgain is drawBurst with witnesses whose disks are slow, and that get each message twice. Then all lose power
// at once, and the master stays away.
func drawAskedAgain(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 19)
	n, trip, crash := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	s.Environment.Disks[0] = schedule.Window{Low: time.Millisecond, High: 2 * time.Millisecond}
	for i := 1; i < n; i++ {
		s.Environment.Disks[i] = schedule.Window{Low: trip / 4, High: trip}
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Duplicate, Everywhere: true, At: crash - 3*trip, For: 3 * trip, Rate: 200 + draw.Below(700), Size: trip / 8},
		{Kind: faults.Crash, Node: 0, At: crash, For: 20 * trip, Rate: 1000},
	}
	for other := 1; other < n; other++ {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: other, At: crash, For: draw.Between(time.Millisecond, trip)})
	}
	return s
}

// drawThawed is drawBurst with a master that is cut off, and goes on with clients at its site. While another one takes
// its place, the witnesses stop and start again; then they are on the side of the first one.
func drawThawed(seed uint64) schedule.Schedule {
	s := drawBurst(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 20)
	n, trip, cut := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	p := s.Environment.Partitioned
	p.Suspect, p.FalseAlarms, p.Calls.Rate, p.Calls.Side = draw.Between(0, trip/2), 0, 0, 1
	p.Sync.Lease = draw.Between(6*trip, 10*trip) // the next master does not serve before they end, and the life lasts
	swap := cut + draw.Between(trip, 5*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: swap - cut, Side: 1 | 1<<n},
		{Kind: faults.Partition, Everywhere: true, At: swap, For: 10 * trip, Side: 1 | (1<<n-1)<<n},
	}
	for site := 1; site < n; site++ { // the witness there, more often than the member
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: site, At: swap - draw.Between(0, trip/2), For: draw.Between(time.Millisecond, trip/4)})
	}
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
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

// addReads has three more clients at a site read all the time.
func addReads(s *schedule.Schedule, draw kernel.Stream, home int, from, apart time.Duration) {
	script := schedule.NewScript(draw, 0)
	script.Keys, script.Reads = 2, 1000
	for range 3 {
		c := schedule.Plan{Home: home}
		for at := from; at < s.Settle; at += draw.Between(apart/4, apart) {
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, c)
	}
}
