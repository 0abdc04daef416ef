package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// split has a cluster split its next partition, and follows that to the end: what is said of it, line by line.
func split(t *testing.T, c *Cluster, s *curpScene) (said []string) {
	t.Helper()
	text, err := c.Split()
	if err != nil {
		t.Fatal(err)
	}
	said = append(said, text)
	s.record.Wanted = c.directory.record.Wanted
	child := s.record.Wanted - 1
	for range 10 {
		for _, serves := range []bool{false, true} {
			s.say(serves)
			text, done := s.record.splitting(child, func(int) bool { return serves })
			if text != said[len(said)-1] {
				said = append(said, text)
			}
			if done {
				c.directory.record.View = s.record.View
				return said
			}
		}
		if next := s.step(); next.view.Epoch == 0 {
			t.Fatalf("nothing is done after %q: %+v", said, next)
		}
	}
	t.Fatalf("the split has no end: %q", said)
	return nil
}

// Partitions are split in turn, and what was split off can be moved and given up by its number like the others.
func TestSplit(t *testing.T) {
	c, s := curpFounded(t)
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
	if said := split(t, c, s); !slices.Equal(said, want) {
		t.Errorf("%s\nwant\n%s", strings.Join(said, "\n"), strings.Join(want, "\n"))
	}
	v := s.record.View
	if v.Founded != 3 || len(v.Partitions) != 4 || v.Partitions[3].Split != v.Epoch || s.record.Shards != 3 {
		t.Errorf("%+v", v)
	}
	if got := c.config(c.members[0]).Shards; got != 3 {
		t.Errorf("a member is told of %d shards; its disk was founded with 3", got)
	}
	if said := split(t, c, s); said[0] != "partition 1 is split: half of its keys go to partition 4" {
		t.Errorf("then %s", said[0])
	}
	text, err := c.Move("4", "c")
	if err != nil || text != "partition 4 moves to c" {
		t.Errorf("%q: %v", text, err)
	}
	if text, _ := c.directory.record.splitting(4, func(int) bool { return true }); text != "partition 4: b serves it until a member at c does" {
		t.Errorf("%q", text)
	}
	for _, number := range []string{"5", "-1"} {
		if _, err := c.Move(number, "c"); err == nil || !strings.Contains(err.Error(), "they are numbered from 0 to 4") {
			t.Errorf("move %s: %v", number, err)
		}
		if _, err := c.directory.record.numbers(number); err == nil || !strings.Contains(err.Error(), "they are numbered from 0 to 4") {
			t.Errorf("recover all %s: %v", number, err)
		}
	}
	s.dead = []view.MemberID{1, 3}
	s.say(true)
	if d, err := s.record.rescue(s.reports, []int{0, 3}); err != nil || !slices.Equal(d.Behind, []int{0, 3}) || d.View.Founded != 3 {
		t.Errorf("%+v: %v", d, err)
	}
}

// While members change, and while it lacks a backup, a partition is not split, and that is said.
func TestWhatASplitWaitsFor(t *testing.T) {
	c, s := curpFounded(t)
	if _, err := c.Split(); err != nil {
		t.Fatal(err)
	}
	r := &c.directory.record
	whole := r.View
	for want, change := range map[string]func(v *view.View){
		"the change of members to be over": func(v *view.View) { v.Members[2].Leaving = true },
		"a to recover it":                  func(v *view.View) { v.Partitions[0].Formers = []view.Former{{Term: 1, Master: 1}} },
		"a member to be its backup, of which it has 0 and should have 1": func(v *view.View) { v.Partitions[0].Backups = nil },
		"a member at a to be its master in place of b":                   func(v *view.View) { v.Partitions[0].Master = 3 },
	} {
		r.View = whole
		r.View.Members, r.View.Partitions = slices.Clone(whole.Members), slices.Clone(whole.Partitions)
		change(&r.View)
		text, done := r.splitting(3, func(int) bool { return true })
		if text != "partition 0: "+want+"; then half of its keys go to partition 3" || done {
			t.Errorf("%q, want %q", text, want)
		}
		if s.record = *r; s.record.View.Joint() {
			continue // the manager finishes the change
		}
		s.say(false)
		if next := s.step(); len(next.view.Partitions) > 3 {
			t.Errorf("%s, and yet it is split: %v", want, next.because)
		}
	}
	r.View = whole
	s.record = *r
	s.dead = []view.MemberID{3}
	s.say(true)
	s.reports[1].told.Partitions[0].CaughtUp = nil
	if next := s.step(); len(next.view.Partitions) > 3 || next.view.Epoch > 0 && next.view.Partitions[0].Term > 1 || !strings.Contains(next.waits, "partition 0: its backups b are not all heard, or are cut off from its master a, and nobody else has its whole state") {
		t.Errorf("its backup is lost, and nobody else has its state: %+v", next)
	}
	if going := c.dividing(nil); going != "split: partition 0: a to serve it; then half of its keys go to partition 3" {
		t.Errorf("the table says %q", going)
	}
}

func TestWhatSplitRefuses(t *testing.T) {
	going, _ := curpFounded(t)
	if _, err := going.Split(); err != nil {
		t.Fatal(err)
	}
	full, _ := curpFounded(t)
	r := &full.directory.record
	r.View.Founded, r.Wanted = 3, v1alpha1.MaxShards
	for len(r.View.Partitions) < v1alpha1.MaxShards {
		r.View.Partitions = append(r.View.Partitions, r.View.Partitions[0])
	}
	founding, _ := curpFounded(t)
	founding.directory.record.View = view.View{}
	for want, c := range map[string]*Cluster{
		"protocol Gryff has no masters":                                       founded(t, threeSites),
		"partition 0 is being split already, and there are 3 of 4 partitions": going,
		"there are 256 partitions, and can't be more":                         full,
		"the cluster is being founded":                                        founding,
	} {
		if _, err := NewConsole(c).Execute(t.Context(), "split"); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := going.Move("3", "a"); err == nil || !strings.Contains(err.Error(), "from 0 to 2") {
		t.Errorf("a partition that is not there yet is moved: %v", err)
	}
}

// How many shards are wanted is in the directory: by `split`, or by a manifest that asks for more than that of an
// earlier run.
func TestShardsAreNeverFewer(t *testing.T) {
	path := t.TempDir()
	with := func(shards int) (*directory, error) {
		d, err := openDirectory(path, manifest(t, fmt.Sprintf("{protocol: CURP, shards: %d, sites: [{name: a}, {name: b}, {name: c}]}", shards)))
		if err == nil {
			err = d.save() // as the start does
		}
		return d, err
	}
	for _, tt := range []struct {
		shards, wanted int
		fails          string
	}{
		{4, 4, ""}, {3, 0, "made with shards 4, the manifest has 3"}, {6, 6, ""}, {4, 6, ""}, {6, 6, ""},
		{5, 0, "has shards 6 by now, the manifest has 5: shards are split, and never made fewer; ask for 6, or for the 4"},
	} {
		d, err := with(tt.shards)
		if tt.fails == "" && (err != nil || d.record.Shards != 4 || d.record.wanted() != tt.wanted) {
			t.Errorf("shards %d: %+v: %v", tt.shards, d, err)
		}
		if tt.fails != "" && (err == nil || !strings.Contains(err.Error(), tt.fails)) {
			t.Errorf("shards %d: %v, want %q", tt.shards, err, tt.fails)
		}
	}
	if data, err := os.ReadFile(filepath.Join(path, recordFile)); err != nil || !strings.Contains(string(data), `"wanted": 6`) {
		t.Errorf("%s: %v", data, err)
	}
	// Whoever raised it before the founding has the cluster founded as it was made.
	s := newCURPScene(t)
	s.record.Wanted = 5
	s.views(1, false, 1, 3, 5)
	if n := len(s.record.View.Partitions); n != 3 {
		t.Errorf("founded with %d partitions", n)
	}
	if p := s.record.placement(s.record.View); p.Partitions != 5 || len(p.Homes) != 5 {
		t.Errorf("%+v", p)
	}
}

// The bound is that of manifests.
func TestMostPartitions(t *testing.T) {
	spec := "{protocol: CURP, shards: %d, sites: [{name: a}, {name: b}, {name: c}]}"
	most := manifest(t, fmt.Sprintf(spec, v1alpha1.MaxShards))
	if errs := most.Validate(); len(errs) > 0 {
		t.Error(errs)
	}
	n := *most.Spec.Shards + 1
	most.Spec.Shards = &n
	if len(most.Validate()) == 0 {
		t.Errorf("a manifest may ask for %d shards", n)
	}
}

// The table has a line for a partition that is new, and goes on to tell how fast the updates of all are.
func TestTableOfPartitionsThatGrow(t *testing.T) {
	c, s := curpFounded(t)
	rates, now := NewRates(), time.Now()
	rows := func(fast ...uint64) []string {
		status := &adminv1.StatusResponse{}
		for i, p := range s.record.View.Partitions {
			status.Partitions = append(status.Partitions, &adminv1.Part{Term: p.Term, Fast: fast[min(i, len(fast)-1)], Role: adminv1.PartRole_MASTER, Serving: true})
		}
		now = now.Add(time.Second)
		return rates.Partitions(s.record.View, s.record.label, []Observation{{ID: 1, Label: "a", PID: 7, Status: status}}, 0, now)
	}
	rows(5)
	if got := rows(9); len(got) != 4 || !strings.HasSuffix(got[1], "100%") {
		t.Errorf("%q", got)
	}
	split(t, c, s)
	if got := rows(10); len(got) != 5 || !strings.HasPrefix(got[4], "3          serving  a") {
		t.Errorf("%q", got)
	}
	if got := rows(14); len(got) != 5 || !strings.HasSuffix(got[4], "100%") {
		t.Errorf("%q", got)
	}
}
