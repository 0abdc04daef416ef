package layered

import (
	"bytes"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// What is replaced, never finished, or deleted goes from all disks; what is the register's stays.
func TestFragmentsGo(t *testing.T) {
	w := newWorld(t, 5, 3)
	for i := range byte(10) {
		w.write(view.MemberID(i%5+1), "k", large(500, i))
	}
	w.write(2, "small", large(500, 1))
	w.write(3, "small", []byte("now it is small"))
	if _, records := w.fragments(); records != 55 {
		t.Fatalf("%d fragments", records)
	}
	w.pass(30 * retry)
	if members, records := w.fragments(); members != 5 || records != 5 {
		t.Errorf("%d members have %d fragments, of one value", members, records)
	}
	w.expect(4, "k", large(500, 9))
	w.write(1, "k", nil)
	w.pass(30 * retry)
	if _, records := w.fragments(); records != 0 {
		t.Errorf("%d fragments of a deleted value", records)
	}
	for _, nd := range w.nodes {
		for key := range nd.disk {
			if key[0] == recordPrefix && len(key) > len(codeKey) {
				t.Errorf("member %d has the record %q", nd.id, key)
			}
		}
	}
}

// A coordinator crashes before it writes the metadata: its fragments go when it is back.
func TestOrphansGo(t *testing.T) {
	w := newWorld(t, 5, 3)
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool { return to != 1 }
	w.submit(1, register.Operation{Kind: register.Write, Key: "k", Value: large(500, 1)}, 0)
	if members, _ := w.fragments(); members != 5 {
		t.Fatalf("%d members have fragments", members)
	}
	w.kill(1)
	w.passes = nil
	w.pass(30 * retry)
	if members, _ := w.fragments(); members != 5 {
		t.Fatalf("%d members have fragments while nobody knows what their writer did", members)
	}
	w.revive(1)
	w.pass(30 * retry)
	if members, _ := w.fragments(); members != 0 {
		t.Errorf("%d members have fragments", members)
	}
	w.expect(2, "k", nil)
}

// It crashes while the metadata is written: the fragments stay, for who finds the metadata.
func TestFragmentsOfUnknownOutcomeStay(t *testing.T) {
	w := newWorld(t, 5, 3)
	w.passes = func(_, to view.MemberID, m *peerv1.Message) bool {
		return m.Gus == nil || m.Kind == peerv1.Kind_GUS_WRITE && to == 5
	}
	value := large(500, 1)
	w.submit(1, register.Operation{Kind: register.Write, Key: "k", Value: value}, 0)
	w.kill(1)
	w.passes = func(from, to view.MemberID, _ *peerv1.Message) bool { return from != 5 && to != 5 }
	w.pass(retry)
	w.revive(1)
	w.pass(60 * retry)
	w.passes = nil
	w.expect(5, "k", value)
	w.write(2, "k", large(500, 2))
	w.pass(60 * retry)
	if _, records := w.fragments(); records != 5 {
		t.Errorf("%d fragments are left, of one value", records)
	}
}

// A read whose value is replaced, and its fragments gone, before it has fetched them reads what is new.
func TestAReadOfWhatIsOverReadsAgain(t *testing.T) {
	w := newWorld(t, 5, 3)
	w.write(1, "k", large(500, 1))
	slow := true
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool { return !slow || from != 5 || m.Fragment == nil }
	h := w.submit(5, register.Operation{Kind: register.Read, Key: "k"}, 0)
	w.kill(5) // it pauses
	w.write(2, "k", large(500, 2))
	w.pass(30 * retry)
	w.nodes[4].down, slow = false, false
	for id := range 5 { // and those that it asks have dropped theirs
		for key := range w.nodes[id].disk {
			if key[0] == piecesPrefix && id == 4 {
				delete(w.nodes[id].disk, key)
			}
		}
	}
	if _, done := w.results[h]; done {
		t.Fatal("it has ended")
	}
	w.pass(10 * retry)
	if r, done := w.results[h]; !done || !bytes.Equal(r.Value, large(500, 2)) || w.took[pathAgain] == 0 {
		t.Errorf("it ended: %v, with %v and %d bytes", done, r.Status, len(r.Value))
	}
}

// So does one when a member is away that could have the fragment that is short, while two keep theirs that have not
// heard.
func TestAReadDoesNotWaitForFragmentsOfWhatIsOver(t *testing.T) { readOfWhatIsOver(t, false) }

func readOfWhatIsOver(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	deaf(w, 5)
	w.write(1, "k", large(500, 1))
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		if m.Fragment != nil {
			return to != 5 || m.Kind != peerv1.Kind_FRAGMENT_FETCHED
		}
		return true
	}
	h := w.submit(5, register.Operation{Kind: register.Read, Key: "k"}, 0)
	fetched := w.passes
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		return fetched(from, to, m) && from != 3 && from != 4 && to != 3 && to != 4
	}
	w.write(2, "k", []byte("it is small now"))
	w.pass(30 * retry)
	if members, _ := w.fragments(); members != 2 {
		t.Fatalf("%d members have fragments", members)
	}
	w.kill(1)
	w.passes = nil
	w.pass(10 * retry)
	if r, done := w.results[h]; done == wrong || done && string(r.Value) != "it is small now" {
		t.Errorf("mistake %v: it ended: %v, with %v and %d bytes", wrong, done, r.Status, len(r.Value))
	}
}

// However fast values are replaced, those that are over go as fast.
func TestFragmentsGoAsFastAsTheyCome(t *testing.T) {
	w := newWorld(t, 5, 3)
	const each, steps = 50, 120 // 200 in a retry time, which is more than are looked at while nothing goes
	most := 0
	for range steps {
		for i := range each {
			w.write(1, "k", large(101, byte(i)))
		}
		w.pass(retry / 4)
		_, records := w.fragments()
		most = max(most, records/5)
	}
	// Each stays for four retry times, and until it is looked at then.
	if bound := 3 * 4 * 4 * each; most > bound {
		t.Errorf("up to %d fragments of %d were with a member, want at most %d", most, each*steps, bound)
	}
	t.Logf("up to %d fragments of %d were with a member", most, each*steps)
}
