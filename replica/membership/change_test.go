package membership

import (
	"cmp"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func ids(v view.View) (all []view.MemberID) {
	for _, m := range v.Members {
		all = append(all, m.ID)
	}
	return all
}

func TestChange(t *testing.T) {
	v := found(t, 3)
	before := v.Digest()
	joint := change(t, v, 2, 2)
	if joint.Epoch != 2 || joint.Issued != 5 || joint.Since != 0 || !joint.Joint() {
		t.Errorf("changed to %+v", joint)
	}
	if got := ids(joint.Before()); !slices.Equal(got, []view.MemberID{1, 2, 3}) {
		t.Errorf("before the change there are %v", got)
	}
	if got := ids(joint.After()); !slices.Equal(got, []view.MemberID{1, 3, 4, 5}) {
		t.Errorf("after the change there are %v", got)
	}
	m := joint.Members[joint.Index(4)]
	if !m.Joining || m.Disk != "disk-4" || m.Address != "member-4:7000" || m.Site != "site" {
		t.Errorf("a newcomer is %+v", m)
	}
	if v.Digest() != before {
		t.Errorf("the view before changed: %+v", v)
	}
	if change(t, v, 2, 2).Digest() != joint.Digest() {
		t.Error("the same change makes another view")
	}
	largest := v
	largest.Issued = view.MaxMemberID
	for name, c := range map[string]struct {
		view    view.View
		join    []Founder
		leaving []view.MemberID
		says    string
	}{
		"nothing":              {v, nil, nil, "nobody joins or leaves"},
		"a change in a change": {joint, newcomers(joint, 1), nil, "finish or abandon it first"},
		"a stranger leaves":    {v, nil, []view.MemberID{9}, "member 9 is to leave, and is not in it"},
		"everybody leaves":     {v, nil, []view.MemberID{1, 2, 3}, "nobody on one of its sides"},
		"an id that is used": {
			v, []Founder{{ID: 3, Disk: "d"}}, nil, "member 3 is to join, and IDs up to 3 were given",
		},
		"a disk without a name": {v, []Founder{{ID: 4}}, nil, "member 4 is to join, and has not named its disk"},
		"the same id twice":     {v, []Founder{{ID: 4, Disk: "d"}, {ID: 4, Disk: "e"}}, nil, "member 4 is named twice"},
		"no id is left":         {largest, newcomers(largest, 1), nil, "outside 1..65535"},
	} {
		if _, err := Change(c.view, c.join, c.leaving); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", name, err, c.says)
		}
	}
}

func TestFinishAndAbandon(t *testing.T) {
	v := found(t, 3)
	joint := change(t, v, 1, 2)
	after := must(t)(Finish(joint))
	if after.Epoch != 3 || after.Since != 3 || after.Joint() || after.Issued != 4 ||
		!slices.Equal(ids(after), []view.MemberID{1, 3, 4}) {
		t.Errorf("finished as %+v", after)
	}
	if after.Members[2].Disk != "disk-4" {
		t.Errorf("a newcomer's disk is forgotten: %+v", after.Members[2])
	}
	again := must(t)(Abandon(joint))
	if again.Epoch != 3 || again.Since != 0 || again.Joint() || again.Issued != 4 ||
		!slices.Equal(ids(again), []view.MemberID{1, 2, 3}) {
		t.Errorf("abandoned as %+v", again)
	}
	if next := change(t, again, 1); next.Index(4) >= 0 || next.Index(5) < 0 {
		t.Errorf("the id of an abandoned newcomer is given again: %+v", next)
	}
	if later := must(t)(Abandon(change(t, after, 1))); later.Since != 3 {
		t.Errorf("abandoned after a change as %+v", later)
	}
	if _, err := Finish(v); err == nil {
		t.Error("a plain view is finished")
	}
	if _, err := Abandon(v); err == nil {
		t.Error("a plain view is abandoned")
	}
}

func TestRecover(t *testing.T) {
	v := change(t, found(t, 3), 1, 2)
	for _, trust := range []view.MemberID{1, 2, 4} {
		alone := must(t)(Recover(v, trust))
		if alone.Epoch != 3 || alone.Since != 3 || alone.Joint() || alone.Issued != 4 ||
			!slices.Equal(ids(alone), []view.MemberID{trust}) {
			t.Errorf("recovered to %+v", alone)
		}
		if grown := change(t, alone, 2); grown.Index(5) < 0 || grown.Index(6) < 0 {
			t.Errorf("ids are given again: %+v", grown)
		}
	}
	if _, err := Recover(v, 9); err == nil || !strings.Contains(err.Error(), "member 9 is not in the view of epoch 2") {
		t.Errorf("a stranger is trusted: %v", err)
	}
}

func TestFinishable(t *testing.T) {
	grow := change(t, found(t, 3), 2)         // 4, 5 join
	shrink := change(t, found(t, 5), 0, 4, 5) // 1, 2, 3 stay
	swap := change(t, found(t, 3), 1, 3)      // 4 for 3
	done := MemberReport{Settled: true, Fetched: true}
	settled, started := MemberReport{Settled: true}, MemberReport{}
	for name, c := range map[string]struct {
		joint view.View
		told  map[view.MemberID]MemberReport // with the joint view's digest, unless they have one
		safe  bool
		rest  []view.MemberID
	}{
		"nobody told": {grow, nil, false, []view.MemberID{1, 2, 3, 4, 5}},
		"nobody fetched": {
			grow, map[view.MemberID]MemberReport{1: settled, 2: settled, 3: settled, 4: settled, 5: settled}, false,
			[]view.MemberID{4, 5},
		},
		"one fetched": {
			grow, map[view.MemberID]MemberReport{1: settled, 2: settled, 3: settled, 4: done, 5: started},
			true, []view.MemberID{5},
		},
		"one, and one unheard": {
			grow, map[view.MemberID]MemberReport{1: settled, 2: settled, 4: done}, false, []view.MemberID{3, 5},
		},
		"both fetched": {
			grow, map[view.MemberID]MemberReport{1: started, 4: done, 5: done, 2: settled}, false,
			[]view.MemberID{1, 3},
		},
		"one has not settled": {
			grow, map[view.MemberID]MemberReport{1: settled, 2: settled, 3: started, 4: done, 5: done},
			true, []view.MemberID{3},
		},
		"in the former view": {
			grow,
			map[view.MemberID]MemberReport{1: {Digest: "old", Settled: true}, 2: {Digest: "old"}, 4: done, 5: done,
				3: done}, false, []view.MemberID{1, 2},
		},
		"no majority before": {
			grow, map[view.MemberID]MemberReport{1: settled, 4: done, 5: done}, false, []view.MemberID{2, 3},
		},
		"shrunk at once": {
			shrink, map[view.MemberID]MemberReport{1: settled, 2: settled, 3: settled}, false, []view.MemberID{1, 2, 3},
		},
		"shrunk, one fetched": {
			shrink, map[view.MemberID]MemberReport{1: done, 2: settled, 3: settled}, false, []view.MemberID{2, 3},
		},
		"shrunk, two fetched": {
			shrink, map[view.MemberID]MemberReport{1: done, 2: done, 3: settled}, true, []view.MemberID{3},
		},
		"swapped": {swap, map[view.MemberID]MemberReport{1: settled, 2: settled, 4: done}, true, nil},
		"swapped, not settled": {
			swap, map[view.MemberID]MemberReport{1: settled, 2: started, 4: done}, false, []view.MemberID{2},
		},
		"fetched, not settled": {
			swap, map[view.MemberID]MemberReport{1: settled, 2: settled, 4: {Fetched: true}}, false, []view.MemberID{4},
		},
		"who stays fetched": {
			swap, map[view.MemberID]MemberReport{1: done, 2: done, 4: started}, false, []view.MemberID{4},
		},
		"a plain view": {found(t, 3), map[view.MemberID]MemberReport{1: done, 2: done, 3: done}, false, nil},
	} {
		safe, rest := saying(c.joint, view.Fragments{}, c.told).finishable()
		if safe != c.safe || !slices.Equal(rest, c.rest) {
			t.Errorf("%s: safe %v, rest %v; want %v, %v", name, safe, rest, c.safe, c.rest)
		}
	}
}

// saying is a snapshot in which members say that, with the view's digest unless they have one.
func saying(v view.View, fragments view.Fragments, told map[view.MemberID]MemberReport) *Snapshot {
	s := &Snapshot{View: v, Fragments: fragments}
	for id, r := range told { // order is irrelevant: each is found by its member
		r.Member, r.Digest = id, cmp.Or(r.Digest, v.Digest())
		s.Members = append(s.Members, r)
	}
	return s
}

// Of seven members of which one may be lost, with five fragments to a value, all leave but two: each needs a
// successor that has fetched, though a majority holds the state before that.
func TestFragmentsKeepAChangeFromEnding(t *testing.T) {
	joint := change(t, found(t, 7), 5, 1, 2, 3, 4, 5)
	done := MemberReport{Digest: joint.Digest(), Settled: true, Fetched: true}
	standings := map[view.MemberID]MemberReport{6: done, 7: done, 8: done, 9: done, 10: done, 11: done}
	for _, id := range []view.MemberID{1, 2, 3, 4} {
		standings[id] = MemberReport{Digest: joint.Digest()}
	}
	fragments := view.Fragments{Data: 5, Faults: 1}
	if safe, rest := saying(joint, fragments, standings).finishable(); safe ||
		!slices.Equal(rest, []view.MemberID{12}) {
		t.Errorf("safe %v, rest %v, and one who leaves has no successor", safe, rest)
	}
	if safe, _ := saying(joint, view.Fragments{}, standings).finishable(); !safe {
		t.Error("whole values are held by a majority, and the change may not be finished")
	}
	standings[12] = done
	if safe, rest := saying(joint, fragments, standings).finishable(); !safe || len(rest) > 0 {
		t.Errorf("safe %v, rest %v, and everybody is done", safe, rest)
	}
}
