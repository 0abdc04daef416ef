package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
	"github.com/georegister/georegister/test/mutants"
)

// divided counts what a mistake of instances must lead to: members that disagree on one, or clients that notice. A
// member that stops, or does not go on, is neither.
func divided(f *Failure) bool {
	return found("")(f.Class) || f.Class == check.Broken && strings.Contains(f.Reason, "is committed twice")
}

// noticed counts what clients notice.
func noticed(f *Failure) bool { return found("")(f.Class) }

func appends(key, what string) register.Operation {
	return register.Operation{Kind: register.RMW, Key: key, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte(what)}}}
}

// drawDuelOfFive is drawInterferingDuel with five members: e alone accepted what others added, in its own ballot, and
// promised itself higher ones; a made it a no-op with others, and is cut off with b, so that c, who remembers, and d
// need e.
func drawDuelOfFive(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
	s.Environment.Shuffled = false
	for other := range 4 { // they meet without e
		s.Environment.Network.RTT[4][other], s.Environment.Network.RTT[other][4] = 22*ms, 22*ms
	}
	s.Environment.Suspect = 60 * ms
	plan(&s, 0, 155*ms, register.Operation{Kind: register.Write, Value: register.Value("base")})
	plan(&s, 4, 160*ms, appends("", "x"))
	unheard := 158 * ms
	alone := 216*ms + draw.Between(0, 10*ms)
	silent := 320*ms + draw.Between(0, 50*ms)
	again := 390 * ms
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: unheard, For: 20 * ms, Side: 1 << 4, Rate: 1000},
		{Kind: faults.Partition, Everywhere: true, At: alone, For: again - alone, Side: 1 << 4, Rate: 1000},
		{Kind: faults.Crash, Node: 4, At: alone + 10*ms, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: silent, For: time.Second, Side: 1<<0 | 1<<1, Rate: 1000},
		{Kind: faults.Crash, Node: 4, At: alone + draw.Between(60*ms, 100*ms), For: ms},
	}
	s.Settle = silent + time.Second
	return s
}

// drawDeadVote makes a schedule in which a coordinator (a) hears one member (b) agree, which then loses its disk, and
// joins again among three that were not asked. Two of those (c and d) agree then: with the lost disk's vote they would
// be a fast quorum, and of those that are left, d alone would know of it.
func drawDeadVote(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s := drawFence(seed)
	draw := kernel.NewStream(seed, kernel.ForSchedule, 4)
	s.Clients, s.Faults = nil, nil
	begin := 100 * ms
	for i := range 3 { // one of them is at the right point
		op := appends(schedule.MixedPrefix+string(rune('0'+i)), "x")
		s.Clients = append(s.Clients, schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: begin + time.Duration(i)*ms, Operation: op}}})
	}
	cut := begin + draw.Between(4*ms, 10*ms)
	joined := cut + draw.Between(150*ms, 250*ms)
	left := joined + draw.Between(10*ms, 100*ms)
	s.Faults = []faults.Fault{
		{Kind: faults.Partition, Everywhere: true, At: cut, For: joined - cut, Side: 1 << 0, Rate: 1000},
		{Kind: faults.Wipe, Node: 1, At: cut, For: ms},
		{Kind: faults.Partition, Everywhere: true, At: joined, For: left - joined, Side: 1<<0 | 1<<2 | 1<<3},
		{Kind: faults.Partition, Everywhere: true, At: left, For: time.Second, Side: 1<<0 | 1<<2, Rate: 1000},
	}
	s.Settle = left + time.Second
	return s
}

// drawReused makes a schedule in which a coordinator (a) loses its disk when one member (e) alone knows of its
// instance, and joins again among the others. Its next instance of that key meets e, and a and b are cut off before
// others hear what came of it.
func drawReused(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := pentagon(seed)
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
			schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: begin, Operation: appends(key, "x")}}},
			schedule.Plan{Home: 0, Operations: []schedule.Planned{{At: joined + time.Duration(i)*ms, Operation: appends(key, "y")}}})
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

// drawNewDisk makes a schedule in which a coordinator (a) of three commits on the fast path with b, and loses its disk
// and its Commit. If its next one votes before it is settled, b hears that one deny the instance. As it did not propose
// that, it is not believed: b knows that the lost one may have committed.
func drawNewDisk(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	s, draw := triangle(seed)
	plan(&s, 0, 100*ms, appends("", "x"))
	s.Environment.Suspect = 90 * ms
	lost := 121*ms + draw.Between(0, 10*ms)
	s.Faults = []faults.Fault{{Kind: faults.Wipe, Node: 0, At: lost, For: ms, Rate: 1000}}
	s.Settle = lost + time.Second
	return s
}

// drawDeadPromise makes a schedule in which b tells e, who recovers a's instance, that it does not know of it, loses
// its disk, joins again with c, d and a, and agrees with c and d to a fast commit. If it votes before it is settled,
// then of what e hears, d's word and b's new one are needed to find out. e itself has pre-accepted the instance after
// one of its own, and so did not agree.
func drawDeadPromise(seed uint64) schedule.Schedule {
	const ms = time.Millisecond
	const a, e, b, c = 0, 1, 4, 2
	s, draw := pentagon(seed)
	s.Environment.Shuffled, s.Environment.Retry = false, 100*ms
	plan(&s, e, 100*ms, appends("", "w"))
	plan(&s, a, 115*ms, appends("", "x"))
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

// hasty is a protocol whose newcomers vote before they are settled.
func hasty(inner member.Factory) member.Factory {
	return func(c protocol.Config, j *protocol.Journal, known *quorum.Incarnations) member.Inner {
		return unsettled{inner(c, j, known)}
	}
}

type unsettled struct{ member.Inner }

func (u unsettled) Settle(now protocol.Instant) bool {
	u.Inner.Settle(now)
	return true
}

func TestMistakesOfLostDisksAreFound(t *testing.T) {
	t.Parallel()
	wipes := schedule.Options{Faults: []faults.Kind{faults.Wipe, faults.Partition}, RMWs: schedule.ManyRMWs, Members: []int{3, 5}}
	rightEPaxos, rightGryff := Member(epaxos.Factory), Member(gryff.Factory)
	hastyEPaxos, hastyGryff := Member(hasty(epaxos.Factory)), Member(hasty(gryff.Factory))
	found := mutants.Build(t)
	for _, c := range []struct {
		name   string
		mutant string
		draw   func(uint64) schedule.Schedule
		start  Start
		after  uint64
		counts func(*Failure) bool
	}{
		{"count-dead-disks, EPaxos", "quorum/count-dead-disks", drawDeadVote, rightEPaxos, 0, divided},
		{"count-dead-disks, Gryff's rmws", "quorum/count-dead-disks", drawDeadVote, rightGryff, 0, divided},
		{"count-dead-disks, Gryff's registers", "quorum/count-dead-disks", drawFence, rightGryff, 0, noticed},
		{"reuse-numbers, EPaxos", "instance/reuse-numbers", drawReused, rightEPaxos, 130, divided},
		{"reuse-numbers, Gryff", "instance/reuse-numbers", drawReused, rightGryff, 130, divided},
		// Members that settle deny nothing, so recovery is shown with some that don't.
		{"count-dead-disks, recovery of EPaxos", "quorum/count-dead-disks", drawDeadPromise, hastyEPaxos, 0, divided},
		{"count-dead-disks, recovery of Gryff", "quorum/count-dead-disks", drawDeadPromise, hastyGryff, 0, divided},
		{"trust-new-disk, EPaxos", "instance/trust-new-disk", drawNewDisk, hastyEPaxos, 0, divided},
		{"trust-new-disk, Gryff", "instance/trust-new-disk", drawNewDisk, hastyGryff, 0, divided},
		{"keep-incarnation, EPaxos", "member/keep-incarnation", drawDeadVote, rightEPaxos, 0, divided},
		{"keep-incarnation, Gryff's rmws", "member/keep-incarnation", drawDeadVote, rightGryff, 0, divided},
		{"keep-incarnation, Gryff's registers", "member/keep-incarnation", drawFence, rightGryff, 0, noticed},
		{"transfer-from-one, EPaxos", "member/transfer-from-one", drawn(wipes), rightEPaxos, 300, noticed},
		{"transfer-from-one, Gryff", "member/transfer-from-one", drawn(wipes), rightGryff, 90, noticed},
	} {
		found.Run(t, c.name, c.mutant, func(t *testing.T) { mustFail(t, c.draw, c.start, c.after, 500, c.counts) })
	}
	t.Run("correct", func(t *testing.T) {
		for _, right := range []Start{rightEPaxos, rightGryff} {
			for _, draw := range []func(uint64) schedule.Schedule{drawFence, drawDeadVote, drawReused, drawNewDisk, drawDeadPromise} {
				mustNotFind(t, draw, right, 150)
			}
		}
	})
	t.Run("not settled", func(t *testing.T) { // does no harm by itself
		for _, hasty := range []Start{hastyEPaxos, hastyGryff} {
			mustNotFind(t, drawNewDisk, hasty, 150)
			mustNotFind(t, drawDeadPromise, hasty, 150)
		}
	})
}
