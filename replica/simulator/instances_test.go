package simulator

import (
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol/epaxos"
	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
)

// divided counts what a mistake of instances must lead to: members that disagree on one, or clients that notice. A
// member that stops, or does not go on, is neither.
func divided(f *Failure) bool {
	return found("")(f.Class) || f.Class == Broken && strings.Contains(f.Reason, "is committed twice")
}

// noticed counts what clients notice.
func noticed(f *Failure) bool { return found("")(f.Class) }

// mustDivide is mustFind for what counts, and shows that the very schedule that has a mistake found is passed without it.
func mustDivide(t *testing.T, draw func(seed uint64) Schedule, wrong, right Start, after uint64, seeds int, counts func(*Failure) bool) {
	t.Helper()
	if raceEnabled {
		t.Skip("the search takes minutes under the race detector, and is single-threaded")
	}
	for seed := after + 1; seed <= after+uint64(seeds); seed++ {
		s := draw(seed)
		s.check = 5 * time.Second
		f := s.Run(wrong, nil).Failure
		if f == nil || !counts(f) {
			continue
		}
		t.Logf("%.200v", f)
		if f := draw(seed).Run(right, nil).Failure; f != nil {
			t.Errorf("without the mistake: %v\n%s", f, Explain(f))
		}
		return
	}
	t.Fatalf("not found in %d seeds after %d", seeds, after)
}

func appends(key, what string) register.Operation {
	return register.Operation{Kind: register.RMW, Key: key, Call: register.Call{Function: register.Append, Args: [][]byte{[]byte(what)}}}
}

// drawDeadVote makes a schedule in which a coordinator (a) hears one member (b) agree, which then loses its disk, and joins again
// among three that were not asked. Two of those (c and d) agree then: with the lost disk's vote they would be a fast quorum, and
// of those that are left, d alone would know of it.
func drawDeadVote(seed uint64) Schedule {
	const ms = time.Millisecond
	s := drawFence(seed)
	draw := newStream(seed, forSchedule, 4)
	s.Clients, s.Faults = nil, nil
	begin := 100 * ms
	for i := range 3 { // one of them is at the right point
		op := appends(mixedPrefix+string(rune('0'+i)), "x")
		s.Clients = append(s.Clients, Plan{Home: 0, Operations: []Planned{{begin + time.Duration(i)*ms, op}}})
	}
	cut := begin + draw.between(4*ms, 10*ms)
	joined := cut + draw.between(150*ms, 250*ms)
	left := joined + draw.between(10*ms, 100*ms)
	s.Faults = []Fault{
		{Kind: Partition, Node: -1, At: cut, For: joined - cut, Side: 1 << 0, Rate: 1000},
		{Kind: Wipe, Node: 1, At: cut, For: ms},
		{Kind: Partition, Node: -1, At: joined, For: left - joined, Side: 1<<0 | 1<<2 | 1<<3},
		{Kind: Partition, Node: -1, At: left, For: time.Second, Side: 1<<0 | 1<<2, Rate: 1000},
	}
	s.Settle = left + time.Second
	return s
}

func TestMistakesOfLostDisksAreFound(t *testing.T) {
	t.Parallel()
	keep, one := member.Mistakes{KeepIncarnation: true}, member.Mistakes{TransferFromOne: true}
	wipes := Options{Faults: []FaultKind{Wipe, Partition}, RMWs: ManyRMWs, Members: []int{3, 5}}
	rightEPaxos, rightGryff := Member(epaxos.Factory), Member(gryff.Factory)
	deadEPaxos := Member(epaxos.FactoryWith(epaxos.Mistakes{CountDeadDisks: true}))
	deadGryff := Member(gryff.FactoryWith(gryff.Mistakes{CountDeadDisks: true}))
	for _, c := range []struct {
		name         string
		draw         func(uint64) Schedule
		wrong, right Start
		after        uint64
		seeds        int
		counts       func(*Failure) bool
	}{
		{"CountDeadDisks, EPaxos", drawDeadVote, deadEPaxos, rightEPaxos, 0, 500, divided},
		{"CountDeadDisks, Gryff's rmws", drawDeadVote, deadGryff, rightGryff, 0, 500, divided},
		{"CountDeadDisks, Gryff's registers", drawFence, deadGryff, rightGryff, 0, 500, noticed},
		{"KeepIncarnation, EPaxos", drawDeadVote, MemberWith(epaxos.Factory, keep), rightEPaxos, 0, 500, divided},
		{"KeepIncarnation, Gryff's rmws", drawDeadVote, MemberWith(gryff.Factory, keep), rightGryff, 0, 500, divided},
		{"KeepIncarnation, Gryff's registers", drawFence, MemberWith(gryff.Factory, keep), rightGryff, 0, 500, noticed},
		{"TransferFromOne, EPaxos", drawn(wipes), MemberWith(epaxos.Factory, one), rightEPaxos, 300, 500, noticed},
		{"TransferFromOne, Gryff", drawn(wipes), MemberWith(gryff.Factory, one), rightGryff, 90, 500, noticed},
	} {
		t.Run(c.name, func(t *testing.T) { mustDivide(t, c.draw, c.wrong, c.right, c.after, c.seeds, c.counts) })
	}
	for _, right := range []Start{rightEPaxos, rightGryff} {
		mustNotFind(t, drawDeadVote, right, 200)
	}
	mustNotFind(t, drawFence, rightGryff, 200)
}
