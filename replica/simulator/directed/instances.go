package directed

import (
	"fmt"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Duels makes a schedule of two recoveries of one instance: c was not heard when it asked one member, asked both,
// accepted what they added in its own ballot, was cut off, and promised itself higher ones; a and b made it a no-op,
// and b alone remembers. Who has but one ballot takes c's promise for the later acceptance.
func Duels(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	Plan(&s, 0, 100*ms, register.Operation{Kind: register.Write, Value: register.Value("base")})
	Plan(&s, 2, 160*ms, register.Operation{Kind: register.RMW, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte("x")}}})
	duel(&s, draw, 2, 212*ms+draw.Between(0, 8*ms), 1<<0)
	return s
}

// duel has a member not be heard, be alone with what it has accepted in its own ballot, stop twice meanwhile, and come
// back before some others are cut off for good.
func duel(s *schedule.Schedule, draw kernel.Stream, member int, alone time.Duration, silences uint64) {
	const ms = time.Millisecond
	silent := 320*ms + draw.Between(0, 50*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 158 * ms, For: 20 * ms, Side: 1 << member, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: alone, For: 390*ms - alone, Side: 1 << member, Rate: 1000},
		{Kind: faults.Crash, Node: member, At: alone + 10*ms, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: silent, For: time.Second, Side: silences, Rate: 1000},
		{Kind: faults.Crash, Node: member, At: alone + draw.Between(60*ms, 100*ms), For: ms},
	}
	s.Settle = silent + time.Second
}

// InterferingDuels is Duels with a write that c's rmw interferes with: without it, all have the same attributes.
func InterferingDuels(seed uint64) schedule.Schedule {
	s := Duels(seed)
	s.Clients[0].Operations[0].At = 155 * time.Millisecond
	return s
}

// DuelsOfFive is InterferingDuels with five members: e alone accepted what others added, in its own ballot, and
// promised itself higher ones; a made it a no-op with others, and is cut off with b, so that c, who remembers, and d
// need e.
func DuelsOfFive(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Shuffled = false
	for other := range 4 { // they meet without e
		s.Environment.Network.RTT[4][other], s.Environment.Network.RTT[other][4] = 22*ms, 22*ms
	}
	s.Environment.Suspect = 60 * ms
	Plan(&s, 0, 155*ms, register.Operation{Kind: register.Write, Value: register.Value("base")})
	Plan(&s, 4, 160*ms, schedule.Call("", register.Append, "x"))
	duel(&s, draw, 4, 216*ms+draw.Between(0, 10*ms), 1<<0|1<<1)
	return s
}

// FirstOfKeys makes a schedule in which all five members begin the first instances of each of many keys at about the
// same time: numbers are alike, most attributes too, and instances depend on each other in a circle, through reads,
// which do not depend on each other. Who executes such a circle begins where it gets to it; who has lost messages gets
// the state of one that has executed it.
func FirstOfKeys(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Shuffled = false
	at := 20 * ms
	for key := range 30 {
		for i := range 5 + draw.Below(5) {
			op := register.Operation{Kind: register.Read, Key: fmt.Sprint(schedule.MixedPrefix, key)}
			if draw.Chance(600) {
				op = schedule.Call(op.Key, register.Append, string(rune('a'+i)))
			}
			first := schedule.Planned{At: at + draw.Between(0, 20*ms), Operation: op}
			s.Clients = append(s.Clients, schedule.Plan{Home: i % 5, Operations: []schedule.Planned{first}})
		}
		at += draw.Between(0, 20*ms)
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Loss, Everywhere: true, At: 20 * ms, For: at, Rate: []int{0, 100, 300}[draw.Below(3)]},
	}
	s.Settle = at + time.Second
	return s
}

// CommitsUnheard makes a schedule in which all five members begin an instance of one key, and one that has been
// answered is not heard when it commits, while another one, who may have voted on it, is cut off. Those that are left
// recover the instance from what they know. That is done with several keys.
func CommitsUnheard(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	at := 100 * ms
	for round := range 6 {
		key, author := fmt.Sprint(schedule.MixedPrefix, round), draw.Below(5)
		cut := at + draw.Between(10*ms, 40*ms)
		for i := range 5 {
			op := schedule.Call(key, register.Append, string(rune('a'+i)))
			if draw.Chance(300) {
				op = register.Operation{Kind: register.Write, Key: key, Value: register.Value(op.Call.Args[0])}
			}
			first := schedule.Planned{At: at + draw.Between(0, 24*ms), Operation: op}
			s.Clients = append(s.Clients, schedule.Plan{Home: i, Operations: []schedule.Planned{first}})
		}
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Partition, Everywhere: true, At: cut, For: 350 * ms, Side: 1 << author, OneWay: true,
			Rate: []int{0, 1000}[draw.Below(2)],
		})
		if voter := draw.Below(5); voter != author {
			s.Faults = append(s.Faults, faults.Fault{
				Kind: faults.Partition, Everywhere: true, At: cut + draw.Between(0, 20*ms), For: 250 * ms, Side: 1 << voter,
			})
		}
		at += 600 * ms
	}
	s.Settle = at
	return s
}

// AnsweredWhileOpen makes a schedule in which a write (c's) commits that d alone has put behind writes of its own, of
// which nobody else has heard yet. Then an update begins at e, which has voted on c's write and has heard no more of
// it, and d's writes come to depend on that update: a circle. Where c's client was told of the write, it has to come
// first in that. So it is with several keys.
func AnsweredWhileOpen(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const a, b, c, d, e = 0, 1, 2, 3, 4
	s, draw := Pentagon(seed)
	env := &s.Environment
	env.Shuffled, env.Retry, env.Suspect = false, 100*ms, 500*ms
	for i := range 5 {
		for j := range i {
			env.Network.RTT[i][j], env.Network.RTT[j][i] = 30*ms, 30*ms
		}
	}
	for _, near := range []struct {
		from, to int
		rtt      time.Duration
	}{{c, d, 22 * ms}, {c, e, 22 * ms}, {e, a, 18 * ms}, {e, b, 18 * ms}, {d, e, 20 * ms}, {d, a, 20 * ms}} {
		env.Network.RTT[near.from][near.to], env.Network.RTT[near.to][near.from] = near.rtt, near.rtt
	}
	at := 100 * ms
	for round := range 6 {
		key := fmt.Sprint(schedule.MixedPrefix, round)
		begin := func(home int, after time.Duration, op register.Operation) {
			op.Key = key
			first := schedule.Planned{At: at + after, Operation: op}
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{first}})
		}
		for i := range 2 {
			begin(d, time.Duration(i)*ms, register.Operation{Kind: register.Write, Value: register.Value(fmt.Sprint("y", i))})
		}
		begin(c, draw.Between(5*ms, 10*ms), register.Operation{Kind: register.Write, Value: register.Value("w")})
		begin(e, draw.Between(32*ms, 42*ms), schedule.Call("", register.Append, "z"))
		for _, deaf := range []int{a, e} {
			s.Faults = append(s.Faults, faults.Fault{
				Kind: faults.Partition, Node: deaf, At: at - 5*ms, For: 60 * ms, Side: 1 << d, OneWay: true,
			})
		}
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Partition, Everywhere: true, At: at + draw.Between(28*ms, 34*ms), For: 60 * ms, Side: 1 << c, OneWay: true,
		})
		at += 700 * ms
	}
	s.Settle = at
	return s
}

// VotesOfLostDisks makes a schedule in which a coordinator (a) hears one member (b) agree, which then loses its disk,
// and joins again among three that were not asked. Two of those (c and d) agree then: with the lost disk's vote they
// would be a fast quorum of all but one, and of those that are left, d alone would know of it.
func VotesOfLostDisks(seed uint64) schedule.Schedule { return votesOfLostDisks(seed, 1<<0|1<<2|1<<3) }

// VotesOfLostDisksOfThree makes one in which c alone agrees then: enough with the lost disk's vote where a fast quorum
// is all but two. Nobody who is left would know of it, and d begins something else of each key.
func VotesOfLostDisksOfThree(seed uint64) schedule.Schedule {
	s := votesOfLostDisks(seed, 1<<0|1<<2)
	left := s.Faults[len(s.Faults)-1].At
	for i := range 3 {
		op := schedule.Call(schedule.MixedPrefix+string(rune('0'+i)), register.Append, "y")
		s.Clients = append(s.Clients, schedule.Plan{Home: 3, Operations: []schedule.Planned{
			{At: left + 20*time.Millisecond, Operation: op},
		}})
	}
	return s
}

// votesOfLostDisks has a with some others after b is back, and then with c alone.
func votesOfLostDisks(seed, together uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := LostAcknowledgements(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 4)
	s.Clients, s.Faults = nil, nil
	begin := 100 * ms
	for i := range 3 { // one of them is at the right point
		op := schedule.Call(schedule.MixedPrefix+string(rune('0'+i)), register.Append, "x")
		s.Clients = append(s.Clients, schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: begin + time.Duration(i)*ms, Operation: op}}})
	}
	cut := begin + draw.Between(4*ms, 10*ms)
	joined := cut + draw.Between(150*ms, 250*ms)
	left := joined + draw.Between(10*ms, 100*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: joined - cut, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Wipe, Node: 1, At: cut, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: joined, For: left - joined, Side: together},
		{Kind: faults.Partition, Everywhere: true, At: left, For: time.Second, Side: 1<<0 | 1<<2, Rate: 1000},
	}
	s.Settle = left + time.Second
	return s
}

// NumbersReused makes a schedule in which a coordinator (a) loses its disk when one member (e) alone knows of its
// instance, and joins again among the others. Its next instance of that key meets e, and a and b are cut off before
// others hear what came of it.
func NumbersReused(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Shuffled = false
	for other, rtt := range []time.Duration{1: 12 * ms, 2: 18 * ms, 3: 40 * ms, 4: 10 * ms} {
		if other > 0 {
			s.Environment.Network.RTT[0][other], s.Environment.Network.RTT[other][0] = rtt, rtt
		}
	}
	s.Environment.Retry, s.Environment.Suspect = 80*ms, 400*ms
	begin := 100 * ms
	wiped := begin + 7*ms
	joined := wiped + 140*ms
	for i := range 3 {
		key := schedule.MixedPrefix + string(rune('0'+i))
		s.Clients = append(s.Clients,
			schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: begin, Operation: schedule.Call(key, register.Append, "x")}}},
			schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: joined + time.Duration(i)*ms, Operation: schedule.Call(key, register.Append, "y")}}})
	}
	left := joined + draw.Between(15*ms, 35*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 90 * ms, For: wiped - 90*ms, Side: 1<<0 | 1<<4},
		{Kind: faults.Partition, Everywhere: true, At: wiped, For: joined - wiped, Side: 1 << 4, Rate: 1000},
		{Kind: faults.Wipe, Node: 0, At: wiped, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: left, For: 2 * time.Second, Side: 1<<0 | 1<<1, Rate: 1000},
	}
	s.Settle = left + 2*time.Second
	return s
}

// CommitsLost makes a schedule in which a coordinator (a) of three commits on the fast path with b, and loses its disk
// and its Commit. If its next one votes before it is settled, b hears that one deny the instance. As it did not propose
// that, it is not believed: b knows that the lost one may have committed.
func CommitsLost(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	Plan(&s, 0, 100*ms, schedule.Call("", register.Append, "x"))
	s.Environment.Suspect = 90 * ms
	lost := 121*ms + draw.Between(0, 10*ms)
	s.Faults = []faults.Fault{{Kind: faults.Wipe, Node: 0, At: lost, For: ms, Rate: 1000}}
	s.Settle = lost + time.Second
	return s
}

// PromisesOfLostDisks makes a schedule in which b tells e, who recovers a's instance, that it does not know of it,
// loses its disk, joins again with c, d and a, and agrees with c and d to a fast commit. If it votes before it is
// settled, then of what e hears, d's word and b's new one are needed to find out. e itself has pre-accepted the
// instance after one of its own, and so did not agree.
func PromisesOfLostDisks(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const a, e, b, c = 0, 1, 4, 2
	s, draw := Pentagon(seed)
	s.Environment.Shuffled, s.Environment.Retry = false, 100*ms
	Plan(&s, e, 100*ms, schedule.Call("", register.Append, "w"))
	Plan(&s, a, 115*ms, schedule.Call("", register.Append, "x"))
	lost := 430 * ms
	left := 530*ms + draw.Between(0, 25*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: 90 * ms, For: 20 * ms, Side: 1 << e},
		{Kind: faults.Partition, Everywhere: true, At: 110 * ms, For: 20 * ms, Side: 1<<a | 1<<e},
		{Kind: faults.Partition, Everywhere: true, At: 130 * ms, For: lost - 130*ms, Side: 1<<e | 1<<b, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: 130 * ms, For: lost - 130*ms, Side: 1 << a, Rate: 1000},
		{Kind: faults.Wipe, Node: b, At: lost, For: ms, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: lost, For: left - lost, Side: 1 << e, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: left, For: time.Second, Side: 1<<a | 1<<c, Rate: 1000},
	}
	s.Settle = left + time.Second
	return s
}
