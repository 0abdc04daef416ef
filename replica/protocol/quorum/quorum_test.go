package quorum_test

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// config is that of member 1 of n, with the others in the order of their IDs.
func config(n int) *protocol.Config {
	c := &protocol.Config{Self: 1, Boot: 1, Retry: time.Second, View: view.View{Cluster: "test", Epoch: 1}}
	for i := range n {
		id := view.MemberID(i + 1)
		c.View.Members = append(c.View.Members, view.Member{ID: id})
		if id != c.Self {
			c.Nearest = append(c.Nearest, id)
		}
	}
	return c
}

func TestIncarnationsOnlyGrows(t *testing.T) {
	r := quorum.FirstDisks(config(3).View)
	if r.Vector() != nil {
		t.Errorf("the vector of first disks is %v, want none", r.Vector())
	}
	for _, step := range []struct {
		id          view.MemberID
		incarnation view.Incarnation
	}{{2, 1}, {2, 3}, {2, 3}, {2, 2}, {9, 5}} {
		r.Learn(step.id, step.incarnation)
	}
	if r.Of(1) != 1 || r.Of(2) != 3 || r.Of(9) != 0 {
		t.Errorf("incarnations are %d, %d, and %d of a stranger; want 1, 3, 0", r.Of(1), r.Of(2), r.Of(9))
	}
	for _, step := range []struct {
		vector, want []uint32
	}{
		{nil, []uint32{1, 3, 1}},
		{[]uint32{1, 2, 1}, []uint32{1, 3, 1}},
		{[]uint32{0, 0, 2}, []uint32{1, 3, 2}},
		{[]uint32{2}, []uint32{2, 3, 2}},          // short
		{[]uint32{1, 1, 1, 8}, []uint32{2, 3, 2}}, // long
	} {
		if r.Merge(step.vector); !slices.Equal(r.Vector(), step.want) {
			t.Errorf("after %v: vector %v; want %v", step.vector, r.Vector(), step.want)
		}
	}
}

func TestAnAnswerCountsOnce(t *testing.T) {
	r := quorum.FirstDisks(config(5).View)
	var p quorum.Tally
	for _, step := range []struct {
		from  view.MemberID
		first bool
		count int
	}{{2, true, 1}, {2, false, 1}, {3, true, 2}, {2, false, 2}} {
		if got := p.Answer(r, step.from); got != step.first || p.Count(r) != step.count {
			t.Errorf("an answer of %d: first %v, %d in all; want %+v", step.from, got, p.Count(r), step)
		}
	}
	p.Restart()
	if p.Count(r) != 0 || p.Answered(r, 2) {
		t.Error("answers to the question before count")
	}
}

func TestAnswersOfLostDisksDoNotCount(t *testing.T) {
	r := quorum.FirstDisks(config(5).View)
	var p quorum.Tally
	p.Answer(r, 2)
	p.Answer(r, 3)
	r.Learn(2, 2)
	if p.Count(r) != 1 || p.Answered(r, 2) || !p.Answered(r, 3) {
		t.Errorf("member 2 lost its disk, and %d answers count, want that of 3 alone", p.Count(r))
	}
	if !p.Answer(r, 2) || p.Count(r) != 2 || !p.Answered(r, 2) {
		t.Errorf("the new disk of member 2 answered, and %d answers count, want 2", p.Count(r))
	}
	r.Merge([]uint32{1, 2, 7, 1, 1})
	if p.Count(r) != 1 {
		t.Errorf("member 3's loss was learned from others, and %d answers count, want 1", p.Count(r))
	}
}

func TestThriftyThenWide(t *testing.T) {
	c := config(5)
	r := quorum.FirstDisks(c.View)
	at := func(d time.Duration) protocol.Instant { return protocol.Instant(d) }
	var p quorum.Tally
	if got := p.Ask(c, at(0), 2); !slices.Equal(got, []view.MemberID{2, 3}) || p.Wide() {
		t.Fatalf("asks %v, wide %v; want the nearest two", got, p.Wide())
	}
	p.Answer(r, 3)
	if got := p.Again(c, r, at(time.Second-1)); got != nil || p.Wide() {
		t.Errorf("asks %v before it is time", got)
	}
	if got := p.Again(c, r, at(time.Second)); !slices.Equal(got, []view.MemberID{2, 4, 5}) || !p.Wide() {
		t.Errorf("asks %v again, want all but 3", got)
	}
	if got := p.Again(c, r, at(2*time.Second-1)); got != nil {
		t.Errorf("asks %v again, too early", got)
	}
	r.Learn(3, 2) // its answer is void
	if got := p.Again(c, r, at(2*time.Second)); !slices.Equal(got, []view.MemberID{2, 3, 4, 5}) {
		t.Errorf("asks %v, want 3 as well", got)
	}
	p.Restart()
	if p.Wide() {
		t.Error("the next question begins wide")
	}
}

func TestAskingEveryoneIsWide(t *testing.T) {
	for _, c := range []struct{ n, want, asked int }{{1, 0, 0}, {3, 2, 2}, {3, 9, 2}, {3, 1, 1}} {
		cfg := config(c.n)
		var p quorum.Tally
		if got := p.Ask(cfg, 0, c.want); len(got) != c.asked || p.Wide() != (c.asked == c.n-1) {
			t.Errorf("n = %d, asking %d: %v, wide %v", c.n, c.want, got, p.Wide())
		}
	}
}
