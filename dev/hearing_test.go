package dev

import (
	"fmt"
	"slices"
	"testing"
	"time"

	adminv1 "github.com/georegister/georegister/api/admin/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Whom a member hears is judged over a while, and begins anew with its process.
func TestHearing(t *testing.T) {
	h, start := newHearing(time.Second), time.Now()
	var between []view.MemberID // it names nobody
	nobody := []view.MemberID{} // it hears nobody
	for i, step := range []struct {
		after     float64 // seconds
		pid, boot int
		hears     []view.MemberID
		want      string
	}{
		{0, 7, 1, nobody, "not told"},
		{0.5, 7, 1, []view.MemberID{1, 2}, "not told"},
		{1.1, 7, 1, []view.MemberID{1, 2}, "[1 2]"},
		{1.2, 7, 1, []view.MemberID{1}, "[1 2]"},
		{2, 7, 1, []view.MemberID{1}, "[1 2]"},
		{2.1, 7, 1, []view.MemberID{1}, "[1]"},    // 2 is silent for a second
		{2.2, 7, 2, nobody, "[1]"},                // a view
		{3.1, 7, 2, nobody, "[1]"},                // it has not connected again yet
		{3.15, 7, 3, []view.MemberID{3}, "[1 3]"}, // another one: it didn't hear 1 before that
		{3.3, 7, 3, []view.MemberID{3}, "[3]"},
		{3.32, 7, 3, []view.MemberID{1}, "[1 3]"},
		{5, 7, 3, between, "[1]"}, // nobody looked for a while
		{5.5, 7, 4, []view.MemberID{2}, "[1 2]"},
		{6, 8, 5, []view.MemberID{1, 3}, "not told"},
		{7.1, 8, 5, []view.MemberID{3}, "[3]"},
	} {
		o := Observation{ID: 5, PID: step.pid, Status: &adminv1.StatusResponse{Boot: uint32(step.boot)}}
		if step.hears != nil {
			o.Status.Peers = []*adminv1.Peer{{Member: 1}, {Member: 2}, {Member: 3}}
		}
		now := start.Add(time.Duration(step.after * float64(time.Second)))
		said := h.judge(o, &membership.MemberReport{Hears: step.hears}, nil, now)
		got := "not told"
		if said != nil {
			got = fmt.Sprint(said.Hears)
		}
		if got != step.want {
			t.Errorf("step %d: %s, want %s", i, got, step.want)
		}
	}
}

// Who is known to be lost is heard by nobody, whatever members say, and afterwards only if they hear it anew.
func TestWhoIsLostIsNotHeard(t *testing.T) {
	h, start := newHearing(time.Second), time.Now()
	for i, step := range []struct {
		after float64 // seconds
		lost  []view.MemberID
		hears []view.MemberID
		want  []view.MemberID
	}{
		{1, nil, []view.MemberID{1, 2, 3}, []view.MemberID{1, 2, 3}},
		{1.1, []view.MemberID{2, 4}, []view.MemberID{1, 2, 3}, []view.MemberID{1, 3}},
		{1.2, nil, []view.MemberID{1, 3}, []view.MemberID{1, 3}},
		{1.3, nil, []view.MemberID{1, 2, 3}, []view.MemberID{1, 2, 3}},
	} {
		o := Observation{ID: 5, PID: 7, Status: &adminv1.StatusResponse{Peers: []*adminv1.Peer{{Member: 1}}}}
		h.judge(o, &membership.MemberReport{}, nil, start) // its process has been seen a while ago
		now := start.Add(time.Duration(step.after * float64(time.Second)))
		said := h.judge(o, &membership.MemberReport{Hears: step.hears}, step.lost, now)
		if said == nil || !slices.Equal(said.Hears, step.want) {
			t.Errorf("step %d: %+v, want %v", i, said, step.want)
		}
	}
}

func TestSettlingFollowsTheDistances(t *testing.T) {
	for spec, want := range map[string]time.Duration{
		curpThree: settleLeast,
		"{protocol: CURP, sites: [{name: ca}, {name: va}, {name: ir}], wan: {profile: gryff}}": settleLeast + settleRTTs*220*time.Millisecond,
	} {
		if got := settling(manifest(t, spec).Spec); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}

// A view that can wait is not made while a partition recovers; one that replaces who is lost is.
func TestPace(t *testing.T) {
	c, s := curpFounded(t)
	c.settle = time.Second
	s.say(true)
	next := s.record.View
	next.Epoch++
	next.Partitions = slices.Clone(next.Partitions)
	check := func(what string, want time.Duration) {
		t.Helper()
		c.directory.record = s.record
		if got := c.pace(next, s.reports); got != want {
			t.Errorf("%s: %s, want %s", what, got, want)
		}
	}
	next.Partitions[0].Witnesses = []view.MemberID{6}
	check("at rest", time.Second)
	s.record.View.Partitions = slices.Clone(s.record.View.Partitions)
	s.record.View.Partitions[1].Formers = []view.Former{{Term: 1}}
	s.record.View.Partitions[1].Term = 2
	next.Partitions[1] = s.record.View.Partitions[1]
	s.say(false)
	check("while one recovers", time.Second+recoverWithin)
	next.Partitions[2].Master = 3
	check("a master is lost", time.Second)
	next.Partitions[2].Master = 5
	next.Partitions[1].Term = 3
	check("a backup is lost while its master recovers", time.Second)
	next.Partitions[1].Term = 2
	s.say(true)
	check("when it has recovered", time.Second)
	s.say(false)
	s.reports[3] = report{}
	check("when nobody tells", time.Second)
}

// A process that was killed is lost, one that was stopped in order may come back at once. Whose disk was removed is
// lost until it has said on which one it is.
func TestWhoIsKnownToBeLost(t *testing.T) {
	check := func(what string, s *slot, want bool) {
		t.Helper()
		if got := s.lost(); got != want {
			t.Errorf("%s: lost is %t", what, got)
		}
	}
	s := &slot{}
	check("before the start", s, false)
	s.set(&process{ended: make(chan struct{})})
	check("running", s, false)
	s.empty()
	check("on an empty disk", s, true)
	s.named()
	check("on a disk that it has named", s, false)
	close(s.current().ended)
	check("killed", s, true)
	s.current().ordered = true
	check("stopped in order", s, false)
}
