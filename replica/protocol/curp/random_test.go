package curp_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/curp"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// schedule is a random run: clients that work, members that crash and pause, masters that are replaced.
type schedule struct {
	*world
	recorder *history.Recorder
	asked    map[[2]uint64]history.Invocation
	running  map[[2]uint64]bool
	values   int
	numbers  uint64
	large    bool                     // some values are, so that logs are not kept for long
	lost     map[view.MemberID]uint64 // who lost their disks, in which epochs
}

func newSchedule(t *testing.T, seed uint64, members, faults, witnesses int, options protocol.Sync) *schedule {
	s := &schedule{
		asked: map[[2]uint64]history.Invocation{}, running: map[[2]uint64]bool{}, lost: map[view.MemberID]uint64{},
	}
	s.world = newWorld(t, seed, members, faults, witnesses, options)
	w := s.world
	s.recorder = history.NewRecorder(func() time.Duration { return w.now })
	w.completed = func(n *node, c protocol.Completion) {
		key := [2]uint64{uint64(n.id), c.Handle}
		if i, ok := s.asked[key]; ok {
			if c.Result.Status != register.Unknown {
				i.Return(c.Result)
			}
			delete(s.asked, key)
			delete(s.running, key)
		} else {
			t.Fatalf("member %d completes %d, which is not in progress", n.id, c.Handle)
		}
	}
	return s
}

func (s *schedule) submit(n *node) {
	if n.p == nil || n.paused {
		return
	}
	op := register.Operation{Key: fmt.Sprint("k", s.draw.IntN(3))}
	switch k := s.draw.IntN(10); {
	case k < 4:
		op.Kind, op.Stale = register.Read, n.handles%3 == 0
	case k < 7:
		s.values++
		op.Kind, op.Value = register.Write, register.Value(fmt.Sprint("v", s.values))
		if s.large && s.draw.IntN(3) == 0 {
			op.Key, op.Value = "large", append(op.Value, bytes.Repeat([]byte("x"), 900_000)...)
		}
	default:
		s.values++
		op.Kind, op.Call = register.RMW,
			register.Call{
				Function: register.Append, Args: [][]byte{fmt.Append(nil, "+", s.values)}, MaxValueBytes: 1 << 20,
			}
		if k == 9 {
			s.numbers++
			op.ID = register.ID{
				Session: 77, Number: s.numbers, FirstIncomplete: s.numbers, IssuedAt: int64(1 + s.now.Milliseconds()),
			}
			op.ID.Session += uint64(s.numbers) // each its own session
			op.ID.Number, op.ID.FirstIncomplete = 1, 1
		}
	}
	n.handles++
	handle := n.handles
	key := [2]uint64{uint64(n.id), handle}
	s.asked[key] = s.recorder.Invoke(fmt.Sprint(key), "", op)
	s.running[key] = true
	s.logf("%d submits %d: %s %s %s", n.id, handle, op.Kind, op.Key, short(op.Value))
	n.turn(func() { n.p.Submit(protocol.Request{Handle: handle, Operation: op}) })
}

// lose forgets the operations of a member that crashes: nobody answers them.
func (s *schedule) lose(n *node) {
	for key := range s.asked { // order is irrelevant: all of them go
		if key[0] == uint64(n.id) {
			delete(s.asked, key)
			delete(s.running, key)
		}
	}
	n.crash()
}

// loseDisk has a member start again on an empty disk. As many do in a schedule as may be lost.
func (s *schedule) loseDisk(n *node, faults int) {
	if len(s.lost) == faults || s.lost[n.id] != 0 {
		return
	}
	s.lose(n)
	s.lost[n.id] = s.view.Epoch
	n.disk, n.founded = protocoltest.Disk{}, false
	n.start(false)
}

// govern makes the next view, as the manager would: another master, the end of a recovery, other backups. Unlike the
// manager it gives no thought, now and then, to what a new master could miss of what was answered: that is for the
// protocol to find out.
func (s *schedule) govern(faults int, failover bool) {
	p := s.view.Partitions[0]
	done := s.recovered == p.Term
	formers := []view.Former{p.Former()}
	if !done {
		formers = append(slices.Clone(p.Formers), p.Former())
	}
	next := view.Partition{Term: s.view.Epoch + 1, Master: p.Master, Formers: formers}
	master := s.nodes[p.Master-1]
	var standing protocol.PartitionStatus
	if master.p != nil && !master.paused && master.view.Epoch == s.view.Epoch {
		standing = master.p.PartitionStatus()
	}
	able := func(id view.MemberID) bool {
		return id != p.Master && s.nodes[id-1].p != nil && !s.nodes[id-1].p.PartitionStatus().Copying
	}
	heir := func(id view.MemberID) bool { return able(id) && s.suits(id, formers) }
	backs := func(id view.MemberID) bool { return s.nodes[id-1].p != nil && !s.nodes[id-1].p.PartitionStatus().Lost }
	switch {
	case standing.Restarted:
	case failover && len(formers) > 3:
		return
	case failover && s.draw.IntN(4) == 0:
		next.Master = s.any(able)
	case failover, standing.Lost, !done && standing.Term == p.Term && !s.suits(p.Master, p.Formers):
		next.Master = s.any(heir)
	case done && len(p.Formers) > 0:
		next = p
		next.Formers = nil
		s.change(next)
		return
	case standing.Term == p.Term && slices.ContainsFunc(p.Backups, s.gone): // it goes on with others
	case done && len(standing.CaughtUp) > 0 && s.draw.IntN(8) == 0:
		backs = func(id view.MemberID) bool {
			return slices.Contains(p.Backups, id) || slices.Contains(standing.CaughtUp, id)
		}
	default:
		return
	}
	for range faults {
		if id := s.any(func(id view.MemberID) bool {
			return id != next.Master && backs(id) && !slices.Contains(next.Backups, id)
		}); id != 0 {
			next.Backups = append(next.Backups, id)
		}
	}
	if next.Master == 0 || len(next.Backups) < faults {
		return // it waits
	}
	for _, i := range s.draw.Perm(len(s.view.Witnesses)) {
		if len(next.Witnesses) < max(faults, 1) {
			next.Witnesses = append(next.Witnesses, s.view.Witnesses[i].ID)
		}
	}
	s.change(next)
}

// gone reports whether a member says that its disk has not what its part needs.
func (s *schedule) gone(id view.MemberID) bool {
	n := s.nodes[id-1]
	return n.p != nil && n.view.Epoch == s.view.Epoch && n.p.PartitionStatus().Lost
}

// any is one of the members that suit, or 0.
func (s *schedule) any(suits func(id view.MemberID) bool) view.MemberID {
	for _, i := range s.draw.Perm(len(s.nodes)) {
		if suits(s.nodes[i].id) {
			return s.nodes[i].id
		}
	}
	return 0
}

// suits reports whether a member can recover former terms, by what members say that hold the newest view: it had a
// part in each, or in a later one that had recovered it, or a term never served.
func (s *schedule) suits(id view.MemberID, formers []view.Former) bool {
	standing := func(id view.MemberID) (protocol.PartitionStatus, bool) {
		n := s.nodes[id-1]
		if n.p == nil || n.paused || n.view.Epoch != s.view.Epoch {
			return protocol.PartitionStatus{}, false
		}
		return n.p.PartitionStatus(), true
	}
	own, told := standing(id)
	had := func(f view.Former) bool { return f.Has(id) && f.Term > s.lost[id] }
	served := func(f view.Former) bool {
		return !slices.ContainsFunc(append(slices.Clone(f.Backups), f.Master), func(id view.MemberID) bool {
			other, told := standing(id)
			return told && !other.Lost && other.NotedTerm < f.Term
		})
	}
	return told &&
		!slices.ContainsFunc(formers, func(f view.Former) bool {
			return !had(f) && f.Term >= own.WholeTerm && served(f)
		})
}

// play runs the schedule: faults, then a time without, in which everything must end.
func (s *schedule) play(faults int) history.Verdict {
	d := s.draw
	lossy := d.IntN(3) == 0
	slow := d.IntN(2) == 0
	s.delay = func() time.Duration {
		if slow && d.IntN(20) == 0 {
			return time.Duration(d.IntN(1000)) * time.Millisecond
		}
		return time.Duration(1+d.IntN(20)) * time.Millisecond
	}
	isolated := map[view.MemberID]bool{}
	s.cut = func(from, to view.MemberID) bool {
		return lossy && d.IntN(20) == 0 || isolated[from] != isolated[to]
	}
	chaos := d.IntN(4) > 0
	rate := 1 + d.IntN(6)
	for range 400 {
		if d.IntN(rate) == 0 {
			s.submit(s.nodes[d.IntN(len(s.nodes))])
		}
		n := s.nodes[d.IntN(len(s.nodes))]
		if chaos {
			switch d.IntN(60) {
			case 0:
				if n.p != nil {
					s.lose(n)
				}
			case 1, 2, 3:
				if n.p == nil {
					n.start(false)
				}
			case 4:
				n.paused = n.p != nil
			case 5, 6, 7:
				n.resume()
			case 8:
				s.govern(faults, true)
			case 9:
				isolated[n.id] = true
			case 10, 11:
				clear(isolated)
			case 13:
				s.loseDisk(n, faults)
			case 12:
				for _, x := range s.view.Witnesses {
					s.witnesses[x.ID].down = d.IntN(8) == 0
				}
			}
		}
		if d.IntN(8) == 0 {
			s.govern(faults, false)
		}
		if d.IntN(3) == 0 {
			n.configure()
		}
		s.run(time.Duration(d.IntN(20)) * time.Millisecond)
	}
	// The faults are over.
	s.cut = func(_, _ view.MemberID) bool { return false }
	slow = false
	for _, x := range s.view.Witnesses {
		s.witnesses[x.ID].down = false
	}
	for range 200 {
		for _, n := range s.nodes {
			n.resume()
			if n.p == nil {
				n.start(false)
			}
			n.configure()
		}
		s.govern(faults, false)
		s.run(50 * time.Millisecond)
		if len(s.running) == 0 {
			break
		}
	}
	if len(s.running) > 0 {
		for _, n := range s.nodes {
			s.logf("%d: %+v", n.id, n.p.PartitionStatus())
		}
		s.t.Fatalf("%d operations do not end in %+v\n%s", len(s.running), s.view.Partitions, tail(s.trace.String()))
	}
	for range 2 { // what is there is read at the end
		for _, n := range s.nodes {
			s.submit(n)
		}
		s.run(2 * time.Second)
	}
	limits := history.Options{Timeout: time.Second, Brief: true}
	if v := history.Check(s.t.Context(), s.recorder.Operations(), limits); !v.OK() {
		return v
	}
	return history.CheckStale(s.t.Context(), s.recorder.Operations(), s.options.WithDefaults().Lease, limits)
}

func tail(text string) string { return text[max(0, len(text)-12000):] }

func options(seed uint64) protocol.Sync {
	return protocol.Sync{
		Lease: time.Duration(100+seed%5*100) * time.Millisecond, After: 1 + int(seed%20),
		Delay: time.Duration(seed%4*50+1) * time.Millisecond,
	}
}

func TestRandomSchedulesAreLinearizable(t *testing.T) {
	seeds := uint64(120)
	if testing.Short() {
		seeds = 40
	}
	hard := uint64(0)
	took := map[string]int{}
	for seed := range seeds {
		faults := int(seed % 3)
		s := newSchedule(t, seed, max(4, 2*faults+1), faults, max(faults, 1), options(seed))
		s.large = seed%2 == 1
		switch v := s.play(faults); v.Outcome {
		case history.Linearizable:
		case history.Timeout: // too many operations whose members crashed
			hard++
		default:
			t.Errorf("seed %d: %v %s", seed, v.Outcome, v.Explanation)
		}
		for path, n := range s.took { // order is irrelevant: counts are added
			took[path] += n
		}
	}
	for _, path := range append(curp.Paths(), curp.ChangePaths()...) {
		if took[path] == 0 {
			t.Logf("no schedule took the path %s", path)
		}
	}
	if hard > seeds/10 {
		t.Errorf("%d of %d histories are too hard to check", hard, seeds)
	}
	t.Logf("%v", took)
}
