package directed

import (
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// withMasters are the options of schedules of worlds with masters, with some kinds of faults.
func withMasters(kinds []faults.Kind) schedule.Options {
	return schedule.Options{Faults: kinds, RMWs: schedule.ManyRMWs, Partitioned: curp.Definition.Partitioned}
}

// nearMasters begins a schedule of three or five members near each other, of which one is the master of the only
// partition: syncs take their time, and in some, witnesses are replaced that live on. It goes on with the draws.
func nearMasters(seed uint64) (schedule.Schedule, kernel.Stream) {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 4)
	n := 3 + 2*draw.Below(2)
	env := drawNear(draw, "lost-masters", n)
	trip := 40*ms + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience = trip, 3*trip, 6*trip
	env.Partitioned = &schedule.Partitioned{
		Protocol:  curp.Definition.Partitioned,
		Sync:      protocol.Sync{After: 50, Delay: draw.Between(trip, 20*trip), Lease: draw.Between(trip, 10*trip)},
		Placement: membership.Placement{Partitions: 1, Faults: (n - 1) / 2, Dedicated: draw.Chance(300)},
		Slots:     64, Suspect: draw.Between(0, trip), Calls: faults.Fault{Kind: faults.Change, For: trip / 8, Size: trip / 8},
	}
	if draw.Chance(500) { // witnesses are replaced that live on, and one member hears of it late
		env.Partitioned.FalseAlarms, env.Partitioned.Suspect = 60, 0
		env.Partitioned.Calls.Rate, env.Partitioned.Calls.Side = 300, 1<<(1+draw.Below(n-1))
	}
	return schedule.Schedule{Seed: seed, Environment: env, Abandon: 100}, draw
}

// fewKeys is what clients do on a few keys, and when the master is lost meanwhile.
func fewKeys(draw kernel.Stream, trip time.Duration) (script *schedule.Script, lost time.Duration) {
	script = schedule.NewScript(draw, 500)
	script.Keys = 2 + draw.Below(6)
	script.Reads = 100 + draw.Below(500)
	return script, draw.Between(4*trip, 12*trip)
}

// LostMasters makes a schedule in which masters are lost with many operations that only witnesses have: clients work on
// a few keys, syncs take their time, and whoever is master crashes, perhaps again in the recovery; then everything is
// read. Random schedules have few operations that are not synced when a master is lost.
func LostMasters(seed uint64) schedule.Schedule {
	s, draw := nearMasters(seed)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	script, crash := fewKeys(draw, trip)
	for c := range 6 {
		work(&s, draw, (c+draw.Below(2))%n, 2*trip+draw.Between(0, trip), crash+12*trip, 0, 2*trip, script.Operation)
	}
	kind := []faults.Kind{faults.Crash, faults.Crash, faults.Torn, faults.Pause}[draw.Below(4)]
	s.Faults = append(s.Faults, faults.Fault{Kind: kind, Node: 0, At: crash, For: draw.Between(4*trip, 20*trip), Rate: []int{0, 500, 1000}[draw.Below(3)]})
	if draw.Chance(400) { // nobody hears it, and it hears nobody, but who is on its side
		s.Faults[0].Kind = faults.Partition
		s.Faults[0].Everywhere, s.Faults[0].Side = true, 1|uint64(draw.Below(2))<<n
		if n == 5 {
			s.Faults[0].Side |= uint64(draw.Below(2)) << (1 + draw.Below(4))
		}
	}
	if draw.Chance(400) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1 + draw.Below(n-1), At: crash + draw.Between(0, 4*trip), For: draw.Between(trip, 8*trip), Rate: 500})
	}
	if draw.Chance(600) {
		at := draw.Between(0, 2*trip)
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Loss, Everywhere: true, At: crash - at, For: at, Rate: 100 + draw.Below(400)})
	}
	if draw.Chance(300) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Reorder, Everywhere: true, At: 2 * trip, For: crash, Rate: 300, Size: 4 * trip})
	}
	if draw.Chance(300) { // a backup that reads at its site is left behind
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Partition, Everywhere: true, At: crash - 2*trip, For: draw.Between(4*trip, 16*trip), Side: 1<<1 | 1<<(n+1)})
	}
	if draw.Chance(300) { // all lose power at once, and the master stays away
		powerFails(&s, draw, crash, trip, 0)
	}
	if draw.Chance(300) { // the home is given back, and the former master serves again
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1, At: crash + 25*trip, For: 4 * trip, Rate: 500})
	}
	s.Settle = crash + 30*trip
	readEverywhere(&s, draw, script, crash, trip/2, 3*trip)
	return s
}

// clientsOfLostMasters is LostMasters without its faults, for schedules that have others, and when the first one was.
func clientsOfLostMasters(seed uint64) (s schedule.Schedule, lost time.Duration) {
	s = LostMasters(seed)
	lost, s.Faults = s.Faults[0].At, nil
	return s, lost
}

// MastersBack is LostMasters in which the former master comes back while another one recovers its term, who crashes
// in turn; and disks are lost meanwhile, of witnesses and of members.
func MastersBack(seed uint64) schedule.Schedule {
	s := LostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 7)
	n, trip, first := len(s.Environment.Network.Sites), s.Environment.Retry, &s.Faults[0]
	first.For = draw.Between(trip/2, 4*trip)
	for range 1 + draw.Below(3) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Lose, Node: draw.Below(n), At: first.At + draw.Between(-trip, 6*trip), For: draw.Between(0, trip)})
		s.Environment.Partitioned.Spares++
	}
	for range 1 + draw.Below(3) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1 + draw.Below(n-1), At: first.At + draw.Between(0, 8*trip), For: draw.Between(trip, 12*trip), Rate: 500})
	}
	s.Environment.Partitioned.Sync.Kept = 4 << draw.Below(8)
	if draw.Chance(700) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Loss, Everywhere: true, At: first.At, For: 8 * trip, Rate: 100 + draw.Below(500)})
	}
	s.SortFaults()
	return s
}

// SuspendedMasters is LostMasters in which the machine of the master is suspended, often for longer than its leases last.
func SuspendedMasters(seed uint64) schedule.Schedule {
	s := LostMasters(seed)
	s.Faults[0].Kind, s.Faults[0].Everywhere, s.Faults[0].Side = faults.Pause, false, 0
	return s
}

// NoBackups has the clients of LostMasters, and a master that has no backups and crashes: what its disk lacks when it
// starts again, witnesses have.
func NoBackups(seed uint64) schedule.Schedule {
	s, crash := clientsOfLostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 11)
	p, trip := s.Environment.Partitioned, s.Environment.Retry
	p.Placement = membership.Placement{Partitions: 1, Alone: 1 + draw.Below(2)}
	p.Suspect, p.FalseAlarms = 10*trip, 0
	disk := draw.Between(trip/8, trip)
	s.Environment.Disks[0] = schedule.Window{Low: disk, High: 2 * disk}
	s.Faults = []faults.Fault{{Kind: faults.Crash, Node: 0, At: crash, For: draw.Between(time.Millisecond, trip)}}
	return s
}

// EmptyDisks is LostMasters in which the disk of a member is lost shortly before the master is.
func EmptyDisks(seed uint64) schedule.Schedule {
	s := LostMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 12)
	n, trip, crash := len(s.Environment.Network.Sites), s.Environment.Retry, s.Faults[0].At
	s.Environment.Partitioned.Spares += 6
	s.Faults = append(s.Faults, faults.Fault{
		Kind: faults.Wipe, Node: 1 + draw.Below(n-1), At: crash - draw.Between(0, trip), For: draw.Between(time.Millisecond, trip), Rate: 1000,
	})
	s.SortFaults()
	return s
}

// CopiesInPages is EmptyDisks with states of many pages.
func CopiesInPages(seed uint64) schedule.Schedule {
	s := EmptyDisks(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 13)
	trip := s.Environment.Retry
	for i := range s.Faults {
		if s.Faults[i].Kind == faults.Wipe {
			s.Faults[i].At -= draw.Between(0, 3*trip)
		}
	}
	s.SortFaults()
	s.Environment.Partitioned.Sync.Kept, s.Environment.Partitioned.Sync.Delay = 1+draw.Below(4), draw.Between(0, trip)
	s.Environment.Tuning.PageBytes = 32
	return s
}

// LostQuorums makes a schedule in which a quorum is lost, and given up.
func LostQuorums(seed uint64) schedule.Schedule {
	s := schedule.Draw(seed, withMasters(faults.Without(faults.CURPKinds(), append(faults.Variations(), faults.LostQuorum)...)))
	s.AddLostQuorum(kernel.NewStream(seed, kernel.ForPartitions, 5), len(s.Environment.Network.Sites))
	return s
}

// Splits makes a schedule in which partitions are split.
func Splits(seed uint64) schedule.Schedule {
	options := withMasters(faults.Without(faults.CURPKinds(), append(faults.Variations(), faults.Split)...))
	s := schedule.Draw(seed, options)
	options.Faults = faults.CURPKinds()
	s.AddSplits(kernel.NewStream(seed, kernel.ForPartitions, 7), len(s.Environment.Network.Sites), options)
	return s
}

// SplitsForgotten makes a schedule in which a partition is split by a view that its master is told, and too few others,
// before the record of the view is lost. The master is cut off with it until another one has taken its place, and
// nothing is split. Updates of both halves wait at it, of clients with much patience.
func SplitsForgotten(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForPartitions, 9)
	trip, p := s.Environment.Retry, s.Environment.Partitioned
	s.Environment.Patience = 60 * trip
	p.Suspect, p.FalseAlarms, p.Spares = 0, 0, 2
	p.Calls = faults.Fault{Kind: faults.Change, For: trip, Size: trip / 8} // a new master comes before the next try
	split := draw.Between(4*trip, 8*trip)
	s.Faults = []faults.Fault{
		{Kind: faults.Split, At: split},
		{Kind: faults.Forget, At: split + draw.Between(2*trip, 6*trip), For: draw.Between(8*trip, 20*trip)},
	}
	script := schedule.NewScript(draw, 300)
	script.Keys, script.Reads = 8, 100
	for home := range s.Environment.Network.Sites {
		for range 5 {
			work(&s, draw, home, split-draw.Between(0, 2*trip), split+12*trip, 0, trip, script.Operation)
		}
	}
	s.Settle = split + 40*trip
	readEverywhere(&s, draw, script, split+20*trip, trip/2, 3*trip)
	return s
}
