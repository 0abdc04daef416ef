package directed

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// AllExchanged makes a schedule in which five members are exchanged for five others, and two of these are cut off
// while the others fetch. Nobody who stays has a fragment, so the change may not end before one of the two has
// fetched.
func AllExchanged(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	for i := range time.Duration(4) {
		large := register.Value(strings.Repeat(string(rune('a'+i)), 64))
		Plan(&s, draw.Below(5), (10+20*i)*ms, register.Operation{Kind: register.Write, Value: large})
	}
	s.Faults = []faults.Fault{
		{Kind: faults.Change, Node: draw.Below(5), At: 200 * ms, For: 5 * ms, Join: 5, Leave: 5, Alive: true},
		{Kind: faults.Partition, Everywhere: true, At: 210 * ms, For: 900 * ms, Side: 3 << (5 + draw.Below(4)), Rate: 1000},
	}
	for i := range time.Duration(16) {
		Plan(&s, draw.Below(5), 300*ms+i*50*ms, register.Operation{Kind: register.Read})
	}
	s.Settle = 1500 * ms
	return s
}

// DisksLostInTurn makes a schedule in which one member is cut off while large values are written, and has no fragments
// of them; then disks are lost one after the other, each as soon as the one before is no loss any more.
func DisksLostInTurn(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	keys, losses := 1+draw.Below(4), 300*ms
	op := func(kind register.Kind, value string) register.Operation {
		return register.Operation{Kind: kind, Key: schedule.MixedPrefix + strconv.Itoa(draw.Below(keys)), Value: register.Value(value)}
	}
	end := losses + draw.Between(100*ms, 500*ms)
	for home := range 5 {
		writes, reads := schedule.Plan{Home: home}, schedule.Plan{Home: home}
		for at := draw.Between(0, 200*ms); at < losses; at += draw.Between(20*ms, 200*ms) {
			value := fmt.Sprintf("%064d", 100*home+len(writes.Operations))
			writes.Operations = append(writes.Operations, schedule.Planned{At: at, Operation: op(register.Write, value)})
		}
		for at := losses + draw.Between(0, 200*ms); at < end+200*ms; at += draw.Between(20*ms, 100*ms) {
			reads.Operations = append(reads.Operations, schedule.Planned{At: at, Operation: op(register.Read, "")})
		}
		s.Clients = append(s.Clients, writes, reads)
	}
	away := losses - draw.Between(50*ms, 300*ms)
	s.Faults = []faults.Fault{{
		Kind: faults.Partition, Everywhere: true, At: away, For: losses - away + draw.Between(0, 30*ms), Side: 1 << draw.Below(5),
	}}
	if draw.Chance(500) {
		s.Faults = append(s.Faults, faults.Fault{
			Kind: faults.Reorder, Everywhere: true, At: losses, For: end - losses, Rate: 300, Size: draw.Between(20*ms, 200*ms),
		})
	}
	for at := losses + 30*ms; at < end; at += draw.Between(ms, 10*ms) {
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Wipe, Node: draw.Below(5), At: at, For: draw.Between(ms, 5*ms)})
	}
	s.Settle = end + 300*ms
	return s
}

// MetadataAtFew makes a schedule in which the metadata of large values has come to few when the writer, whose disk is
// slow, loses its power, and nobody reads for as long as it takes until fragments go that nothing refers to.
func MetadataAtFew(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	s.Environment.Retry, s.Environment.Suspect = 60*ms, 120*ms
	s.Environment.Disks[0] = schedule.Window{Low: 30 * ms, High: 60 * ms}
	begin, rest := 100*ms, 1000*ms
	few := begin + draw.Between(10*ms, 28*ms) // fragments are there, and the metadata leaves
	s.Faults = []faults.Fault{
		{Kind: faults.Loss, Node: 0, At: few, For: draw.Between(5*ms, 20*ms), Rate: 300 + draw.Below(600)},
		{Kind: faults.Crash, Node: 0, At: few + draw.Between(2*ms, 50*ms), For: draw.Between(ms, 50*ms)},
	}
	for i := range 4 {
		key, value := schedule.MixedPrefix+strconv.Itoa(i), register.Value(fmt.Sprintf("%064d", i))
		once := func(home int, at time.Duration, op register.Operation) {
			s.Clients = append(s.Clients, schedule.Plan{Home: home, Operations: []schedule.Planned{{At: at, Operation: op}}})
		}
		once(0, begin+draw.Between(0, 5*ms), register.Operation{Kind: register.Write, Key: key, Value: value})
		for home := range 5 {
			once(home, begin+rest+draw.Between(0, 50*ms), register.Operation{Kind: register.Read, Key: key})
		}
	}
	s.Settle = begin + rest + 100*ms
	return s
}

// FragmentsMisread makes a schedule in which one or two disks give other fragments of large values than they have,
// while these are read. A member may have been cut off while they were written, so that it makes its fragments of the
// others'.
func FragmentsMisread(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	keys, begin := 1+draw.Below(4), 200*ms
	key := func() string { return schedule.MixedPrefix + strconv.Itoa(draw.Below(keys)) }
	for i := range 2 * keys {
		op := register.Operation{Kind: register.Write, Key: key(), Value: register.Value(fmt.Sprintf("%064d", i))}
		s.Clients = append(s.Clients, schedule.Plan{
			Home: draw.Below(5), Operations: []schedule.Planned{{At: draw.Between(0, begin), Operation: op}},
		})
	}
	if draw.Chance(500) {
		away := draw.Between(0, begin/2)
		s.Faults = []faults.Fault{{
			Kind: faults.Partition, Everywhere: true, At: away, For: begin + draw.Between(0, 50*ms) - away,
			Side: 1 << draw.Below(5), Rate: 1000,
		}}
	}
	end := begin + draw.Between(200*ms, 500*ms)
	for range 1 + draw.Below(2) {
		at := begin + draw.Between(0, 100*ms)
		s.Faults = append(s.Faults, faults.Fault{Kind: faults.Misread, Node: draw.Below(5), At: at, For: end - at})
	}
	s.Settle = end + 200*ms
	for home := range 5 {
		work(&s, draw, home, begin+draw.Between(0, 50*ms), s.Settle, 10*ms, 60*ms, func() register.Operation {
			return register.Operation{Kind: register.Read, Key: key()}
		})
	}
	s.SortFaults()
	return s
}

// HeldBackInAChange makes a schedule in which large values are written that one member does not hear of, and a disk is
// lost that has acknowledged its fragments: while too few have theirs, the writes wait though their metadata is
// written. Then members change, and the writes go on in the next view as what they are.
func HeldBackInAChange(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := Pentagon(seed)
	s.Environment.Losses, s.Environment.Data = 1, 3
	// For as long the next disk is asked for nothing, and a write is held back.
	s.Environment.Retry, s.Environment.Suspect = 120*ms, 360*ms
	begin := 100 * ms
	lost, away := 1+draw.Below(3), 4
	for other := range 5 { // who loses its disk is soon heard of with the next one
		if other != lost {
			s.Environment.Network.RTT[lost][other], s.Environment.Network.RTT[other][lost] = 4*ms, 4*ms
		}
	}
	change := begin + draw.Between(25*ms, 75*ms)
	s.Faults = []faults.Fault{
		{
			Kind: faults.Partition, Everywhere: true, At: begin - 10*ms, For: change + 200*ms - begin, Side: 1 << away,
			Rate: 1000,
		},
		{Kind: faults.Wipe, Node: lost, At: begin + draw.Between(5*ms, 35*ms), For: draw.Between(ms, 5*ms)},
		{
			Kind: faults.Change, Node: away, At: change, For: draw.Between(ms, 5*ms), Join: 1, Leave: 1,
			Alive: draw.Chance(500),
		},
	}
	const keys = 6
	for i := range keys {
		key, value := schedule.MixedPrefix+strconv.Itoa(i), register.Value(fmt.Sprintf("%064d", i))
		at := begin + draw.Between(0, 20*ms)
		s.Clients = append(s.Clients, schedule.Plan{Home: 0, Operations: []schedule.Planned{
			{At: at, Operation: register.Operation{Kind: register.Write, Key: key, Value: value}},
		}})
		for home := range 4 {
			read := schedule.Plan{Home: home}
			for at := at + draw.Between(30*ms, 90*ms); at < change+600*ms; at += draw.Between(100*ms, 300*ms) {
				read.Operations = append(read.Operations, schedule.Planned{
					At: at, Operation: register.Operation{Kind: register.Read, Key: key},
				})
			}
			s.Clients = append(s.Clients, read)
		}
	}
	s.Settle = change + 700*ms
	return s
}
