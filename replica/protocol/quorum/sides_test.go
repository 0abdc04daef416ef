package quorum_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

type ids = []view.MemberID

// change is a view: members that stay, leave and join, in this order, as member 1 or the first one sees it.
func change(stay, leave, join ids) *protocol.Config {
	c := &protocol.Config{Retry: time.Second, View: view.View{Cluster: "test", Epoch: 2}}
	for _, id := range stay {
		c.View.Members = append(c.View.Members, view.Member{ID: id})
	}
	for _, id := range leave {
		c.View.Members = append(c.View.Members, view.Member{ID: id, Leaving: true})
	}
	for _, id := range join {
		c.View.Members = append(c.View.Members, view.Member{ID: id, Joining: true})
	}
	c.Self = c.View.Members[0].ID
	for _, m := range c.View.Members[1:] {
		c.Nearest = append(c.Nearest, m.ID)
	}
	return c
}

func TestQuorums(t *testing.T) {
	plain3, plain5 := change(ids{1, 2, 3}, nil, nil), change(ids{1, 2, 3, 4, 5}, nil, nil)
	grows := change(ids{1, 2, 3}, nil, ids{4, 5})   // 3 -> 5
	shrinks := change(ids{1, 2, 3}, ids{4, 5}, nil) // 5 -> 3
	swaps := change(ids{1, 2}, ids{3}, ids{4})      // 3 -> 3
	moves := change(nil, ids{1, 2, 3}, ids{4, 5, 6})
	founds := change(ids{1}, nil, ids{2, 3}) // 1 -> 3
	for _, c := range []struct {
		name     string
		config   *protocol.Config
		answered ids
		lost     ids // have another disk since
		also     view.MemberID

		quorum, fast, meets bool
	}{
		{"nobody of 3", plain3, nil, nil, 0, false, false, false},
		{"oneself of 3", plain3, nil, nil, 1, false, false, false},
		{"2 of 3", plain3, ids{2}, nil, 1, true, true, true},
		{"2 others of 3", plain3, ids{2, 3}, nil, 0, true, true, true},
		{"oneself counts once", plain3, ids{1}, nil, 1, false, false, false},
		{"a lost disk of 3", plain3, ids{2}, ids{2}, 1, false, false, false},
		{"a lost disk beside another", plain3, ids{2, 3}, ids{2}, 1, true, true, true},
		{"a stranger", plain3, ids{9}, nil, 1, false, false, false},
		{"a stranger also", plain3, ids{2}, nil, 9, false, false, false},
		{"3 of 5", plain5, ids{2, 3}, nil, 1, true, false, true},
		{"4 of 5", plain5, ids{2, 3, 4}, nil, 1, true, true, true},
		{"4 of 5 with a lost disk", plain5, ids{2, 3, 4}, ids{4}, 1, true, false, true},
		{"1 of 1", change(ids{1}, nil, nil), nil, nil, 1, true, true, true},
		{"2 of 2", change(ids{1, 2}, nil, nil), ids{2}, nil, 1, true, true, true},
		{"1 of 2", change(ids{1, 2}, nil, nil), nil, nil, 1, false, false, true},
		{"3 of 4", change(ids{1, 2, 3, 4}, nil, nil), ids{2, 3}, nil, 1, true, true, true},
		{"2 of 4", change(ids{1, 2, 3, 4}, nil, nil), ids{2}, nil, 1, false, false, true},

		{"before alone", grows, ids{2}, nil, 1, false, false, false},
		{"after alone", grows, ids{4, 5}, nil, 1, false, false, false},
		{"both", grows, ids{2, 4}, nil, 1, true, false, true},
		{"all of before are a majority after", grows, ids{2, 3}, nil, 1, true, false, true},
		{"all", grows, ids{2, 3, 4, 5}, nil, 1, true, false, true},
		{"a lost disk that joins", grows, ids{2, 4}, ids{4}, 1, false, false, false},

		{"those that stay", shrinks, ids{2}, nil, 1, false, false, false},
		{"with one that leaves", shrinks, ids{2, 4}, nil, 1, true, false, true},
		{"those that leave", shrinks, ids{4, 5}, nil, 1, false, false, false},
		{"all that stay", shrinks, ids{2, 3}, nil, 1, true, false, true},
		{"a lost disk that stays", shrinks, ids{2, 4, 5}, ids{2}, 1, false, false, false},

		{"a member of both sides", swaps, ids{2}, nil, 1, true, false, true},
		{"one of each side", swaps, ids{3, 4}, nil, 1, true, false, true},
		{"one that leaves", swaps, ids{3}, nil, 1, false, false, false},
		{"one that joins", swaps, ids{4}, nil, 1, false, false, false},
		{"a lost disk of both sides", swaps, ids{2, 3}, ids{2}, 1, false, false, false},

		{"two that leave", moves, ids{2}, nil, 1, false, false, false},
		{"and one that joins", moves, ids{2, 4}, nil, 1, false, false, false},
		{"and two that join", moves, ids{2, 4, 5}, nil, 1, true, false, true},

		{"the only one before", founds, nil, nil, 1, false, false, false},
		{"and one more", founds, ids{3}, nil, 1, true, false, true},
		{"those that join", founds, ids{2, 3}, nil, 0, false, false, false},
	} {
		r := quorum.FirstDisks(c.config.View)
		var p quorum.Tally
		for _, id := range c.answered {
			p.Answer(r, id)
		}
		for _, id := range c.lost {
			r.Learn(id, 2)
		}
		q, f, m := p.Quorum(r, c.also), p.Fast(r, c.also), p.Meets(r, c.also)
		if q != c.quorum || f != c.fast || m != c.meets {
			t.Errorf("%s: quorum %t, fast %t, meets %t; want %t, %t, %t", c.name, q, f, m, c.quorum, c.fast, c.meets)
		}
		if r.HasFast() == c.config.View.Joint() {
			t.Errorf("%s: a fast path is there: %t", c.name, r.HasFast())
		}
	}
}

// What a set is by the view, it is to a tally; with all sets of members, of present and of lost disks.
func TestQuorumsAreTheView(t *testing.T) {
	for _, c := range []*protocol.Config{
		change(ids{1, 2, 3}, nil, nil), change(ids{1, 2, 3, 4, 5, 6, 7}, nil, nil),
		change(ids{1, 2, 3}, nil, ids{4, 5}),
		change(ids{1, 2, 3}, ids{4, 5}, nil), change(ids{1}, ids{2, 3}, ids{4, 5}), change(ids{1, 2}, ids{3}, ids{4}),
		change(ids{1}, nil, ids{2, 3}), change(ids{1}, ids{2, 3}, nil), change(nil, ids{1, 2, 3}, ids{4, 5, 6}),
	} {
		n := c.View.Size()
		for set := range 1 << n {
			for lost := range 1 << n {
				r := quorum.FirstDisks(c.View)
				var p quorum.Tally
				for i, m := range c.View.Members {
					if set&(1<<i) != 0 {
						p.Answer(r, m.ID)
					}
				}
				for i, m := range c.View.Members {
					if lost&(1<<i) != 0 {
						r.Learn(m.ID, 2)
					}
				}
				has := func(id view.MemberID) bool { return set&^lost&(1<<c.View.Index(id)) != 0 }
				if p.Quorum(r, 0) != c.View.Quorum(has) || p.Meets(r, 0) != c.View.Meets(has) {
					t.Fatalf("%v, answers %b, lost %b: quorum %t, meets %t", c.View.Members, set, lost,
						p.Quorum(r, 0), p.Meets(r, 0))
				}
			}
		}
	}
}

func TestWhomToAsk(t *testing.T) {
	for _, c := range []struct {
		name         string
		config       *protocol.Config
		nearest      ids // none: in the order of the view
		quorum, fast ids
	}{
		{"1", change(ids{1}, nil, nil), nil, nil, nil},
		{"2", change(ids{1, 2}, nil, nil), nil, ids{2}, ids{2}},
		{"3", change(ids{1, 2, 3}, nil, nil), ids{3, 2}, ids{3}, ids{3}},
		{"4", change(ids{1, 2, 3, 4}, nil, nil), nil, ids{2, 3}, ids{2, 3}},
		{"5", change(ids{1, 2, 3, 4, 5}, nil, nil), ids{5, 4, 3, 2}, ids{5, 4}, ids{5, 4, 3}},
		{"7", change(ids{1, 2, 3, 4, 5, 6, 7}, nil, nil), nil, ids{2, 3, 4}, ids{2, 3, 4, 5, 6}},
		{"3 to 5", change(ids{1, 2, 3}, nil, ids{4, 5}), nil, ids{2, 3}, ids{2, 3}},
		{"3 to 5, newcomers near", change(ids{1, 2, 3}, nil, ids{4, 5}), ids{4, 5, 3, 2}, ids{4, 5, 3}, ids{4, 5, 3}},
		{"5 to 3", change(ids{1, 2, 3}, ids{4, 5}, nil), nil, ids{2, 3}, ids{2, 3}},
		{"5 to 3, leaving ones near", change(ids{1, 2, 3}, ids{4, 5}, nil), ids{5, 4, 3, 2},
			ids{5, 4, 3}, ids{5, 4, 3}},
		{"3 to 3", change(ids{1, 2}, ids{3}, ids{4}), ids{4, 3, 2}, ids{4, 3}, ids{4, 3}},
		{"3 to 3, one of both sides near", change(ids{1, 2}, ids{3}, ids{4}), nil, ids{2}, ids{2}},
		{"3 to 3, all move", change(nil, ids{1, 2, 3}, ids{4, 5, 6}), nil, ids{2, 3, 4, 5}, ids{2, 3, 4, 5}},
		{"1 to 3", change(ids{1}, nil, ids{2, 3}), ids{3, 2}, ids{3}, ids{3}},
		{"3 to 1", change(ids{1}, ids{2, 3}, nil), nil, ids{2}, ids{2}},
	} {
		if c.nearest != nil {
			c.config.Nearest = c.nearest
		}
		r := quorum.FirstDisks(c.config.View)
		for what, ask := range map[string]struct {
			ask  func(*quorum.Tally) ids
			want ids
		}{
			"a quorum":      {func(p *quorum.Tally) ids { return p.AskQuorum(c.config, r, 7) }, c.quorum},
			"a fast quorum": {func(p *quorum.Tally) ids { return p.AskFast(c.config, r, 7) }, c.fast},
		} {
			var p quorum.Tally
			got := ask.ask(&p)
			if !slices.Equal(got, ask.want) {
				t.Errorf("%s: asks %v for %s, want %v", c.name, got, what, ask.want)
			}
			if p.Wide() != (len(got) == len(c.config.Nearest)) {
				t.Errorf("%s: wide is %t with %v of %v asked", c.name, p.Wide(), got, c.config.Nearest)
			}
			if again := p.Again(c.config, r, 6+protocol.Instant(time.Second)); again != nil {
				t.Errorf("%s: asks %v again before it is time", c.name, again)
			}
			if again := p.Again(c.config, r, 7+protocol.Instant(time.Second)); !slices.Equal(again, c.config.Nearest) {
				t.Errorf("%s: asks %v again, want everyone", c.name, again)
			}
		}
	}
}

// Whom a tally asks first are a quorum with oneself, once all of them have answered, and none of them could be left out
// at the far end.
func TestWhoIsAskedIsAQuorum(t *testing.T) {
	c := change(ids{1, 2}, ids{3, 4, 5}, ids{6, 7, 8})
	r := quorum.FirstDisks(c.View)
	for turn := range 7 {
		c.Nearest = append(c.Nearest[1:], c.Nearest[0])
		var asks, p quorum.Tally
		asked := asks.AskQuorum(c, r, 0)
		for k, id := range asked {
			if p.Quorum(r, c.Self) {
				t.Errorf("turn %d: %v are asked, the first %d are enough", turn, asked, k)
			}
			p.Answer(r, id)
		}
		if !p.Quorum(r, c.Self) {
			t.Errorf("turn %d: %v are asked, which is no quorum", turn, asked)
		}
	}
}

// The rest that is asked makes a quorum of those that have answered, and none of it could be left out at the far end.
func TestTheRestThatIsAsked(t *testing.T) {
	c := change(ids{1, 2, 3, 4, 5}, nil, nil)
	c.Nearest = ids{5, 4, 3, 2}
	for _, test := range []struct{ answered, want ids }{
		{nil, ids{5, 4}}, {ids{4}, ids{5}}, {ids{5}, ids{4}}, {ids{2}, ids{5}}, {ids{5, 3}, nil},
	} {
		r := quorum.FirstDisks(c.View)
		var p quorum.Tally
		for _, id := range test.answered {
			p.Answer(r, id)
		}
		if got := p.AskRest(c, r, 7); !slices.Equal(got, test.want) {
			t.Errorf("of %v %v is asked, want %v", test.answered, got, test.want)
		}
		if again := p.Again(c, r, 6+protocol.Instant(time.Second)); again != nil {
			t.Errorf("%v is asked again before it is time", again)
		}
		if again := p.Again(c, r, 7+protocol.Instant(time.Second)); len(again) != 4-len(test.answered) {
			t.Errorf("of %v %v is asked again, want all others", test.answered, again)
		}
		for _, id := range test.answered { // a disk that is lost is asked as if it had not answered
			r.Learn(id, 2)
		}
		if got := p.AskRest(c, r, 7); !slices.Equal(got, ids{5, 4}) {
			t.Errorf("when the disks of %v are lost, %v is asked", test.answered, got)
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	for name, c := range map[string]*protocol.Config{
		"plain": change(ids{1, 2, 3, 4, 5}, nil, nil), "joint": change(ids{1, 2}, ids{3, 4, 5}, ids{6, 7, 8}),
	} {
		r := quorum.FirstDisks(c.View)
		var p quorum.Tally
		for _, id := range c.Nearest {
			p.Answer(r, id)
		}
		for what, count := range map[string]func(){
			"Quorum": func() { p.Quorum(r, 1) }, "Fast": func() { p.Fast(r, 1) }, "Meets": func() { p.Meets(r, 1) },
			"AskQuorum": func() { p.AskQuorum(c, r, 0) }, "AskFast": func() { p.AskFast(c, r, 0) },
		} {
			if n := testing.AllocsPerRun(100, count); n != 0 {
				t.Errorf("%s in a %s view makes %v allocations", what, name, n)
			}
		}
	}
}

func BenchmarkQuorum(b *testing.B) {
	for _, n := range []int{3, 7} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			c := config(n)
			r := quorum.FirstDisks(c.View)
			var p quorum.Tally
			for _, id := range c.Nearest {
				p.Answer(r, id)
			}
			b.ReportAllocs()
			for b.Loop() {
				p.Quorum(r, c.Self)
			}
		})
	}
}

func TestAQuorumBeforeAChangeNeedsNobodyWhoJoins(t *testing.T) {
	for _, c := range []struct {
		name     string
		config   *protocol.Config
		answered ids
		want     bool
	}{
		{"of a plain view, oneself", change(ids{1, 2, 3}, nil, nil), nil, false},
		{"of a plain view", change(ids{1, 2, 3}, nil, nil), ids{2}, true},
		{"who joins does not count", change(ids{1, 2, 3}, nil, ids{4, 5}), ids{4, 5}, false},
		{"who joins is not needed", change(ids{1, 2, 3}, nil, ids{4, 5}), ids{2}, true},
		{"who leaves counts", change(ids{1, 2}, ids{3}, ids{4}), ids{3}, true},
	} {
		incarnations, p := quorum.FirstDisks(c.config.View), quorum.Tally{}
		for _, id := range c.answered {
			p.Answer(incarnations, id)
		}
		if got := p.QuorumBefore(incarnations, c.config.Self); got != c.want {
			t.Errorf("%s: %t", c.name, got)
		}
	}
}
