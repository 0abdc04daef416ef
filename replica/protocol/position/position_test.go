package position

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// TestLearnIsInNoOrder has several hear the same positions in different orders, and twice: all know the same of starts,
// and of batches no less than was heard.
func TestLearnIsInNoOrder(t *testing.T) {
	draw := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		heard := make([]Position, 1+draw.IntN(4))
		most := Position{}
		for i := range heard {
			heard[i] = Position{
				Incarnation: view.Incarnation(1 + draw.IntN(2)),
				Start:       uint64(1+draw.IntN(3))<<32 | uint64(1+draw.IntN(3)),
				Batches:     draw.Uint64N(4), Before: draw.Uint64N(4),
			}
			most.Incarnation = max(most.Incarnation, heard[i].Incarnation)
		}
		var known [2]Position
		for i, order := range [][]int{draw.Perm(len(heard)), draw.Perm(len(heard))} {
			for _, at := range append(order, order[0]) {
				known[i].Learn(heard[at])
			}
		}
		if known[0].Start != known[1].Start ||
			known[0].Incarnation != most.Incarnation || known[1].Incarnation != most.Incarnation {
			t.Fatalf("of %+v one knows %+v and one %+v", heard, known[0], known[1])
		}
		for _, p := range heard {
			if p.Incarnation == most.Incarnation && max(p.Batches, p.Before) > max(known[0].Batches, known[0].Before) {
				t.Fatalf("of %+v one knows %+v", heard, known[0])
			}
		}
	}
}

// TestABootThatIsUsedTwiceIsFound has a disk go back to before its last start, without that it lacks a batch: whatever
// number the process of that start had, the next one of the same boot is on an older copy, also where its question is
// what the others have heard of last.
func TestABootThatIsUsedTwiceIsFound(t *testing.T) {
	for _, c := range []struct {
		name        string
		before, now uint64 // the processes' own numbers
		boot        uint64 // of the one before; this is 7
		lost        bool
	}{
		{"an earlier boot", 5, 5, 6, false},
		{"this process", 5, 5, 7, false},
		{"another process, a lower number", 4, 5, 7, true},
		{"another process, a higher number", 6, 5, 7, true},
		{"a later boot", 4, 5, 8, true},
	} {
		v := view.View{Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
		effects := &protocol.Effects{}
		d := &Disks{
			Owner: Owner{
				Config: &protocol.Config{Self: 1, View: v, Boot: 7, Nonce: c.now, Count: func(string) {}},
				Roster: quorum.FirstDisks(v), Effects: effects,
			},
			batches: 3,
		}
		d.start = startOf(d.Config)
		heard := Position{Incarnation: d.Roster.Of(1), Start: c.boot<<32 | c.before, Batches: 3}
		asked := heard // what a member knows once this process has asked it
		asked.Learn(Position{Incarnation: heard.Incarnation, Start: d.start, Batches: 3})
		for _, p := range []Position{heard, asked} {
			effects.Fault = nil
			d.Compare(2, p)
			if (effects.Fault != nil) != c.lost {
				t.Errorf("%s: of %+v the member says %v", c.name, p, effects.Fault)
			}
		}
	}
}

// TestAStartIsNotedAtOnce has a member hear of another one's batches, and then of a start: the first is written after
// Suspect, or with a batch that there is anyway, the second with what comes next.
func TestAStartIsNotedAtOnce(t *testing.T) {
	v := view.View{Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	d := &Disks{
		Owner: Owner{
			Config: &protocol.Config{Self: 1, View: v, Suspect: time.Second, Count: func(string) {}},
			Roster: quorum.FirstDisks(v), Effects: &protocol.Effects{}, HeardKey: []byte("heard"),
			Journal: protocol.NewJournal(protocoltest.Disk{}),
		},
		of: map[view.MemberID]Position{},
	}
	noted := func() bool {
		d.Note()
		return d.Journal.Take().Sequence != 0
	}
	d.Tick(protocol.Instant(time.Minute))
	for i, c := range []struct {
		what    string
		start   uint64
		batches uint64
		noted   bool
	}{
		{"a first start", 7, 3, true},
		{"batches", 7, 4, false},
		{"another start", 8, 4, true},
		{"what is known", 8, 4, false},
		{"batches of that", 8, 5, false},
		{"a start beside batches that wait", 9, 5, true},
	} {
		d.learn(2, Position{Incarnation: 1, Start: c.start << 32, Batches: c.batches})
		if got := noted(); got != c.noted {
			t.Errorf("%d: %s is noted: %v", i, c.what, got)
		}
	}
}
