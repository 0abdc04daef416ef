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
func TestReachability(t *testing.T) {
	h, start := newReachability(time.Second), time.Now()
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
	h, start := newReachability(time.Second), time.Now()
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
		"{protocol: CURP, sites: [{name: ca}, {name: va}, {name: ir}], wan: {profile: gryff}}": settleLeast +
			settleRTTs*220*time.Millisecond,
	} {
		if got := settling(manifest(t, spec).Spec); got != want {
			t.Errorf("%s: %s, want %s", spec, got, want)
		}
	}
}

// A process that was killed is lost, one that was stopped in order may come back at once. Whose disk was removed is
// lost until it has said on which one it is.
func TestWhoIsKnownToBeLost(t *testing.T) {
	u := &unit{}
	check := func(what string, want bool) {
		t.Helper()
		if got := u.lost(); got != want {
			t.Errorf("%s: lost is %t", what, got)
		}
	}
	check("before the start", false)
	start(t, u)
	check("running", false)
	u.setEmptied(true)
	check("on an empty disk", true)
	u.setEmptied(false)
	check("on a disk that it has named", false)
	u.current().Kill()
	check("killed", true)
	start(t, u)
	if err := u.current().Stop(stopWithin); err != nil {
		t.Fatal(err)
	}
	check("stopped in order", false)
}
