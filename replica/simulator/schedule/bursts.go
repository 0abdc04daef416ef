package schedule

import (
	"fmt"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/definition"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawNear makes an environment of so many sites near each other.
func drawNear(draw kernel.Stream, name string, n int) Environment {
	return Environment{
		Network: drawNetwork(draw, name, n, 5*time.Millisecond, 30*time.Millisecond), Shards: 1, Jitter: 300,
		Disks: DrawDisks(draw, n), Sealed: true, Skewed: true, ClientRTT: profile.Local,
	}
}

// readEverywhere adds a client at each site, which reads keys of a script from a time on, until the schedule is over.
func (s *Schedule) readEverywhere(draw kernel.Stream, script *script, from, least, most time.Duration) {
	for home := range s.Environment.Network.Sites {
		var reads []Planned
		for at := from; at < s.Settle; at += draw.Between(least, most) {
			op := script.Operation()
			reads = append(reads, Planned{At: at, Operation: register.Operation{Kind: register.Read, Key: op.Key}})
		}
		s.Clients = append(s.Clients, Plan{Home: home, Operations: reads})
	}
}

// OfFive is the schedule of a seed with five sites: of those drawn from seeds behind it, 2^32 apart, the first.
func OfFive(seed uint64, draw func(seed uint64) Schedule) Schedule {
	s := draw(seed)
	for again := uint64(1); len(s.Environment.Network.Sites) != 5; again++ {
		s = draw(seed + again<<32)
	}
	s.Seed = seed
	return s
}

// Burst makes a schedule in which masters are lost with many operations that only witnesses have: clients work on a
// few keys, syncs take their time, and whoever is master crashes, perhaps again in the recovery; then everything is
// read. Random schedules have few operations that are not synced when a master is lost.
func Burst(seed uint64, protocols *definition.Partitioned) Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 4)
	n := 3 + 2*draw.Below(2)
	env := drawNear(draw, "burst", n)
	trip := 40*ms + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience = trip, 3*trip, 6*trip
	env.Partitioned = &Partitioned{
		Protocol:  protocols,
		Sync:      protocol.Sync{After: 50, Delay: draw.Between(trip, 20*trip), Lease: draw.Between(trip, 10*trip)},
		Placement: membership.Placement{Partitions: 1, Faults: (n - 1) / 2, Dedicated: draw.Chance(300)},
		Slots:     64, Suspect: draw.Between(0, trip), Calls: faults.Fault{Kind: faults.Change, For: trip / 8, Size: trip / 8},
	}
	if draw.Chance(500) { // witnesses are replaced that live on, and one member hears of it late
		env.Partitioned.FalseAlarms, env.Partitioned.Suspect = 60, 0
		env.Partitioned.Calls.Rate, env.Partitioned.Calls.Side = 300, 1<<(1+draw.Below(n-1))
	}
	s := Schedule{Seed: seed, Environment: env, Abandon: 100}
	script := NewScript(draw, 500)
	script.Keys = 2 + draw.Below(6)
	script.Reads = 100 + draw.Below(500)
	crash := draw.Between(4*trip, 12*trip)
	for c := range 6 {
		p := Plan{Home: (c + draw.Below(2)) % n}
		for at := 2*trip + draw.Between(0, trip); at < crash+12*trip; at += draw.Between(0, 2*trip) {
			p.Operations = append(p.Operations, Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, p)
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
		for other := 1; other < n; other++ {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: other, At: crash, For: draw.Between(time.Millisecond, trip)})
		}
	}
	if draw.Chance(300) { // the home is given back, and the former master serves again
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1, At: crash + 25*trip, For: 4 * trip, Rate: 500})
	}
	s.Settle = crash + 30*trip
	s.readEverywhere(draw, script, crash, trip/2, 3*trip)
	return s
}

// TakenBack is a Burst in which the former master comes back while another one recovers its term, who crashes
// in turn; and disks are lost meanwhile, of witnesses and of members.
func TakenBack(seed uint64, protocols *definition.Partitioned) Schedule {
	s := Burst(seed, protocols)
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
	slices.SortStableFunc(s.Faults, func(a, b faults.Fault) int { return int(a.At - b.At) })
	return s
}

// Leases makes a schedule in which the master or a backup is cut off while it reads under a lease of many round
// trips, and those who follow as masters are lost in turn, in the same process or not. Clocks drift up to the bound.
func Leases(seed uint64, protocols *definition.Partitioned) Schedule {
	s := Burst(seed, protocols)
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
	script := NewScript(draw, 0)
	script.Keys = 4
	s.Clients = nil
	plan := func(home int, from, apart time.Duration, reads int) {
		c := Plan{Home: home}
		for at := from; at < s.Settle; at += draw.Between(apart/4, apart) {
			op := script.Operation()
			if draw.Chance(reads) {
				op = register.Operation{Kind: register.Read, Key: op.Key}
			}
			c.Operations = append(c.Operations, Planned{At: at, Operation: op})
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

// CopyBurst is Burst with two witnesses, of which the disk of one goes back shortly before the first crash.
// Until then each update has a key of its own, mostly, and nobody reads, so that there is much that is not synced.
func CopyBurst(seed uint64, protocols *definition.Partitioned, kind faults.Kind) Schedule {
	s := OfFive(seed, func(seed uint64) Schedule { return Burst(seed, protocols) })
	s.Environment.Doubtful = true
	s.Environment.Partitioned.Spares += 4
	s.Environment.Partitioned.FalseAlarms = 0 // the other witness has to stay
	s.Environment.Partitioned.Placement.Dedicated = s.Environment.Partitioned.Placement.Dedicated && kind == faults.WitnessCopy
	crash, retry := s.Faults[0].At, s.Environment.Retry
	s.Environment.Partitioned.Sync.Delay = 20 * retry
	for c := range s.Clients {
		plan := &s.Clients[c]
		plan.Operations = slices.DeleteFunc(plan.Operations, func(p Planned) bool {
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

// LeaderLoss makes a schedule in which leaders are lost with operations that only witnesses have: clients work on
// some keys, what the leader says is lost or late, and then it crashes, perhaps with its successor; then everything is
// read. A leader replicates at once, so that random schedules have few such operations.
func LeaderLoss(seed uint64, options Options) Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 5)
	n := 3 + 2*draw.Below(2)
	env := drawNear(draw, "leader-loss", n)
	trip := 40*ms + 4*env.Slowest()
	env.Retry, env.Suspect, env.Patience = trip, 3*trip, 12*trip
	if draw.Chance(300) {
		env.Suspect = trip / 4 // leaders change while messages are under way
	}
	s := Schedule{Seed: seed, Environment: env, Abandon: 100}
	script := NewScript(draw, options.RMWs)
	script.idempotent, script.large = options.Idempotent, options.Large
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
		for other := 1; other < n; other++ {
			s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: other, At: crash, For: draw.Between(ms, trip), Rate: 500})
		}
	}
	if draw.Chance(500) { // and its successor, perhaps before it serves
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1 + draw.Below(n-1), At: crash + draw.Between(3*trip, 8*trip), For: draw.Between(trip, 8*trip), Rate: 500})
	}
	for c := range 8 {
		p := Plan{Home: (c + draw.Below(2)) % n}
		for at := 3*trip + draw.Between(0, trip); at < crash+10*trip; at += draw.Between(0, trip) {
			p.Operations = append(p.Operations, Planned{At: at, Operation: script.Operation()})
		}
		s.Clients = append(s.Clients, p)
	}
	s.Settle = crash + 25*trip
	s.readEverywhere(draw, script, crash, trip/4, 2*trip)
	return s
}
