package decide

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/view"
)

// split has a cluster split its next partition, and follows that to the end: what is said of it, line by line.
func split(t *testing.T, s *curpScene) (said []string) {
	t.Helper()
	text, err := s.record.Split()
	if err != nil {
		t.Fatal(err)
	}
	said = append(said, text)
	child := s.record.Wanted - 1
	for range 10 {
		for _, serves := range []bool{false, true} {
			s.say(serves)
			text, done := s.now().Splitting(child, func(int) bool { return serves })
			if text != said[len(said)-1] {
				said = append(said, text)
			}
			if done {
				return said
			}
		}
		if next := s.step(); next.View.Epoch == 0 {
			t.Fatalf("nothing is done after %q: %+v", said, next)
		}
	}
	t.Fatalf("the split has no end: %q", said)
	return nil
}

// Partitions are split in turn, and what was split off can be moved and given up by its number like the others.
func TestSplit(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	want := []string{
		"partition 0 is split: half of its keys go to partition 3",
		"partition 0: a to serve it; then half of its keys go to partition 3",
		"partition 0: the members to settle, and its witnesses to go; then half of its keys go to partition 3",
		"partition 0: its backups to hold all that a has; then half of its keys go to partition 3",
		"partition 0: a to serve it; then half of its keys go to partition 3",
		"partition 0: the members to settle in the view of epoch 3; then half of its keys go to partition 3",
		"partition 3: a to take it over with half of the keys",
		"partition 3: a serves it",
	}
	if said := split(t, s); !slices.Equal(said, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	v := s.record.View
	if v.Founded != 3 || len(v.Partitions) != 4 || v.Partitions[3].Split != v.Epoch || s.record.Shards != 3 {
		t.Errorf("%+v", v)
	}
	if said := split(t, s); said[0] != "partition 1 is split: half of its keys go to partition 4" {
		t.Errorf("then %s", said[0])
	}
	text, err := s.record.Move("4", "c")
	if err != nil || text != "partition 4 moves to c" {
		t.Errorf("%q: %v", text, err)
	}
	if text, _ := s.now().Splitting(4, func(int) bool { return true }); text != "partition 4: b serves it until a "+
		"member at c does" {
		t.Errorf("%q", text)
	}
	for _, number := range []string{"5", "-1"} {
		if _, err := s.record.Move(number, "c"); err == nil ||
			!strings.Contains(err.Error(), "they are numbered from 0 to 4") {
			t.Errorf("move %s: %v", number, err)
		}
		if _, err := s.record.Numbers(number); err == nil ||
			!strings.Contains(err.Error(), "they are numbered from 0 to 4") {
			t.Errorf("recover all %s: %v", number, err)
		}
	}
	s.dead = []view.MemberID{1, 3}
	s.say(true)
	if d, err := s.now().Rescue([]int{0, 3}); err != nil || !slices.Equal(d.Behind, []int{0, 3}) ||
		d.View.Founded != 3 {
		t.Errorf("%+v: %v", d, err)
	}
}

// While members change, and while it lacks a backup, a partition is not split, and that is said.
func TestWhatASplitWaitsFor(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	if _, err := s.record.Split(); err != nil {
		t.Fatal(err)
	}
	r := &s.record
	whole := r.View
	for want, change := range map[string]func(v *view.View){
		"the change of members to be over": func(v *view.View) { v.Members[2].Leaving = true },
		"a to recover it": func(v *view.View) {
			v.Partitions[0].Formers = []view.Former{{Term: 1, Master: 1}}
		},
		"a member to be its backup, of which it has 0 and should have 1": func(v *view.View) {
			v.Partitions[0].Backups = nil
		},
		"a member at a to be its master in place of b": func(v *view.View) { v.Partitions[0].Master = 3 },
	} {
		r.View = whole
		r.View.Members, r.View.Partitions = slices.Clone(whole.Members), slices.Clone(whole.Partitions)
		change(&r.View)
		text, done := s.now().Splitting(3, func(int) bool { return true })
		if text != "partition 0: "+want+"; then half of its keys go to partition 3" || done {
			t.Errorf("%q, want %q", text, want)
		}
		if r.View.Joint() {
			continue // the manager finishes the change
		}
		s.say(false)
		if next := s.step(); len(next.View.Partitions) > 3 {
			t.Errorf("%s, and yet it is split: %v", want, next.Because)
		}
	}
	r.View = whole
	s.dead = []view.MemberID{3}
	s.say(true)
	s.reports[1].Member.Partitions[0].CaughtUp = nil
	if next := s.step(); len(next.View.Partitions) > 3 || next.View.Epoch > 0 && next.View.Partitions[0].Term > 1 ||
		!strings.Contains(next.Waits,
			"partition 0: its backups b are not all heard, or are cut off from its master a, and nobody else has its "+
				"whole state") {
		t.Errorf("its backup is lost, and nobody else has its state: %+v", next)
	}
	if text, _ := s.now().Splitting(3, func(int) bool { return false }); text != "partition 0: a to serve it; then "+
		"half of its keys go to partition 3" {
		t.Errorf("the table says %q", text)
	}
}

func TestWhatSplitRefuses(t *testing.T) {
	scene := func() *record.Record {
		s := newCURPScene(t)
		s.views(1, false, 1, 3, 5)
		return &s.record
	}
	going := scene()
	if _, err := going.Split(); err != nil {
		t.Fatal(err)
	}
	full := scene()
	full.View.Founded, full.Wanted = 3, v1alpha1.MaxShards
	for len(full.View.Partitions) < v1alpha1.MaxShards {
		full.View.Partitions = append(full.View.Partitions, full.View.Partitions[0])
	}
	founding, plain := scene(), record.New(manifest(t, threeSites))
	founding.View = view.View{}
	for want, r := range map[string]*record.Record{
		"protocol Gryff has no masters":                                       &plain,
		"partition 0 is being split already, and there are 3 of 4 partitions": going,
		"there are 256 partitions, and can't be more":                         full,
		"the cluster is being founded":                                        founding,
	} {
		if _, err := r.Split(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := going.Move("3", "a"); err == nil || !strings.Contains(err.Error(), "from 0 to 2") {
		t.Errorf("a partition that is not there yet is moved: %v", err)
	}
}

// Whoever raised the number of shards before the founding has the cluster founded as it was made.
func TestFoundingWithMoreShardsToCome(t *testing.T) {
	s := newCURPScene(t)
	s.record.Wanted = 5
	s.views(1, false, 1, 3, 5)
	if n := len(s.record.View.Partitions); n != 3 {
		t.Errorf("founded with %d partitions", n)
	}
	if p := s.now().placement(s.record.View); p.Partitions != 5 || len(p.Homes) != 5 {
		t.Errorf("%+v", p)
	}
}
