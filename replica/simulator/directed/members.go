package directed

import (
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// ChangesInTurn makes a schedule of two changes that leave one of five members. Between them something is written that
// one member does not hear of: perhaps the one that stays, which fetched the state of another one in the first change,
// and would do with that.
func ChangesInTurn(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	alone := draw.Below(5)
	s.Faults = []faults.Fault{
		{Kind: faults.Change, Node: draw.Below(5), At: 100 * ms, For: 20 * ms, Leave: 2, Alive: true},
		{Kind: faults.Partition, Everywhere: true, At: 1000 * ms, For: 400 * ms, Side: 1 << alone},
		{Kind: faults.Change, Node: draw.Below(5), At: 1400 * ms, For: 20 * ms, Leave: 2, Alive: true},
	}
	Plan(&s, (alone+1+draw.Below(4))%5, 1050*ms, register.Operation{Kind: register.Write, Value: register.Value("new")})
	for home := range 5 {
		Plan(&s, home, 2000*ms, register.Operation{Kind: register.Read})
	}
	s.Settle = 2500 * ms
	return s
}

// LeftBehind makes a schedule in which two of three members leave, near each other and far from the one that stays,
// and the manager is slow to tell them that the change is finished. Key after key, which nobody has touched since
// before the change, the one that stays writes, and right after that one of those that leave reads. If the change was
// finished meanwhile, they agree on what they hold, as a majority before the change; and they hear from the one that
// stays, which would tell them of the view, too late.
func LeftBehind(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const near, far = 10 * ms, 60 * ms
	s, draw := Triangle(seed)
	s.Environment.Network.RTT = [][]time.Duration{{profile.Local, far, far}, {far, profile.Local, near}, {far, near, profile.Local}}
	s.Environment.Retry, s.Environment.Suspect = 90*ms, 270*ms
	s.Faults = []faults.Fault{{Kind: faults.Change, Node: 1, At: 100 * ms, For: 100 * ms, Rate: 500, Size: 50 * ms, Leave: 2, Alive: true}}
	for i := range 12 {
		at := 400*ms + time.Duration(i)*80*ms + draw.Between(0, 20*ms)
		key := schedule.MixedPrefix + strconv.Itoa(i)
		s.Clients = append(s.Clients,
			schedule.Plan{Home: 0, Operations: []schedule.Planned{
				{At: 10 * ms, Operation: register.Operation{Kind: register.Write, Key: key, Value: register.Value("old")}},
				{At: at, Operation: register.Operation{Kind: register.Write, Key: key, Value: register.Value("new")}},
			}},
			schedule.Plan{Home: 1, Operations: []schedule.Planned{{At: at + 20*ms, Operation: register.Operation{Kind: register.Read, Key: key}}}})
	}
	s.Settle = 1500 * ms
	return s
}

// ChangesUnheard makes a schedule like those of LeftBehind in which the one that stays is cut off from the others for
// some time, and the manager reaches all. It learns from the manager alone that the change is finished.
func ChangesUnheard(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := LeftBehind(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 4)
	s.Faults[0].For, s.Faults[0].Size = 20*ms, 20*ms
	s.Faults = append(s.Faults, faults.Fault{Kind: faults.Partition, Everywhere: true, At: draw.Between(200*ms, 600*ms), For: 900 * ms, Side: 1})
	return s
}

// SidesApart makes a schedule of a joint view that lasts for some time, in which two of three members are exchanged.
// Again and again those who come are cut off, or those who leave, and what is asked of them is late or lost, or each
// message to those who come is lost now and then, while all write and read few keys, and one of the three stops for a
// while.
func SidesApart(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	const newcomers = 1<<3 | 1<<4
	leaver := draw.Below(3)
	s.Faults = []faults.Fault{
		{Kind: faults.Change, Node: leaver, At: 100 * ms, For: 200 * ms, Join: 2, Leave: 2, Alive: true},
		{Kind: faults.Crash, Node: draw.Below(3), At: draw.Between(200*ms, 600*ms), For: draw.Between(50*ms, 300*ms)},
	}
	side := uint64(newcomers)
	if draw.Chance(200) {
		side = 1<<leaver | 1<<((leaver+1)%3)
	}
	for at := 100 * ms; at < 1000*ms; {
		cut := draw.Between(20*ms, 120*ms)
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Partition, Everywhere: true, At: at, For: cut, Side: side, Rate: draw.Below(2) * 1000,
		})
		at += cut + draw.Between(20*ms, 80*ms)
	}
	keys := 3
	if losses := kernel.NewStream(seed, kernel.ForSchedule, 33); losses.Chance(500) {
		s.Faults, keys = s.Faults[:2], 1
		for newcomer := 3; newcomer < 5; newcomer++ {
			s.Faults = append(s.Faults, faults.Fault{
				Kind: faults.Loss, Node: newcomer, At: 100 * ms, For: 900 * ms, Rate: 300 + losses.Below(300),
			})
		}
	}
	for home := range 3 {
		writes := 0
		work(&s, draw, home, 10*ms, 1100*ms, 5*ms, 50*ms, func() register.Operation {
			op := register.Operation{Kind: register.Read, Key: schedule.MixedPrefix + strconv.Itoa(draw.Below(3)%keys)}
			if draw.Chance(500) {
				writes++
				op.Kind, op.Value = register.Write, register.Value(strconv.Itoa(1000*home+writes))
			}
			return op
		})
		work(&s, draw, home, 10*ms, 1100*ms, 5*ms, 50*ms, func() register.Operation {
			return register.Operation{Kind: register.Read, Key: schedule.MixedPrefix + strconv.Itoa(draw.Below(3)%keys)}
		})
	}
	s.Settle = 1200 * ms
	return s
}

// SlowAndFew makes a schedule in which one of three members is gone for good, and is replaced. The other two must both
// answer until then, one of them has disks that take up to eight times as long as members wait until they ask again,
// and all write one key: what is unfinished, each member brings to its end as soon as the change begins.
func SlowAndFew(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	env := &s.Environment
	env.Retry = draw.Between(10*ms, 40*ms)
	env.Suspect = env.Retry * time.Duration(1+draw.Below(4))
	slowest := env.Retry * time.Duration(2+draw.Below(7))
	gone := draw.Below(3)
	slow := (gone + 1 + draw.Below(2)) % 3
	env.Disks[slow] = schedule.Window{Low: slowest / 2, High: slowest}
	at := 10*ms + 6*slowest
	s.Faults = []faults.Fault{{Kind: faults.Change, Node: gone, At: at, For: 50 * ms, Join: 1, Leave: 1}}
	for home := range 3 {
		for i := range 3 {
			op := register.Operation{Kind: register.Write, Value: register.Value(strconv.Itoa(10*home + i))}
			Plan(&s, home, at-2*slowest+draw.Between(0, 4*slowest), op)
		}
	}
	s.Settle = at + 10*slowest
	return s
}

// DisksLostTwice makes a schedule in which a member loses its disk, comes back, and loses the next one as well, while
// all others lose their power. What it sent about a write is still on its way when it is back, and writes again. If
// nobody knew of the second disk any more, the third one would have its number, and its tags.
func DisksLostTwice(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Triangle(seed)
	late := 215*ms + draw.Between(0, 10*ms)
	power := 255*ms + draw.Between(0, 30*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Wipe, Node: 0, At: 50 * ms, For: draw.Between(ms, 10*ms)},
		{Kind: faults.Reorder, Everywhere: true, At: late, For: power - late, Rate: 1000, Size: draw.Between(300*ms, 900*ms)},
		{Kind: faults.Wipe, Node: 0, At: power, For: draw.Between(ms, 5*ms)},
		{Kind: faults.Crash, Node: 1, At: power, For: draw.Between(ms, 5*ms)},
		{Kind: faults.Crash, Node: 2, At: power, For: draw.Between(ms, 5*ms)},
	}
	for i, at := range []time.Duration{5 * ms, 200 * ms, power + draw.Between(100*ms, 130*ms)} {
		Plan(&s, 0, at, register.Operation{Kind: register.Write, Value: register.Value(strconv.Itoa(i))})
	}
	for home := 1; home < 3; home++ {
		for at := power + 120*ms; at < power+1000*ms; at += 20 * ms {
			Plan(&s, home, at, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = power + 1100*ms
	return s
}
