package directed

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// HoldersGone makes a schedule in which the acknowledgement of a write's second phase is on its way for so long that
// the disk it tells of is lost meanwhile, and the member is back with what those have who have not heard of the write.
// The writer has heard of that, from operations on another key. One more member then holds the write, and the others
// are read.
func HoldersGone(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	rtt := s.Environment.Network.RTT
	for a := range 5 {
		for b := range 5 {
			if a != b && a != 0 && b != 0 {
				rtt[a][b] = 4 * ms
			}
		}
	}
	rtt[0][1], rtt[1][0] = 160*ms, 160*ms
	s.Environment.Retry, s.Environment.Suspect = 200*ms, 600*ms
	loss := 245*ms + draw.Between(0, 20*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Loss, Node: 0, At: loss, For: 485*ms - loss, Rate: 400 + draw.Below(400)},
		{Kind: faults.Wipe, Node: 1, At: 340*ms + draw.Between(0, 35*ms), For: draw.Between(ms, 5*ms)},
	}
	Plan(&s, 1, 10*ms, register.Operation{Kind: register.Write, Value: register.Value("before")})
	Plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("acknowledged")})
	for home := 1; home < 5; home++ {
		other := schedule.Plan{Home: home}
		for at := 360 * ms; at < 430*ms; at += draw.Between(5*ms, 15*ms) {
			other.Operations = append(other.Operations, schedule.Planned{At: at, Operation: register.Operation{
				Kind: register.Write, Key: schedule.MixedPrefix + "1", Value: register.Value(fmt.Sprint(home, at)),
			}})
		}
		s.Clients = append(s.Clients, other)
		for i := range time.Duration(4) {
			Plan(&s, home, 490*ms+draw.Between(0, 10*ms)+i*20*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 1000 * ms
	return s
}

// LostAcknowledgements makes a schedule in which a lost disk matters: of five members, a writer's near one acknowledges
// and loses its disk, and joins again among members that the write did not reach; then the writer meets one of those,
// and readers the newcomer. Who is who is fixed by distance; when things happen is drawn. Random schedules come to this
// too seldom.
func LostAcknowledgements(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	draw := kernel.NewStream(seed, kernel.ForSchedule, 1)
	network := profile.Profile{Name: "fence"}
	for a := range 5 {
		network.Sites = append(network.Sites, string(rune('a'+a)))
		network.RTT = append(network.RTT, slices.Repeat([]time.Duration{draw.Between(15*ms, 30*ms)}, 5))
		network.RTT[a][a] = profile.Local
	}
	network.RTT[0][1], network.RTT[1][0] = 4*ms, 4*ms
	s := schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 100, Disks: slices.Repeat([]schedule.Window{{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}}, 5),
		Sealed: true, Retry: 70 * ms, Suspect: 200 * ms, ClientRTT: profile.Local, Patience: 2 * time.Second,
	}}
	begin := 100 * ms
	var writes []schedule.Planned
	for i := range 3 {
		writes = append(writes, schedule.Planned{At: begin + time.Duration(i)*ms, Operation: register.Operation{
			Kind: register.Write, Key: schedule.MixedPrefix + string(rune('0'+i)), Value: register.Value("new"),
		}})
	}
	for _, w := range writes { // each by a client of its own: one of them is at the right point
		s.Clients = append(s.Clients, schedule.Plan{Home: 0, Operations: []schedule.Planned{w}})
	}
	cut := begin + draw.Between(15*ms, 50*ms)
	joined := cut + draw.Between(150*ms, 250*ms)
	end := joined + 500*ms
	for _, home := range []int{3, 4} {
		for _, w := range writes {
			var reads []schedule.Planned
			for at := joined + draw.Between(50*ms, 150*ms); at < end; at += 60 * ms {
				reads = append(reads, schedule.Planned{At: at, Operation: register.Operation{Kind: register.Read, Key: w.Operation.Key}})
			}
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: reads})
		}
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: joined - cut, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Wipe, Node: 1, At: cut + draw.Between(0, 5*ms), For: ms},
		{Kind: faults.Partition, Everywhere: true, At: joined, For: end - joined, Side: 1<<0 | 1<<2},
	}
	s.Settle = end
	return s
}

// WritersBack makes a schedule in which a writer stops after one member has its write, before it is on the writer's
// own disk, and writes again where that member can't be heard.
func WritersBack(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	s.Environment.Disks[0] = schedule.Window{Low: 30 * ms, High: 60 * ms}
	Plan(&s, 0, 300*ms, register.Operation{Kind: register.Write, Value: register.Value("first")})
	stop := 325*ms + draw.Between(0, 20*ms)
	cut := stop + draw.Between(5*ms, 15*ms)
	Plan(&s, 0, cut+10*ms, register.Operation{Kind: register.Write, Value: register.Value("second")})
	end := cut + 600*ms
	for i := range 6 {
		Plan(&s, 1+i%2, end+time.Duration(i)*60*ms, register.Operation{Kind: register.Read})
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Crash, Node: 0, At: stop, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: cut, For: end - cut, Side: 1 << 1},
	}
	s.Settle = end + 500*ms
	return s
}

// staleWriter begins a schedule of five members in which one (1) has made tags that the others did not hear of, and has
// started again, so that it can't say that their writes have not ended: it finds the tag stale that a writer (0) sends
// to all. After cut the writer's COMMIT is under way.
func staleWriter(seed uint64) (s schedule.Schedule, draw kernel.Stream, cut time.Duration) {
	const ms = time.Millisecond
	s, draw = Pentagon(seed)
	cut = 116*ms + draw.Between(0, 14*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 50 * ms, For: 49 * ms, Side: 1 << 1, Rate: 1000},
		{Kind: faults.Crash, Node: 1, At: 85 * ms, For: 5 * ms},
	}
	for i := range time.Duration(3) {
		Plan(&s, 1, 80*ms+i*ms/2, register.Operation{
			Kind: register.Write, Value: register.Value("unheard" + string(rune('0'+i))),
		})
	}
	Plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("preempted")})
	return s, draw, cut
}

// TagsPreempted makes a schedule in which a writer changes its tag while others have the write decided without it. Of
// five members, one (1) has made tags that the others did not hear of; so it finds the tag stale that a writer (0)
// sends to all. Then the two are cut off, with the writer's COMMIT under way. The other three hold the first tag; a
// read among them has it decided, and another write follows. When the writer is back, it must not have a second tag.
// Random schedules come to this too seldom.
func TagsPreempted(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw, cut := staleWriter(seed)
	s.Faults = append(s.Faults, []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: 600*ms - cut, Side: 1<<0 | 1<<1, Rate: 1000},
	}...)
	for home := 2; home < 5; home++ {
		Plan(&s, home, 200*ms+draw.Between(0, 50*ms), register.Operation{Kind: register.Read})
	}
	Plan(&s, 3, 450*ms, register.Operation{Kind: register.Write, Value: register.Value("later")})
	for home := range 5 {
		for i := range time.Duration(5) {
			Plan(&s, home, 500*ms+i*100*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 1200 * ms
	return s
}

// TagsTakenAgain is TagsPreempted in which the writer is back before the member that has its second tag, is told that
// the first one is decided, and writes more: none of these may have the second tag, which that member has for another.
func TagsTakenAgain(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw, cut := staleWriter(seed)
	s.Faults = append(s.Faults, []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: 400*ms - cut, Side: 1<<0 | 1<<1, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: 400 * ms, For: 500 * ms, Side: 1 << 1, Rate: 1000},
	}...)
	for home := 2; home < 5; home++ {
		Plan(&s, home, 200*ms+draw.Between(0, 50*ms), register.Operation{Kind: register.Read})
	}
	Plan(&s, 3, 330*ms, register.Operation{Kind: register.Write, Value: register.Value("later")})
	for i := range time.Duration(1 + draw.Below(4)) {
		Plan(&s, 0, 500*ms+i*80*ms, register.Operation{
			Kind: register.Write, Value: register.Value("more" + string(rune('0'+i))),
		})
	}
	for home := range 5 {
		for i := range time.Duration(4) {
			Plan(&s, home, 850*ms+i*70*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 1300 * ms
	return s
}

// TagsOutvoted is TagsPreempted in which one of the three has the first tag decided, but the others are not told: it
// writes once more, and is cut off in turn. Who reads then has the write decided again, and finds votes for both tags.
func TagsOutvoted(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw, cut := staleWriter(seed)
	back := 400 * ms
	s.Faults = append(s.Faults, []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: back - cut, Side: 1<<0 | 1<<1, Rate: 1000},
		{Kind: faults.Loss, Node: 2, At: 200 * ms, For: back - 200*ms, Rate: 300 + draw.Below(400)},
		{Kind: faults.Partition, Everywhere: true, At: back, For: 600 * ms, Side: 1 << 2, Rate: 1000},
	}...)
	s.Clients = append(s.Clients, schedule.Plan{Home: 2, Operations: []schedule.Planned{
		{At: 200 * ms, Operation: register.Operation{Kind: register.Read, Key: schedule.MixedPrefix + "0"}},
		{At: 210 * ms, Operation: register.Operation{Kind: register.Write, Key: schedule.MixedPrefix + "0", Value: register.Value("later")}},
	}})
	for home := range 5 {
		for i := range time.Duration(8) {
			Plan(&s, home, back+20*ms+i*100*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = 1300 * ms
	return s
}

// VotesThatLose makes a schedule in which a member of Gus has voted for a tag that loses, and has a writer take another
// one because of it. Of four members one (3) has a write that the others hold, but for one (0), which has made tags that
// they did not hear of: so the write gets another tag, for which that one votes alone, and its member is gone for good.
// Of the three that are left one (2) has the first tag decided, and writes: before (0) has heard that, it finds the
// tag stale. The writer is cut off before it can tell of the next one; the other two read, and write. Of the keys, some
// are at the right point.
func VotesThatLose(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const keys = 8
	draw := kernel.NewStream(seed, kernel.ForSchedule, 41)
	network := profile.Profile{Name: "votes", Sites: []string{"a", "b", "c", "d"}, RTT: [][]time.Duration{
		{profile.Local, 10 * ms, 30 * ms, 10 * ms},
		{10 * ms, profile.Local, 20 * ms, 10 * ms},
		{30 * ms, 20 * ms, profile.Local, 16 * ms},
		{10 * ms, 10 * ms, 16 * ms, profile.Local},
	}}
	disk := schedule.Window{Low: 100 * time.Microsecond, High: 500 * time.Microsecond}
	s := schedule.Schedule{Seed: seed, Environment: schedule.Environment{
		Network: network, Shards: 1, Jitter: 50, Disks: slices.Repeat([]schedule.Window{disk}, 4), Sealed: true,
		Retry: 60 * ms, Suspect: 200 * ms, ClientRTT: profile.Local, Patience: 2 * time.Second,
	}}
	each := func(home int, at, apart time.Duration, value string) {
		for i := range time.Duration(keys) {
			op := register.Operation{Kind: register.Write, Key: schedule.MixedPrefix + strconv.Itoa(int(i))}
			if op.Value = register.Value(value); value == "" {
				op.Kind, op.Value = register.Read, nil
			}
			planned := []schedule.Planned{{At: at + i*apart, Operation: op}}
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: planned})
		}
	}
	each(0, 10*ms, 0, "unheard")
	each(0, 11*ms, 0, "unheard too")
	each(3, 100*ms, 0, "old")
	committed := 112*ms + draw.Between(0, 3*ms)
	const asks = 500 * ms
	each(2, asks, 3*ms, "")
	written := asks + draw.Between(90*ms, 150*ms)
	each(2, written, 0, "new")
	unheard, cut := written+draw.Between(14*ms, 20*ms), written+draw.Between(33*ms, 39*ms)
	each(1, cut+draw.Between(5*ms, 15*ms), 0, "")
	newer := cut + draw.Between(60*ms, 260*ms) // before what is read then is decided, or after that
	each(1, newer, 0, "newer")
	back := newer + draw.Between(60*ms, 150*ms)
	for home := range 3 {
		each(home, back+200*ms, 0, "")
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 5 * ms, For: 75 * ms, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Crash, Node: 0, At: 50 * ms, For: 10 * ms},
		{Kind: faults.Partition, Everywhere: true, At: committed, For: 20 * ms, Side: 1<<1 | 1<<2, Rate: 1000},
		{Kind: faults.Change, Node: 3, At: 125 * ms, For: 20 * ms, Leave: 1},
		{Kind: faults.Partition, Everywhere: true, At: unheard, For: cut - unheard, Side: 1 << 1, OneWay: true, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: cut, For: back - cut, Side: 1 << 2, Rate: 1000},
	}
	s.Settle = back + 600*ms
	return s
}
