package directed

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// SessionsForgotten is LostMasters with sessions that do little and are soon forgotten, and requests that come late.
func SessionsForgotten(seed uint64) schedule.Schedule {
	s := LostMasters(seed)
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
	// After as many entries masters look whom they have not seen for long.
	s.Environment.Tuning.Sessions = 8 << draw.Below(3)
	return s
}

// SessionsBack makes a schedule of updates of one key, of which many are sent again; members remember one session of
// it.
func SessionsBack(seed uint64) schedule.Schedule {
	s := schedule.Draw(seed, schedule.Options{
		Faults: []faults.Kind{faults.Loss, faults.Reorder, faults.Partition}, RMWs: 900, Keys: 1, Members: []int{3},
	})
	s.Environment.InFlight = 2 + kernel.NewStream(seed, kernel.ForSchedule, 24).Below(3)
	s.Environment.Tuning.Sessions = 1
	s.Abandon = 300
	return s
}

// SessionsOutOfOrder is SessionsBack where members remember all sessions: requests of one come in another order than
// its clients made them, so that the first one in progress often comes after later ones.
func SessionsOutOfOrder(seed uint64) schedule.Schedule {
	s := SessionsBack(seed)
	s.Environment.Tuning.Sessions = 0
	return s
}

// SessionsBackAtMasters is SessionsBack with a master, which remembers one or two sessions.
func SessionsBackAtMasters(seed uint64) schedule.Schedule {
	s, _ := nearMasters(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 24)
	n, trip := len(s.Environment.Network.Sites), s.Environment.Retry
	s.Environment.InFlight, s.Environment.Tuning.Sessions = 2+draw.Below(3), 1+draw.Below(2)
	s.Environment.Partitioned.Sync.Delay = draw.Between(trip/8, trip)
	end := 28 * trip
	s.Faults = []faults.Fault{{Kind: faults.Loss, Everywhere: true, At: 2 * trip, For: end, Rate: 200 + draw.Below(400)}}
	script := schedule.NewScript(draw, 1000)
	script.Keys, s.Abandon = 3, 300
	for c := range 12 {
		work(&s, draw, c%n, 2*trip+draw.Between(0, 4*trip), end, 0, 4*trip, script.Operation)
	}
	s.Settle = end + 2*trip
	return s
}

// HalfKeys are those of HalfWrites; of two shards, they are in one each.
var HalfKeys = [2]string{schedule.MixedPrefix + "0", schedule.MixedPrefix + "1"}

// HalfWrites makes a schedule in which a write gets no further than its coordinator, for as long as that waits before
// it asks again. Two of five members are near each other, among them the coordinator, and the other three too: what a
// session reads at the one side, a quorum on the other does not know of, unless the session says so. It goes on with
// other operations, tells others, moves, and fences; its coordinator stops now and then, or does not get through with
// what the read writes back. Random schedules come to this seldom, as reads spread what they read.
func HalfWrites(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Regular, s.Environment.Retry, s.Environment.Suspect, s.Environment.Shuffled, s.Environment.Patience = true, 600*ms, 1800*ms, draw.Chance(200), 80*ms
	s.Abandon = 300
	for a := range 5 {
		for b := range 5 {
			switch {
			case a == b:
			case (a < 2) == (b < 2):
				s.Environment.Network.RTT[a][b] = 10 * ms
			default:
				s.Environment.Network.RTT[a][b] = 40 * ms
			}
		}
	}
	x, y := HalfKeys[0], HalfKeys[1]
	count := 0
	value := func() register.Value { count++; return register.Value{byte('0' + count)} }
	plan := func(home int, at time.Duration, key string, op register.Operation) *schedule.Plan {
		op.Key = key
		s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
		return &s.Clients[len(s.Clients)-1]
	}
	any := func(key string, rmws int) register.Operation {
		op := register.Operation{Kind: register.Read, Key: key, Regular: true}
		switch {
		case draw.Chance(150):
			op = register.Operation{Kind: register.Write, Key: key, Value: value()}
		case draw.Chance(rmws):
			op = schedule.Call(key, register.GetAndSet, string(value()))
		}
		return op
	}
	key := func() string { return []string{x, y}[draw.Below(2)] }
	plan(0, 20*ms, x, register.Operation{Kind: register.Write, Value: value()})
	plan(3, 20*ms, y, register.Operation{Kind: register.Write, Value: value()})
	plan(0, 200*ms, x, register.Operation{Kind: register.Write, Value: value()})
	cut := 235*ms + draw.Between(0, 5*ms)
	s.Faults = []faults.Fault{{Kind: faults.Loss, Node: 0, At: cut, For: draw.Between(5*ms, 15*ms), Rate: 1000}}
	reader := plan(1, cut+draw.Between(10*ms, 40*ms), x, register.Operation{Kind: register.Read, Regular: true})
	at := reader.Operations[0].At
	const others = 4
	for range 1 + draw.Below(4) {
		at += draw.Between(0, 120*ms)
		if draw.Chance(700) {
			kinds := []schedule.AsideKind{schedule.AsideMove, schedule.AsideDie, schedule.AsideFence, schedule.AsideTell, schedule.AsideFenceAndTell}
			a := schedule.Aside{At: at, Kind: kinds[draw.Below(len(kinds))], Whom: 4 + draw.Below(others), Delay: draw.Between(0, 5*ms)}
			if a.Kind == schedule.AsideMove {
				a.Whom = 2 + draw.Below(3)
			}
			reader.Asides = append(reader.Asides, a)
		}
		op := any(key(), 400)
		reader.Operations = append(reader.Operations, schedule.Planned{At: at, Operation: op})
	}
	for range others {
		at := cut + draw.Between(30*ms, 400*ms)
		c := plan(2+draw.Below(3), at, key(), any("", 150))
		for range draw.Below(4) {
			at += draw.Between(0, 20*ms)
			c.Operations = append(c.Operations, schedule.Planned{At: at, Operation: any(key(), 150)})
		}
	}
	if draw.Chance(400) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Crash, Node: 1, At: cut + draw.Between(50*ms, 200*ms), For: draw.Between(ms, 300*ms), Rate: 500})
	}
	if draw.Chance(400) {
		s.Faults = append(s.Faults, lostWriteBack(draw, reader.Operations[0].At))
	}
	s.Settle = 3000 * ms
	return s
}

// HalfWritesInShards is HalfWrites with each of its keys in a shard of its own.
func HalfWritesInShards(seed uint64) schedule.Schedule {
	s := HalfWrites(seed)
	s.Environment.Shards = len(HalfKeys)
	return s
}

// JoinedKey is the third key of HalfWritesJoined, in the shard of the first one.
const JoinedKey = schedule.MixedPrefix + "2"

// HalfWritesJoined is HalfWritesInShards with a half write of the other key, too, which another session has read. It
// hands over its past, so that the reader depends on what it has read in two shards, and goes on with a third key.
func HalfWritesJoined(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := HalfWritesInShards(seed)
	draw, reader := kernel.NewStream(seed, kernel.ForSlowDisk, 2), halfReader(&s)
	read := reader.Operations[0]
	op := register.Operation{Kind: register.Read, Key: JoinedKey, Regular: true}
	switch draw.Below(3) {
	case 0:
		op = register.Operation{Kind: register.Write, Key: JoinedKey, Value: register.Value("joined")}
	case 1:
		op = schedule.Call(JoinedKey, register.GetAndSet, "joined")
	}
	reader.Asides = nil
	reader.Operations = []schedule.Planned{read, {At: read.At + draw.Between(45*ms, 90*ms), Operation: op}}
	whom := slices.IndexFunc(s.Clients, func(p schedule.Plan) bool { return &p.Operations[0] == &reader.Operations[0] })
	half := register.Operation{Kind: register.Write, Key: HalfKeys[1], Value: register.Value("half")}
	at := read.At + draw.Between(0, 20*ms)
	s.Clients = append(s.Clients,
		schedule.Plan{Home: 3, Operations: []schedule.Planned{{At: 200 * ms, Operation: half}}},
		schedule.Plan{
			Home: 2, Operations: []schedule.Planned{{At: at, Operation: register.Operation{
				Kind: register.Read, Key: HalfKeys[1], Regular: true,
			}}},
			Asides: []schedule.Aside{{At: at + ms, Kind: schedule.AsideHand, Whom: whom, Delay: draw.Between(0, 5*ms)}},
		})
	s.Faults = append(s.Faults, lostWriteBack(draw, read.At),
		faults.Fault{Kind: faults.Loss, Node: 3, At: 200*ms + draw.Between(5*ms, 10*ms), For: draw.Between(5*ms, 15*ms), Rate: 1000},
		faults.Fault{Kind: faults.Loss, Node: 2, At: at + 10*ms - draw.Between(0, 5*ms), For: draw.Between(5*ms, 15*ms), Rate: 1000},
	)
	s.SortFaults()
	return s
}

// HalfWritesOnSlowDisks is HalfWrites with disks that take longer than a message to the other side and back: what a
// member tells before its disk has what that rests on, others act on while it is not there.
func HalfWritesOnSlowDisks(seed uint64) schedule.Schedule {
	s := HalfWrites(seed)
	draw := kernel.NewStream(seed, kernel.ForSlowDisk, 0)
	for i := range s.Environment.Disks {
		low := draw.Between(10*time.Millisecond, 100*time.Millisecond)
		s.Environment.Disks[i] = schedule.Window{Low: low, High: 2 * low}
	}
	if draw.Chance(500) { // who has read moves on at once, and writes where nobody has what was read
		reader := halfReader(&s)
		at := reader.Operations[0].At + time.Millisecond
		reader.Asides = []schedule.Aside{{At: at, Kind: schedule.AsideMove, Whom: 2 + draw.Below(3)}}
		write := register.Operation{Kind: register.Write, Key: HalfKeys[0], Value: register.Value("moved")}
		reader.Operations = append(reader.Operations[:1], schedule.Planned{At: at, Operation: write})
	}
	return s
}

// HalfWritesOverwritten is HalfWrites in which somebody near the reader writes that key, too, and asks the reader's
// site to hold that before the writer's own disk does: disks at the other side are slow.
func HalfWritesOverwritten(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := HalfWrites(seed)
	draw, reader := kernel.NewStream(seed, kernel.ForSlowDisk, 3), halfReader(&s)
	s.Environment.Network.RTT[1][2], s.Environment.Network.RTT[2][1] = 6*ms, 6*ms
	for i := 2; i < len(s.Environment.Disks); i++ {
		low := draw.Between(10*ms, 100*ms)
		s.Environment.Disks[i] = schedule.Window{Low: low, High: 2 * low}
	}
	read := reader.Operations[0]
	next := register.Operation{Kind: register.Read, Key: HalfKeys[1], Regular: true}
	reader.Asides = nil
	reader.Operations = []schedule.Planned{read, {At: read.At + draw.Between(11*ms, 30*ms), Operation: next}}
	write := register.Operation{Kind: register.Write, Key: HalfKeys[0], Value: register.Value("overwritten")}
	s.Clients = append(s.Clients, schedule.Plan{
		Home: 2, Operations: []schedule.Planned{{At: read.At + draw.Between(0, 20*ms), Operation: write}},
	})
	s.Faults = append(s.Faults, faults.Fault{
		Kind: faults.Loss, Node: 1, At: read.At + 10*ms - draw.Between(0, 5*ms), For: draw.Between(5*ms, 15*ms), Rate: 1000,
	})
	s.SortFaults()
	return s
}

// lostWriteBack has what the coordinator of a read (1) writes back when that returns get no further, either.
func lostWriteBack(draw kernel.Stream, read time.Duration) faults.Fault {
	const ms = time.Millisecond
	return faults.Fault{
		Kind: faults.Loss, Node: 1, At: read + 40*ms - draw.Between(0, 5*ms), For: draw.Between(5*ms, 15*ms), Rate: 1000,
	}
}

// halfReader is the session of HalfWrites that reads first.
func halfReader(s *schedule.Schedule) *schedule.Plan {
	return &s.Clients[slices.IndexFunc(s.Clients, func(p schedule.Plan) bool {
		return p.Operations[0].Operation.Kind == register.Read
	})]
}

// HalfWritesReadOn is HalfWrites in which what the reader writes back gets no further for some time, while somebody who
// has not heard of it writes that key, too, with the same timestamp, and the reader's site reads on.
func HalfWritesReadOn(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := HalfWrites(seed)
	draw, reader := kernel.NewStream(seed, kernel.ForSlowDisk, 1), halfReader(&s)
	read := reader.Operations[0]
	s.Faults = append(s.Faults, lostWriteBack(draw, read.At))
	reader.Asides, reader.Operations = nil, reader.Operations[:1]
	write := register.Operation{Kind: register.Write, Key: read.Operation.Key, Value: register.Value("unheard")}
	s.Clients = append(s.Clients, schedule.Plan{Home: 2 + draw.Below(3), Operations: []schedule.Planned{
		{At: read.At + draw.Between(0, 100*ms), Operation: write},
	}})
	for at := read.At + 50*ms; at < read.At+250*ms; at += draw.Between(10*ms, 20*ms) {
		s.Clients = append(s.Clients, schedule.Plan{Home: 1, Operations: []schedule.Planned{{At: at, Operation: read.Operation}}})
	}
	s.SortFaults()
	return s
}
