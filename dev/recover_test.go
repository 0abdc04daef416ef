package dev

import (
	"strings"
	"testing"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/view"
)

// Of three members with masters one answers: it goes on with what it holds, and of what it does not hold with what it
// has followed, or empty, by its number.
func TestRescue(t *testing.T) {
	s := newCURPScene(t)
	s.views(1, false, 1, 3, 5)
	s.say(true)
	if _, err := s.record.rescue(s.reports, nil); err == nil || !strings.Contains(err.Error(), "a quorum is left") {
		t.Errorf("%v", err)
	}
	s.dead = []view.MemberID{1, 3}
	s.say(true)
	_, err := s.record.rescue(s.reports, []int{1})
	if err == nil || err.Error() != "nobody who answers is certain to hold all of partitions 0; `restart` who held them, or have partitions 0 go on from the copy of who "+
		"followed furthest, without the latest writes that it had not heard of: `recover all 0`" {
		t.Errorf("%v", err)
	}
	const behind = "; partitions 0 go on from a copy that nobody waited for, and the latest writes that were acknowledged may be lost"
	d, err := s.record.rescue(s.reports, []int{0})
	if err != nil || d.View.Epoch != 2 || d.View.Size() != 1 || d.View.Partitions[0].Empty || d.costs() != behind {
		t.Errorf("%+v: %v", d, err)
	}
	s.reports[5].told.Partitions[0].Copying = true
	_, err = s.record.rescue(s.reports, nil)
	if err == nil || err.Error() != "nobody who answers is certain to hold all of partitions 0; `restart` who held them, or have partitions 0, of which nobody who answers has a "+
		"whole copy, begin again empty: `recover all 0`" {
		t.Errorf("%v", err)
	}
	if d, err = s.record.rescue(s.reports, []int{0}); err != nil || !d.View.Partitions[0].Empty || d.costs() != "; partitions 0 begin again empty" {
		t.Errorf("%+v: %v", d, err)
	}
	s.reports[5].told.Partitions[0].Copying = false
	five := s.reports[5]
	five.witness = nil
	s.reports[5] = five
	if d, err = s.record.rescue(s.reports, []int{0}); err != nil ||
		d.costs() != behind+"; of partitions 1 the latest writes that only lost witnesses had saved may be lost" {
		t.Errorf("%s: %v", d.costs(), err)
	}
	five.told.Digest = "another"
	if _, err = s.record.rescue(s.reports, nil); err == nil || !strings.Contains(err.Error(), "c does not hold the view of epoch 1 yet") {
		t.Errorf("%v", err)
	}
}

func TestWhatRecoverRefuses(t *testing.T) {
	c, _ := curpFounded(t)
	plain := founded(t, threeSites)
	for _, tt := range []struct {
		c    *Cluster
		line string
		want string
	}{
		{c, "recover a", "all members that are left go on: `recover all`"},
		{plain, "recover a 1", "use: recover MEMBER"},
	} {
		if _, err := NewConsole(tt.c).Execute(t.Context(), tt.line); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.line, err, tt.want)
		}
	}
	r := newRecord(manifest(t, curpThree))
	for list, want := range map[string]string{"3": `no partition "3"; they are numbered from 0 to 2`, "0,x": `no partition "x"`} {
		if _, err := r.numbers(list); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", list, err)
		}
	}
	if all, err := r.numbers("0,2"); err != nil || len(all) != 2 || all[1] != 2 {
		t.Errorf("%v: %v", all, err)
	}
}

// With masters, a member on another disk than the view names follows on it, and is no part of a quorum; without, it
// counts as soon as it votes again.
func TestWhoIsOnAnotherDiskIsNoPartOfAQuorum(t *testing.T) {
	for spec, want := range map[string]bool{curpThree: false, threeSites: true} {
		s := newCURPSceneOf(t, spec)
		s.step()
		v := s.record.View
		if v.Epoch != 1 {
			t.Fatalf("%s: the view is %+v", spec, v)
		}
		at := func(disks ...string) (all []Observation) {
			for i, disk := range disks {
				all = append(all, Observation{
					ID: v.Members[i].ID, State: Serving, Status: &adminv1.StatusResponse{Disk: disk},
				})
			}
			return all
		}
		if !reachesQuorum(v, at(v.Members[0].Disk, v.Members[1].Disk)) {
			t.Errorf("%s: two of three on their disks are no quorum", spec)
		}
		if got := reachesQuorum(v, at(v.Members[0].Disk, "another")); got != want {
			t.Errorf("%s: with a member on another disk a quorum is reached: %t", spec, got)
		}
	}
}
