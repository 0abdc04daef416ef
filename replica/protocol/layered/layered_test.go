package layered

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

func TestAnyFragmentsRestoreAValue(t *testing.T) {
	members := view.View{}
	for i := range 7 {
		members.Members = append(members.Members, view.Member{ID: view.MemberID(i + 1)})
	}
	for k := 1; k <= 5; k++ {
		c, err := newCode(k, members)
		if err != nil {
			t.Fatal(err)
		}
		for _, length := range []int{1, 2, k, 99, 1000, 4097} {
			value := large(length, byte(k))
			before := bytes.Clone(value)
			all, err := c.encode(value)
			if err != nil || !bytes.Equal(value, before) {
				t.Fatalf("k = %d: %v, or the value was changed", k, err)
			}
			for set := range 1 << 7 {
				pieces := map[uint32][]byte{}
				for i := range uint32(7) {
					if set&(1<<i) != 0 && len(pieces) < k {
						pieces[i] = all[i]
					}
				}
				got, err := c.restore(pieces, length)
				if enough := len(pieces) == k; (err == nil) != enough || enough && !bytes.Equal(got, value) {
					t.Fatalf("k = %d, %d bytes, fragments %b: %v", k, length, set, err)
				}
				for i := range uint32(7) {
					if f, err := c.rebuild(pieces, i); len(pieces) == k && (err != nil || !bytes.Equal(f, all[i])) {
						t.Fatalf("k = %d: fragment %d of %b: %v", k, i, set, err)
					}
				}
			}
		}
	}
}

// A fragment is that of a member's ID, however many members there are.
func TestFragmentsStayWhatTheyAreWhenMembersCome(t *testing.T) {
	few, err := newCode(3, view.View{Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4}, {ID: 5}}})
	if err != nil {
		t.Fatal(err)
	}
	more, err := newCode(3, view.View{Members: []view.Member{{ID: 2}, {ID: 4}, {ID: 200}}})
	if err != nil {
		t.Fatal(err)
	}
	a, _ := few.encode(large(1000, 1))
	b, _ := more.encode(large(1000, 1))
	for i := range a {
		if !bytes.Equal(a[i], b[i]) {
			t.Errorf("fragment %d differs", i)
		}
	}
	got, err := few.restore(map[uint32][]byte{1: b[1], 3: b[3], 4: b[4]}, 1000)
	if err != nil || !bytes.Equal(got, large(1000, 1)) {
		t.Errorf("%v", err)
	}
	if _, err := newCode(3, view.View{Members: []view.Member{{ID: 257}}}); err == nil || !strings.Contains(err.Error(), "up to 256") {
		t.Errorf("member 257: %v", err)
	}
}

func TestValuesAreNeverTakenForMetadata(t *testing.T) {
	d := metadata{name{register.NewWriter(3, 2, 1), 9}, 12345, sumOf([]byte("x"))}
	if got, ok := reference(d.encode()); !ok || got != d {
		t.Errorf("%+v, %v", got, ok)
	}
	for _, v := range []register.Value{nil, {}, {marker}, {marker, isName}, {marker, isEscaped}, d.encode(), []byte("plain")} {
		inside := escape(v)
		if _, ok := reference(inside); ok {
			t.Errorf("%q is taken for metadata", v)
		}
		if !unescape(inside).Equal(v) {
			t.Errorf("%q came back as %q", v, unescape(inside))
		}
	}
}

func TestLargeAndSmallValues(t *testing.T) {
	for n, k := range map[int]int{3: 1, 5: 3, 7: 5} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			w := newWorld(t, n, k)
			for i, value := range [][]byte{large(100, 1), large(101, 2), {}, large(5000, 3), nil, {marker, isName}} {
				at := view.MemberID(i%n + 1)
				r := w.write(at, "k", value)
				trips := 1
				if len(value) > 100 {
					trips = 2
				}
				if r.RoundTrips != trips {
					t.Errorf("a write of %d bytes took %d round trips, want %d", len(value), r.RoundTrips, trips)
				}
				for id := range view.MemberID(n) {
					if r := w.expect(id+1, "k", value); r.RoundTrips > trips {
						t.Errorf("a read of %d bytes took %d round trips, want %d", len(value), r.RoundTrips, trips)
					}
				}
			}
			for _, nd := range w.nodes {
				if nd.Pending() != 0 {
					t.Errorf("member %d has %d operations", nd.id, nd.Pending())
				}
			}
		})
	}
}

// The metadata waits for k + f members, and leaves after what the writer's own disk has to know.
func TestMetadataWaitsForFragments(t *testing.T) { metadataWaits(t, false) }

func metadataWaits(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	written := false
	w.passes = func(from, to view.MemberID, m *peerv1.Message) bool {
		written = written || m.Kind == peerv1.Kind_GUS_WRITE
		return to != 4 && to != 5 || m.Fragment == nil // three of five get their fragments
	}
	op := register.Operation{Kind: register.Write, Key: "k", Value: large(500, 1)}
	h := w.submit(1, op, protocol.Instant(3*retry))
	if written != wrong {
		t.Fatalf("the metadata was written: %v", written)
	}
	w.pass(4 * retry)
	if r := w.results[h]; !wrong && (r.Status != register.Unavailable || !strings.Contains(r.Message, "3 + 1")) {
		t.Errorf("it ended with %+v", r)
	}
}

func TestMetadataLeavesWhenItIsNoted(t *testing.T) { metadataLeaves(t, false) }

func metadataLeaves(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	nd := w.nodes[0]
	op := register.Operation{Kind: register.Write, Key: "k", Value: large(500, 1)}
	nd.Submit(protocol.Request{Handle: 1, Operation: op})
	w.turn(nd)
	early, all := 0, 0
	for _, f := range w.flying {
		w.nodes[f.to-1].Receive(f.from, f.message)
		for _, answer := range w.nodes[f.to-1].Ready().SendAfterPersist {
			nd.Receive(f.to, answer.Message)
		}
		e := nd.Ready()
		for _, s := range e.Send {
			if s.Message.Gus != nil {
				early++
			}
		}
		all += len(e.Send) + len(e.SendAfterPersist)
	}
	if (early > 0) != wrong || all == 0 {
		t.Errorf("mistake %v: %d of %d messages left before what they tell of was durable", wrong, early, all)
	}
}

func TestOneMemberIsLost(t *testing.T) {
	w := newWorld(t, 5, 3)
	value := large(10_000, 1)
	w.write(1, "k", value)
	for id := range view.MemberID(5) {
		w.kill(id + 1)
		w.expect(id%4+1+boolean(id%4 == id), "k", value)
		w.revive(id + 1)
		w.pass(retry)
	}
	w.kill(2)
	value = large(20_000, 2)
	w.write(1, "k", value) // four have fragments
	w.revive(2)
	w.expect(2, "k", value)
	w.kill(3)
	w.expect(2, "k", value)
}

func boolean(b bool) view.MemberID {
	if b {
		return 1
	}
	return 0
}

// One disk after the other is lost, all five in the end: each member rebuilds its fragment before it votes.
func TestLostDisksAreRebuilt(t *testing.T) {
	w := newWorld(t, 5, 3)
	value := large(3000, 1)
	w.kill(5)
	w.write(1, "k", value)
	w.revive(5)
	for id := range view.MemberID(5) {
		w.wipe(id + 1)
		w.pass(10 * retry)
		if nd := w.nodes[id]; !nd.Voter() {
			t.Fatalf("member %d does not vote", id+1)
		}
		w.expect(id+1, "k", value)
	}
	if members, _ := w.fragments(); members != 5 {
		t.Errorf("%d members have fragments", members)
	}
}

// What a state transfer did not bring is asked for, before the member votes.
func TestANewcomerVotesWithItsFragments(t *testing.T) { newcomerVotes(t, false) }

func newcomerVotes(t *testing.T, wrong bool) {
	t.Helper()
	w := newWorld(t, 5, 3)
	w.write(1, "k", large(500, 1))
	w.passes = func(_, _ view.MemberID, m *peerv1.Message) bool {
		return m.Fragment == nil || m.Kind != peerv1.Kind_FRAGMENT_FETCHED
	}
	strip(w, 2)
	w.wipe(2)
	w.pass(6 * retry)
	if w.nodes[1].Voter() != wrong {
		t.Errorf("mistake %v: it votes: %v", wrong, w.nodes[1].Voter())
	}
	w.passes = nil
	w.pass(6 * retry)
	if members, _ := w.fragments(); members != 5 || !w.nodes[1].Voter() {
		t.Errorf("mistake %v: %d members have fragments, and it votes: %v", wrong, members, w.nodes[1].Voter())
	}
}

// With and without fragments, of a write of 100 kB: what leaves members for it, and what each of them stores at rest.
func TestBytes(t *testing.T) {
	const length = 100_000
	for _, c := range []struct{ n, k int }{{5, 3}, {7, 3}, {7, 5}} {
		sent, stored, read := [2]int{}, [2]int{}, [2]int{}
		for i, k := range []int{0, c.k} {
			w := newWorld(t, c.n, k)
			w.pass(retry)
			w.bytes = 0
			w.write(1, "k", large(length, 1))
			sent[i], w.bytes = w.bytes, 0
			w.expect(2, "k", large(length, 1))
			read[i] = w.bytes
			for _, nd := range w.nodes {
				for key, value := range nd.disk { // order is irrelevant: a sum
					stored[i] += len(key) + len(value)
				}
			}
		}
		whole, part := float64(c.n-1), float64(c.n-1)/float64(c.k)
		if f := float64(sent[0]) / length; f < whole || f > 1.01*whole {
			t.Errorf("n = %d: a value is sent %.2f times whole, want %.2f", c.n, f, whole)
		}
		if f := float64(sent[1]) / length; f < part || f > 1.02*part {
			t.Errorf("n = %d, k = %d: it is sent %.2f times as fragments, want %.2f", c.n, c.k, f, part)
		}
		t.Logf("n = %d, k = %d, %d bytes: sent for a write %d whole, %d as fragments; stored by each member %d, %d; sent for a read %d, %d",
			c.n, c.k, length, sent[0], sent[1], stored[0]/c.n, stored[1]/c.n, read[0], read[1])
	}
}

// What is on a disk is not read by another code than it was written with.
func TestACodeIsForGood(t *testing.T) {
	for _, c := range []struct {
		before, after int
		want          string
	}{
		{3, 3, ""}, {0, 0, ""},
		{3, 2, "[3] fragments restore a value, and the configuration has 2"},
		{3, 0, "[3] fragments restore a value, and the configuration has 0"},
		{0, 3, "this disk was written without erasureCoding"},
	} {
		w := newWorld(t, 5, c.before)
		w.write(1, "k", large(500, 1))
		w.data = c.after
		nd := w.nodes[0]
		err := w.begin(nd, false)
		if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) {
			t.Errorf("from %d to %d: %v", c.before, c.after, err)
		}
	}
}
