package layered

import (
	"bytes"
	"fmt"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// deaf has members not be sent fragments of others' values.
func deaf(w *world, ids ...view.MemberID) {
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		for _, id := range ids {
			if to == id && m.Fragment != nil && m.Kind == peerv1.Kind_FRAGMENT_STORE {
				return false
			}
		}
		return true
	}
}

// A member that missed STORE makes its fragment later. Then the value outlives two members, and not only the one that
// it was written for.
func TestAMissedFragmentIsRepaired(t *testing.T) {
	for _, repaired := range []bool{false, true} {
		w := newWorld(t, 5, 3)
		deaf(w, 5)
		value := large(5000, 1)
		w.write(1, "k", value)
		if members, _ := w.fragments(); members != 4 {
			t.Fatalf("%d members have fragments", members)
		}
		w.passes = nil
		if repaired {
			w.pass(30 * retry)
		}
		w.kill(1)
		w.kill(2)
		if !repaired { // two fragments are left
			h := w.submit(5, register.Operation{Kind: register.Read, Key: "k"}, w.now.Add(3*retry))
			w.pass(4 * retry)
			if r := w.results[h]; r.Status != register.Unavailable {
				t.Errorf("without a repair it ended with %v", r.Status)
			}
			continue
		}
		for _, at := range []view.MemberID{3, 4, 5} {
			w.expect(at, "k", value)
		}
		if w.took[pathRepaired] != 1 {
			t.Errorf("%d repairs", w.took[pathRepaired])
		}
	}
}

// Many are repaired in turn, those that nobody misses are not fetched, and in the end nothing is asked any more.
func TestRepairsEnd(t *testing.T) {
	w := newWorld(t, 5, 3)
	deaf(w, 4)
	const keys = 3 * surveyRegisters
	for i := range keys {
		size := 500
		if i%4 != 0 {
			size = 50
		}
		w.write(1, fmt.Sprint("k", i), large(size, byte(i)))
	}
	w.passes = nil
	w.pass(300 * retry)
	if _, records := w.fragments(); records != 5*keys/4 || w.took[pathRepaired] != keys/4 {
		t.Errorf("%d fragments, %d repairs", records, w.took[pathRepaired])
	}
	clear(w.sent)
	w.pass(100 * retry)
	if w.sent[peerv1.Kind_FRAGMENT_FETCH] != 0 {
		t.Errorf("%d times fragments are fetched though none is missing", w.sent[peerv1.Kind_FRAGMENT_FETCH])
	}
}

// A fragment that is late is not fetched.
func TestALateFragmentIsNotRepaired(t *testing.T) {
	w := newWorld(t, 5, 3)
	w.pass(10 * retry)
	var late *peerv1.Message
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		if to == 5 && m.Fragment != nil && m.Kind == peerv1.Kind_FRAGMENT_STORE {
			late = m
			return false
		}
		return true
	}
	w.write(1, "k", large(500, 1))
	for len(w.nodes[4].layer.repairs) == 0 {
		w.pass(retry / 4)
	}
	w.nodes[4].Receive(1, late)
	w.turn(w.nodes[4])
	w.settle()
	w.pass(20 * retry)
	if members, _ := w.fragments(); members != 5 || w.took[pathRepaired] != 0 || w.sent[peerv1.Kind_FRAGMENT_FETCH] != 0 {
		t.Errorf("%d members have fragments, after %d repairs", members, w.took[pathRepaired])
	}
}

// A member whose register missed a newer value looks for fragments that nobody has any more: it ends each attempt,
// votes and reads as ever, and looks no longer when its register has something else.
func TestWhatIsOverIsNotRepaired(t *testing.T) {
	w := newWorld(t, 5, 3)
	deaf(w, 5)
	w.write(1, "k", large(500, 1))
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool { return to != 5 && from != 5 }
	w.write(2, "k", large(500, 2))
	w.pass(30 * retry) // the first value's fragments are dropped
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		return m.Fragment != nil || to != 5 // fragments can be fetched, and nothing tells of the second value
	}
	w.pass(60 * retry)
	if w.took[pathRepaired] != 0 || !w.nodes[4].Voter() || w.nodes[4].Pending() > maxRepairs {
		t.Errorf("%d repairs, it votes: %v, %d operations", w.took[pathRepaired], w.nodes[4].Voter(), w.nodes[4].Pending())
	}
	w.passes = nil
	w.expect(5, "k", large(500, 2))
	w.write(2, "k", large(500, 3))
	w.pass(60 * retry)
	if _, records := w.fragments(); records != 5 || w.nodes[4].Pending() != 0 {
		t.Errorf("%d fragments, of one value; %d operations at member 5", records, w.nodes[4].Pending())
	}
}

// The answers to a repair come when the value is over, and the writer's disk is lost then: nobody can tell member 5
// that its fragment may go.
func TestALateRepairKeepsNothing(t *testing.T) { lateRepair(t, false) }

func lateRepair(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	deaf(w, 5)
	w.write(1, "k", large(500, 1))
	var late []flying
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		if to != 5 || m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_FETCHED {
			return true
		}
		late = append(late, flying{from, to, m})
		return false
	}
	for len(late) < 3 {
		w.pass(retry / 4)
	}
	w.kill(1)
	w.write(2, "k", []byte("it is small now"))
	w.passes = nil
	for _, f := range late {
		w.nodes[4].Receive(f.from, f.message)
		w.turn(w.nodes[4])
	}
	w.pass(30 * retry) // those that were sent theirs drop them
	w.wipe(1)
	w.pass(60 * retry)
	if _, records := w.fragments(); (records > 0) != wrong || !w.nodes[0].Voter() {
		t.Errorf("mistake %v: %d fragments are left for good", wrong, records)
	}
	if (w.took[pathRepaired] > 0) != wrong || (w.took[pathRepairOver] > 0) == wrong {
		t.Errorf("mistake %v: %d repairs, %d that were over", wrong, w.took[pathRepaired], w.took[pathRepairOver])
	}
}

// What damaged fragments make is no fragment.
func TestARepairChecksWhatItMakes(t *testing.T) { damagedRepair(t, false) }

func damagedRepair(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	deaf(w, 5)
	w.write(1, "k", large(500, 1))
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		if to == 5 && m.Fragment != nil && m.Kind == peerv1.Kind_FRAGMENT_FETCHED && len(m.Fragment.Data) > 0 {
			m.Fragment.Data = bytes.Clone(m.Fragment.Data)
			m.Fragment.Data[0]++
		}
		return true
	}
	w.pass(30 * retry)
	if members, _ := w.fragments(); (members == 5) != wrong {
		t.Errorf("mistake %v: %d members have fragments", wrong, members)
	}
}
