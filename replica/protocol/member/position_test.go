package member_test

import (
	"fmt"
	"maps"
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// suspicious is a world of so many members of a plain view, all of which vote. What starts from now on asks.
func suspicious(t *testing.T, n int) *world {
	t.Helper()
	v := view.View{Cluster: "test", Epoch: 1}
	for id := view.MemberID(1); id <= view.MemberID(n); id++ {
		v.Members = append(v.Members, view.Member{ID: id})
	}
	w := newWorld(t, v)
	for id, node := range w.nodes {
		w.start(id)
		node.config.Continued = false
	}
	w.step()
	return w
}

// work has members make so many batches durable, each.
func (w *world) work(batches int, ids ...view.MemberID) {
	for i := range batches {
		for _, id := range ids {
			w.nodes[id].journal.Put([]byte(keyOf(i)), value(i, byte(w.now/protocol.Instant(tick))))
		}
		w.step()
	}
}

func (w *world) steps(n int) {
	for range n {
		w.step()
	}
}

func (w *world) stop(ids ...view.MemberID) {
	for _, id := range ids {
		w.nodes[id].member = nil
	}
}

// volume is what a snapshot of a member's disk has.
type volume struct {
	disk  map[string][]byte
	boots uint64
}

func (w *world) copyOf(id view.MemberID) volume {
	return volume{maps.Clone(w.nodes[id].disk), w.nodes[id].boots}
}

func (w *world) putBack(id view.MemberID, v volume) {
	w.nodes[id].disk, w.nodes[id].boots = maps.Clone(v.disk), v.boots
}

func (w *world) votes(id view.MemberID) bool {
	m := w.nodes[id].member
	return m != nil && m.Voter()
}

// settled is enough steps for all that was heard to be told to all, and noted.
const settled = 100

func TestAnOldCopyOfADiskIsFoundOut(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		there []view.MemberID // answer
		again bool            // they restart with it
	}{
		"all are there":              {3, []view.MemberID{2, 3}, false},
		"one of three is away":       {3, []view.MemberID{3}, false},
		"two of five are away":       {5, []view.MemberID{2, 5}, false},
		"all restart":                {3, []view.MemberID{2, 3}, true},
		"two restart, and one never": {3, []view.MemberID{2}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := suspicious(t, c.n)
			w.work(3, 1)
			snapshot := w.copyOf(1)
			w.work(1, 1) // what others may count on
			w.steps(settled)
			for id := range w.nodes {
				w.stop(id)
				if id != 1 && !c.again {
					w.stop(1)
				}
			}
			w.putBack(1, snapshot)
			w.start(append(c.there, 1)...)
			w.until("member 1 finds it out", func() bool {
				if w.votes(1) {
					t.Fatal("it votes on a disk that has forgotten")
				}
				return w.nodes[1].lost != nil
			})
			text := w.nodes[1].lost.Error()
			if !strings.Contains(text, "has forgotten") ||
				!strings.Contains(text, "it had 5 batches before this start, and has 4") {
				t.Errorf("it says %q", text)
			}
			// On an empty disk it is a newcomer, as with any lost one.
			w.nodes[1].disk, w.nodes[1].config.Bootstrap = map[string][]byte{}, false
			w.start(1)
			for id := range w.nodes {
				if !w.votes(id) && id != 1 && w.nodes[id].member == nil {
					w.start(id)
				}
			}
			w.until("it joins again", func() bool { return w.votes(1) })
			if w.nodes[1].member.Incarnation() != 2 {
				t.Errorf("it is disk number %d", w.nodes[1].member.Incarnation())
			}
		})
	}
}

// A boot that comes twice is not the same one: here both had as many batches when they began.
func TestABootThatComesTwiceIsFoundOut(t *testing.T) {
	w := suspicious(t, 3)
	w.work(3, 1)
	w.steps(settled)
	w.stop(1)
	snapshot := w.copyOf(1)
	w.start(1)
	w.until("it votes", func() bool { return w.votes(1) })
	w.work(2, 1)
	w.steps(settled)
	w.stop(1)
	w.putBack(1, snapshot)
	w.start(1)
	w.until("it is found out", func() bool { return w.nodes[1].lost != nil })
}

func TestAWholeDiskVotesAgain(t *testing.T) {
	for name, c := range map[string]struct {
		n     int
		start []view.MemberID
		votes bool
		slow  bool // it waits until who is away is taken to be so
	}{
		"all are there":       {3, []view.MemberID{1, 2, 3}, true, false},
		"one of three is":     {3, []view.MemberID{1, 2}, true, true},
		"alone of three":      {3, []view.MemberID{1}, false, true},
		"four of five":        {5, []view.MemberID{1, 2, 3, 4}, true, false},
		"three of five":       {5, []view.MemberID{1, 3, 5}, true, true},
		"two of five":         {5, []view.MemberID{1, 3}, false, true},
		"alone":               {1, []view.MemberID{1}, true, false},
		"both of two members": {2, []view.MemberID{1, 2}, true, false},
	} {
		t.Run(name, func(t *testing.T) {
			w := suspicious(t, c.n)
			for id := range w.nodes {
				w.work(3, id)
			}
			w.steps(settled)
			for id := range w.nodes {
				w.stop(id)
			}
			w.start(c.start...)
			w.step()
			if got := w.votes(1); got != (c.votes && !c.slow) {
				t.Errorf("after a round trip it votes: %t", got)
			}
			w.steps(1000)
			if got := w.votes(1); got != c.votes {
				t.Errorf("in the end it votes: %t", got)
			}
			for _, id := range c.start {
				if err := w.nodes[id].lost; err != nil {
					t.Errorf("member %d: %v", id, err)
				}
			}
		})
	}
}

// A quorum with the asker would do for a disk that is whole. As long as others may only be slow it does not.
func TestTheOneThatAloneHasHeardIsWaitedFor(t *testing.T) {
	w := suspicious(t, 5)
	snapshot := w.copyOf(1)
	w.lose = func(p packet) bool { return p.from == 1 && p.to != 2 }
	w.work(1, 1)
	w.steps(settled)
	w.stop(1, 5)
	w.putBack(1, snapshot)
	answers := 0
	w.lose = func(p packet) bool {
		if p.message.Kind == peerv1.Kind_POSITION_REPLY {
			answers++
			return p.from == 2 && answers < 7 // the first ones
		}
		return false
	}
	w.start(1)
	w.until("it is found out", func() bool {
		if w.votes(1) {
			t.Fatal("it votes, and did not wait")
		}
		return w.nodes[1].lost != nil
	})
}

// Who alone has heard is away for longer than anybody waits: that is the window. It closes when that one is back, even
// if the disk has had more batches since.
func TestAnOldCopyIsFoundOutLate(t *testing.T) {
	w := suspicious(t, 3)
	snapshot := w.copyOf(1)
	w.lose = func(p packet) bool { return p.from == 1 && p.to == 3 }
	w.work(2, 1)
	w.steps(settled)
	w.lose = nil
	w.stop(1, 2)
	w.putBack(1, snapshot)
	w.start(1)
	w.until("it votes", func() bool { return w.votes(1) })
	w.work(20, 1)
	w.start(2)
	w.until("it is found out", func() bool { return w.nodes[1].lost != nil })
	if !w.votes(2) || !w.votes(3) {
		t.Error("the others are affected")
	}
}

// A copy of a disk that another disk of the member has followed is lost, too; and so is that of a founder's empty one.
func TestACopyOfAnEarlierDiskIsFoundOut(t *testing.T) {
	w := suspicious(t, 3)
	snapshot := w.copyOf(1)
	w.stop(1)
	n := w.nodes[1]
	n.disk, n.config.Bootstrap = map[string][]byte{}, false
	w.start(1)
	w.until("it joins again", func() bool { return w.votes(1) })
	for name, v := range map[string]volume{"of its first disk": snapshot, "of the empty one": {nil, 0}} {
		w.stop(1)
		w.putBack(1, v)
		if n.disk == nil {
			n.disk = map[string][]byte{}
		}
		n.config.Bootstrap = true // the view names that disk
		w.start(1)
		w.until(name+" is found out", func() bool { return n.lost != nil })
		if !strings.Contains(n.lost.Error(), "number 2, and this is number 1") {
			t.Errorf("%s: %v", name, n.lost)
		}
	}
}

func TestOperationsWaitForAMemberThatAsks(t *testing.T) {
	w := suspicious(t, 3)
	w.stop(1, 2, 3)
	w.start(1)
	m := w.nodes[1].member
	m.Submit(protocol.Request{Handle: 1, Deadline: w.now.Add(3 * tick)})
	m.Submit(protocol.Request{Handle: 2, Deadline: w.now.Add(3 * tick), Resume: "something"})
	m.Submit(protocol.Request{Handle: 3})
	w.now = w.now.Add(5 * tick)
	m.Tick(w.now)
	ended := map[uint64]register.Status{}
	for _, c := range m.Ready().Complete {
		ended[c.Handle] = c.Result.Status
	}
	if want := map[uint64]register.Status{1: register.Unavailable, 2: register.Unknown}; !maps.Equal(ended, want) {
		t.Errorf("after the deadline %v, want %v", ended, want)
	}
	if left := m.Unfinished(); len(left) != 1 || left[0].Handle != 3 || !m.Doubted() {
		t.Errorf("%v are left, it asks: %t", left, m.Doubted())
	}
}

// What members note of each other's disks must not have them note more.
func TestMembersAtRestAreSilent(t *testing.T) {
	w := suspicious(t, 5)
	for id := range w.nodes {
		w.work(3, id)
	}
	w.steps(settled)
	before, disks := len(w.sent), fmt.Sprint(w.nodes[1].disk)
	w.steps(1000)
	if len(w.sent) != before || fmt.Sprint(w.nodes[1].disk) != disks {
		t.Errorf("%d messages at rest, disk changed: %t", len(w.sent)-before, fmt.Sprint(w.nodes[1].disk) != disks)
	}
}

// Whoever joins knows what those knew whose state it fetched: they may be gone when a disk goes back.
func TestANewcomerLearnsOfDisks(t *testing.T) {
	w := suspicious(t, 3)
	snapshot := w.copyOf(1)
	w.work(1, 1)
	w.steps(settled)
	w.stop(1, 3)
	w.nodes[3].disk, w.nodes[3].config.Bootstrap = map[string][]byte{}, false
	w.start(1, 3)
	w.until("the newcomer votes", func() bool { return w.votes(3) && w.votes(1) })
	w.stop(1, 2, 3)
	w.putBack(1, snapshot)
	w.start(1, 3)
	w.until("it is found out", func() bool { return w.nodes[1].lost != nil })
}

// A disk that is lost before enough others have adopted it leaves its number to the next one. Nobody takes that one for
// a copy of it.
func TestANumberThatIsGivenAgainIsNoOldCopy(t *testing.T) {
	w := suspicious(t, 3)
	n := w.nodes[1]
	empty := func() {
		w.stop(1)
		n.disk, n.config.Bootstrap, n.boots = map[string][]byte{}, false, 0
		w.start(1)
	}
	adoptions := 0
	w.lose = func(p packet) bool {
		adopts := p.message.Kind == peerv1.Kind_ADOPT
		if adopts {
			adoptions++
		}
		return adopts
	}
	empty()
	w.until("it has a number", func() bool { return adoptions > 0 })
	w.stop(1)
	w.start(1)
	asked := adoptions
	w.until("it is whole, and asks again", func() bool { return adoptions > asked })
	w.steps(settled)
	w.stop(2, 3) // what they had heard of its number is gone
	w.lose = nil
	w.start(2, 3)
	empty()
	w.until("the next disk joins", func() bool { return w.votes(1) })
	if n.member.Incarnation() != 2 {
		t.Fatalf("it is disk number %d", n.member.Incarnation())
	}
	w.work(1, 1)
	w.stop(1)
	w.start(1)
	w.until("it votes again", func() bool {
		if n.lost != nil {
			t.Fatalf("a disk that is whole: %v", n.lost)
		}
		return w.votes(1)
	})
}
