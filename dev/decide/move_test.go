package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

func TestMove(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	for _, tt := range []struct{ number, site, want string }{
		{"3", "a", `no partition "3"; they are numbered from 0 to 2`},
		{"x", "a", `no partition "x"`},
		{"1", "d", "no member is at site \"d\"; there are a, b, c, or `default`"},
	} {
		if _, err := s.record.Move(tt.number, tt.site); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s to %s: %v, want %s", tt.number, tt.site, err, tt.want)
		}
	}
	text, err := s.record.Move("1", "c")
	if err != nil || text != "partition 1 moves to c" {
		t.Fatalf("%q: %v", text, err)
	}
	var said []string
	for range 10 {
		s.say(true)
		next := s.step()
		if next.View.Epoch == 0 {
			break
		}
		said = append(said, first(s.now().Moving(1, true)))
	}
	p := s.record.View.Partitions[1]
	if p.Master != 5 || len(p.Backups) != 1 || len(p.Formers) > 0 || s.record.View.Partitions[0].Term != 1 {
		t.Errorf("%+v", s.record.View.Partitions)
	}
	want := []string{
		"a backup at c has its state; b serves it still", "a backup at c has its state; b serves it still",
		"c serves it", "c serves it",
	}
	for i := range want {
		want[i] = "partition 1: " + want[i]
	}
	if !slices.Equal(said, want) {
		t.Errorf("%q, want %q", said, want)
	}
	if text, err = s.record.Move("1", "default"); err != nil ||
		text != "partition 1 moves to where it is by default, if it is not there" ||
		fmt.Sprint(s.record.Moved) != "[ ]" {
		t.Errorf("%q, %q: %v", text, s.record.Moved, err)
	}
}

// A partition waits for a member at its new home that has its state, which becomes a backup and then the master; it
// always has a backup.
func TestMoveToALearner(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	if text, err := s.record.Move("0", "c"); err != nil || text != "partition 0 moves to c" {
		t.Fatalf("%q: %v", text, err)
	}
	s.say(true)
	s.reports[1].Member.Partitions[0].CaughtUp = nil
	s.waits("partition 0: member c, which is to be its master, is fetching its state")
	said := []string{first(s.now().Moving(0, true))}
	for range 10 {
		s.say(true)
		if next := s.step(); next.View.Epoch == 0 {
			break
		}
		said = append(said, first(s.now().Moving(0, true))+": "+s.partition(0))
	}
	want := []string{
		"partition 0: it waits for a member at c to have its state; a serves it meanwhile",
		"partition 0: a backup at c has its state; a serves it still: 2 a [c] [] after 1",
		"partition 0: a backup at c has its state; a serves it still: 2 a [c] []",
		"partition 0: c serves it: 4 c [a] [a/witness] after 2",
		"partition 0: c serves it: 4 c [a] [a/witness]",
	}
	if !slices.Equal(said, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
}

func first(text string, _ bool) string { return text }
