package layered

import (
	"bytes"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// A newcomer that finds fewer fragments than restore a value waits until so many have answered that its writer can't
// have counted the lost disk.
func TestANewcomerGivesUpLateEnough(t *testing.T) { newcomerGivesUp(t, false) }

func newcomerGivesUp(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	value := large(500, 1)
	w.kill(5)
	w.write(1, "k", value) // members 1 to 4 have fragments
	w.revive(5)
	// Member 4, which has one, is away. So member 2's next disk finds two.
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		return m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_FETCHED || from != 4
	}
	strip(w, 2)
	w.wipe(2)
	w.pass(6 * retry)
	if got := w.took[pathAbandoned] > 0; got != wrong {
		t.Errorf("mistake %v: it gave up: %v", wrong, got)
	}
	if w.nodes[1].Voter() != wrong {
		t.Errorf("mistake %v: it votes: %v", wrong, w.nodes[1].Voter())
	}
	w.passes = nil
	w.pass(6 * retry)
	if !w.nodes[1].Voter() {
		t.Errorf("mistake %v: it does not vote at last", wrong)
	}
	if members, _ := w.fragments(); !wrong && members != 4 {
		t.Errorf("%d members have fragments", members)
	}
}

// strip has state transfers to a member bring no fragments, as if those that it copies had been sent theirs later.
func strip(w *world, id view.MemberID) {
	passes := w.passes
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		if to == id && m.Transfer != nil {
			kept := m.Transfer.Records[:0]
			for _, r := range m.Transfer.Records {
				if r.Key[0] != piecesPrefix {
					kept = append(kept, r)
				}
			}
			m.Transfer.Records = kept
		}
		return passes == nil || passes(from, to, m)
	}
}

// Two disks are lost one after the other, the second as soon as the first one's next votes. Neither of these hears at
// first of the fragments that it asks for.
func TestAVoteWithoutAFragmentLosesAValue(t *testing.T) { twoLost(t, false) }

func twoLost(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	w.kill(5)
	w.write(1, "k", large(500, 1)) // members 1 to 4 have fragments
	w.revive(5)
	lose := func(id view.MemberID) {
		w.passes = func(_, _ view.MemberID, m *peerv1.Message) bool {
			return m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_FETCHED
		}
		strip(w, 2)
		strip(w, 3)
		w.wipe(id)
		w.pass(6 * retry)
	}
	lose(2)
	if !w.nodes[1].Voter() {
		w.passes = nil
		w.pass(6 * retry)
	}
	lose(3)
	w.passes = nil
	w.pass(6 * retry)
	if !w.nodes[1].Voter() || !w.nodes[2].Voter() {
		t.Fatalf("mistake %v: not all members vote", wrong)
	}
	h := w.submit(1, register.Operation{Kind: register.Read, Key: "k"}, 0)
	if r := w.results[h]; (r.Status == register.OK && bytes.Equal(r.Value, large(500, 1))) == wrong {
		t.Errorf("mistake %v: the read ended with %+v", wrong, r)
	}
}

// waiting has members 6 and 7 join five, and 7 still wait for its fragment of a value that was never written when the
// change is over. Nothing that it asks for reaches it until passes is replaced.
func waiting(t *testing.T) *world {
	t.Helper()
	w := newWorld(t, 5, 3)
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		return m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_STORE || to == 1
	}
	// Members 5 and 1 have fragments.
	w.submit(5, register.Operation{Kind: register.Write, Key: "k", Value: large(500, 1)}, 0)
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		return m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_FETCHED || to != 7
	}
	w.change(0, 6, 7)
	w.pass(4 * retry)
	if !w.nodes[5].Change().Fetched || w.nodes[6].Change().Fetched || !w.finishable() {
		t.Fatalf("member 6 has fetched: %v, 7 has: %v", w.nodes[5].Change().Fetched, w.nodes[6].Change().Fetched)
	}
	return w
}

// A disk is lost then. Its next one waits for what all others say, and so for member 7.
func TestWhoWaitsForAFragmentSaysThatItHasNone(t *testing.T) { waitsAndSays(t, false) }

func waitsAndSays(t *testing.T, wrong bool) {
	t.Helper()
	w := waiting(t)
	w.kill(3)
	w.finish()
	w.wipe(3)
	w.pass(10 * retry)
	if w.nodes[2].Voter() == wrong || w.nodes[6].layer.Unsettled() != 1 {
		t.Errorf("mistake %v: member 3 votes: %v, and 7 waits for %d", wrong, w.nodes[2].Voter(),
			w.nodes[6].layer.Unsettled())
	}
	w.passes = nil
	w.pass(60 * retry)
	if w.nodes[2].Voter() == wrong || (w.nodes[6].layer.Unsettled() > 0) != wrong {
		t.Errorf("mistake %v: member 3 votes: %v, and 7 waits for %d", wrong, w.nodes[2].Voter(),
			w.nodes[6].layer.Unsettled())
	}
}

// A member is lost for good then, and is to be replaced: that does not wait for it.
func TestWhoWaitsForAFragmentCountsItself(t *testing.T) { waitsAndCounts(t, false) }

func waitsAndCounts(t *testing.T, wrong bool) {
	t.Helper()
	w := waiting(t)
	w.kill(3)
	w.finish()
	w.passes = nil
	w.pass(10 * retry)
	if left := w.nodes[6].layer.Unsettled(); (left > 0) != wrong {
		t.Errorf("mistake %v: member 7 waits for %d fragments", wrong, left)
	}
	w.change(3, 8)
	w.pass(60 * retry)
	if w.finishable() == wrong {
		t.Errorf("mistake %v: the change can be finished: %v", wrong, !wrong)
	}
}

// A member that was rebuilding has the fragment of one that was to join when the change is taken back. The code of the
// view before has none of that ID.
func TestFragmentsBeyondTheCodeCountNowhere(t *testing.T) { beyondTheCode(t, false) }

func beyondTheCode(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	w.write(1, "k", large(500, 1))
	two := w.nodes[1]
	w.kill(2)
	more, err := newCode(3, view.View{Members: []view.Member{{ID: 8}}})
	if err != nil {
		t.Fatal(err)
	}
	all, err := more.encode(large(500, 1))
	if err != nil {
		t.Fatal(err)
	}
	var kept peerv1.FragmentPieces
	for _, i := range []uint32{0, 2, 7} {
		kept.Pieces = append(kept.Pieces, &peerv1.FragmentPiece{Index: i, Data: all[i]})
	}
	for key := range two.disk { // order is irrelevant: there is one of each
		switch {
		case key[0] == piecesPrefix:
			two.disk[key], err = kept.MarshalVT()
		case key[0] == recordPrefix && len(key) > len(codeKey):
			two.disk[key], err = (&peerv1.FragmentRecord{State: peerv1.FragmentState_FRAGMENT_WANTED}).MarshalVT()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	w.start(two, false)
	if wrong {
		var fault error
		for i := protocol.Instant(1); i < 40 && fault == nil; i++ {
			two.Tick(w.now.Add(time.Duration(i) * retry))
			fault = w.step(two)
			for ; fault == nil && len(w.flying) > 0; w.flying = w.flying[1:] {
				to := w.nodes[w.flying[0].to-1]
				to.Receive(w.flying[0].from, w.flying[0].message)
				fault = w.step(to)
			}
		}
		if fault == nil {
			t.Error("the mistake does no harm")
		}
		return
	}
	w.pass(30 * retry)
	w.kill(1)
	w.kill(3)
	w.expect(2, "k", large(500, 1))
}
