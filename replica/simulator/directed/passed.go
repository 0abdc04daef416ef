package directed

import (
	"strconv"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// roles are five members in an order that is drawn, since who has the larger ID has the larger of two tags with one
// timestamp: one between two sides, and two of each.
func roles(draw *kernel.Stream) (between, near, nearToo, far, farToo int) {
	r := [5]int{0, 1, 2, 3, 4}
	for i := range 4 {
		j := i + draw.Below(5-i)
		r[i], r[j] = r[j], r[i]
	}
	return r[0], r[1], r[2], r[3], r[4]
}

// OwnWritesPassed makes a schedule in which a member of five (between) lets other writes of Gus pass its own one, of
// which it has not been heard yet. On one side of it an operation ends: a write, a write that takes another tag,
// another one of this member, or one before its own. Then a writer of the other side, which has heard of nothing,
// begins: it may not come before that.
func OwnWritesPassed(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Retry, s.Environment.Suspect = 250*ms, 750*ms
	between, near, nearToo, far, farToo := roles(&draw)
	write := func(home int, at time.Duration, value string) {
		Plan(&s, home, at, register.Operation{Kind: register.Write, Value: register.Value(value)})
	}
	write(between, 100*ms, "under way")
	begins := 105*ms + draw.Between(0, 3*ms)
	ends := begins + 28*ms
	switch draw.Below(4) {
	case 0:
		write(near, begins, "ended")
	case 1:
		ends += 24 * ms
		write(nearToo, 60*ms, "unheard")
		write(nearToo, 61*ms, "unheard too")
		s.Faults = append(s.Faults,
			faults.Fault{Kind: faults.Partition, Everywhere: true, At: 50 * ms, For: 40 * ms, Side: 1 << nearToo, Rate: 1000},
			faults.Fault{Kind: faults.Crash, Node: nearToo, At: 75 * ms, For: 5 * ms},
		)
		write(near, begins, "ended")
	case 2:
		write(between, begins, "ended")
	case 3:
		write(near, 65*ms, "ended")
	}
	flips := ends + draw.Between(0, 10*ms)
	write(far, flips+draw.Between(ms, 5*ms), "later")
	back := flips + 80*ms
	s.Faults = append(s.Faults,
		faults.Fault{Kind: faults.Partition, Everywhere: true, At: 99 * ms, For: 3 * ms, Side: 1 << between, OneWay: true, Rate: 1000},
		faults.Fault{Kind: faults.Partition, Everywhere: true, At: 60 * ms, For: flips - 60*ms, Side: 1<<far | 1<<farToo, Rate: 1000},
		faults.Fault{Kind: faults.Partition, Everywhere: true, At: flips, For: back - flips, Side: 1<<near | 1<<nearToo, Rate: 1000},
	)
	for home := range 5 {
		for i := range time.Duration(3) {
			Plan(&s, home, back+i*100*ms, register.Operation{Kind: register.Read})
		}
	}
	s.Settle = back + 800*ms
	return s
}

// OwnWritesDecided makes a schedule in which a member of five (between) does not know that its write has been decided
// by others, though it has voted for it: two of them hold it, and it was not told. A reader of these has it decided,
// and ends. At about that time a writer of the other side, which has heard of nothing, begins: it may not come before
// that. Of the keys, some are at the right point.
func OwnWritesDecided(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const keys = 16
	s, draw := Pentagon(seed)
	s.Environment.Retry, s.Environment.Suspect = 250*ms, 750*ms
	between, near, nearToo, far, farToo := roles(&draw)
	rtt := s.Environment.Network.RTT
	for _, link := range [][2]int{{far, between}, {farToo, between}, {far, farToo}} {
		rtt[link[0]][link[1]], rtt[link[1]][link[0]] = 2*ms, 2*ms
	}
	rtt[near][between], rtt[between][near] = 80*ms, 10*ms // it answers long before it hears of the end
	rtt[near][nearToo], rtt[nearToo][near] = 10*ms, 10*ms
	asks := 130*ms + draw.Between(0, 10*ms)
	for i := range keys {
		each := func(home int, at time.Duration, kind register.Kind, value string) {
			op := register.Operation{Kind: kind, Key: schedule.MixedPrefix + strconv.Itoa(i)}
			if kind == register.Write {
				op.Value = register.Value(value)
			}
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
		}
		each(between, 100*ms, register.Write, "under way")
		each(near, asks, register.Read, "")
		each(far, asks+380*ms+draw.Between(0, 140*ms), register.Write, "later")
		for _, home := range []int{near, far} {
			each(home, 900*ms, register.Read, "")
		}
	}
	others := uint64(1<<5-1) &^ (1 << between)
	side := uint64(1<<near | 1<<nearToo)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Node: far, At: 50 * ms, For: 650 * ms, Side: side, Rate: 1000},
		{Kind: faults.Partition, Node: farToo, At: 50 * ms, For: 650 * ms, Side: side, Rate: 1000},
		{Kind: faults.Partition, Node: between, At: 50 * ms, For: 360 * ms, Side: 1<<far | 1<<farToo, Rate: 1000},
		// Those who hold the write are not heard, nor is it when it is asked again.
		{Kind: faults.Partition, Everywhere: true, At: 105 * ms, For: 20 * ms, Side: others, OneWay: true, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: 330 * ms, For: 80 * ms, Side: 1 << between, Rate: 1000},
	}
	s.Settle = 1500 * ms
	return s
}
