package view

import (
	"strings"
	"testing"
)

func of(n int) View {
	v := View{Cluster: "c", Epoch: 1}
	for i := range n {
		v.Members = append(v.Members, Member{ID: MemberID(10 * (i + 1))})
	}
	return v
}

func TestQuorums(t *testing.T) {
	for _, c := range []struct{ n, faults, majority, fast int }{
		{1, 0, 1, 1}, {2, 0, 2, 2}, {3, 1, 2, 2}, {4, 1, 3, 3}, {5, 2, 3, 4}, {6, 2, 4, 5}, {7, 3, 4, 6}, {9, 4, 5, 8},
	} {
		v := of(c.n)
		if v.Size() != c.n || v.Faults() != c.faults || v.Majority() != c.majority || v.FastQuorum(0) != c.fast {
			t.Errorf("n = %d: faults %d, majority %d, fast quorum %d; want %+v", v.Size(), v.Faults(),
				v.Majority(), v.FastQuorum(0), c)
		}
	}
}

// Of a fast quorum, what is left without its coordinator and f - 1 others is a majority with the coordinator.
func TestFastQuorumsByFaults(t *testing.T) {
	for _, c := range []struct{ n, f, fast int }{
		{1, 1, 1}, {2, 1, 2}, {3, 1, 2}, {3, 2, 2}, {4, 1, 3}, {5, 1, 3}, {5, 2, 4}, {5, 3, 4}, {6, 1, 4},
		{7, 1, 4}, {7, 2, 5}, {7, 3, 6},
	} {
		v := of(c.n)
		if v.FastQuorum(c.f) != c.fast {
			t.Errorf("n = %d, f = %d: fast quorum %d; want %d", c.n, c.f, v.FastQuorum(c.f), c.fast)
		}
		if f := min(c.f, v.Faults()); f > 0 && v.FastQuorum(f)-1-(f-1)+1 < v.Majority() {
			t.Errorf("n = %d, f = %d: no majority is left of %d", c.n, f, v.FastQuorum(f))
		}
	}
}

// What the protocols rest on, for every pair of sets of those sizes.
func TestQuorumsIntersect(t *testing.T) {
	for n := 1; n <= 9; n++ {
		v := of(n)
		f := v.Faults()
		if 2*v.Majority() <= n {
			t.Errorf("n = %d: two majorities of %d may miss each other", n, v.Majority())
		}
		if v.Majority() > n-f {
			t.Errorf("n = %d: no majority is left after %d faults", n, f)
		}
		// A majority among the n - 1 members that are not the coordinator, and the fast quorum's others.
		if common := v.Majority() + (v.FastQuorum(0) - 1) - (n - 1); v.Majority() <= n-1 && common < f {
			t.Errorf("n = %d: a majority without the coordinator meets the fast quorum in %d members, want %d",
				n, common, f)
		}
	}
}

func TestIndex(t *testing.T) {
	v := of(3)
	for id, want := range map[MemberID]int{10: 0, 30: 2, 0: -1, 11: -1} {
		if got := v.Index(id); got != want {
			t.Errorf("member %d is at %d, want %d", id, got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*View)
		says   string
	}{
		"good":       {func(*View) {}, ""},
		"largest id": {func(v *View) { v.Members[0].ID = MaxMemberID }, ""},
		"no cluster": {func(v *View) { v.Cluster = "" }, "identity"},
		"no epoch":   {func(v *View) { v.Epoch = 0 }, "epochs start at 1"},
		"no members": {func(v *View) { v.Members = nil }, "no members"},
		"id 0":       {func(v *View) { v.Members[1].ID = 0 }, "member 0"},
		"large id":   {func(v *View) { v.Members[1].ID = MaxMemberID + 1 }, "member 65536"},
		"level":      {func(v *View) { v.Level = MaxLevel + 1 }, "run a newer version"},
		"twice":      {func(v *View) { v.Members[2].ID = v.Members[0].ID }, "member 10 is named twice"},
	} {
		v := of(3)
		c.change(&v)
		err := v.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Validate says %v, want %q in it", name, err, c.says)
		}
	}
}
