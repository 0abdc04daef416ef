package manager

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func founders(n int) (all []Founder) {
	for i := range n {
		id := view.MemberID(i + 1)
		all = append(all, Founder{ID: id, Site: fmt.Sprint("site-", id), Address: address(id), Disk: fmt.Sprint("disk-", id)})
	}
	return all
}

func address(id view.MemberID) string { return fmt.Sprintf("member-%d:7000", id) }

func found(t *testing.T, n int) view.View {
	t.Helper()
	v, err := Found("c", founders(n))
	if err != nil {
		t.Fatal(err)
	}
	return v
}

func replace(t *testing.T, v view.View, lost view.MemberID) view.View {
	t.Helper()
	next, err := Replace(v, lost, "site", address)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func TestFound(t *testing.T) {
	v := found(t, 3)
	if v.Epoch != 1 || v.Cluster != "c" || v.Issued != 3 || v.Size() != 3 || v.Members[1].Disk != "disk-2" {
		t.Errorf("founded %+v", v)
	}
	for says, change := range map[string]func([]Founder) []Founder{
		"member 2 has not named its disk": func(f []Founder) []Founder { f[1].Disk = ""; return f },
		"no members":                      func([]Founder) []Founder { return nil },
		"member 1 is named twice":         func(f []Founder) []Founder { f[2].ID = 1; return f },
	} {
		if _, err := Found("c", change(founders(3))); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("got %v, want %q", err, says)
		}
	}
}

func TestReplace(t *testing.T) {
	v := found(t, 3)
	next := replace(t, v, 2)
	if next.Epoch != 2 || next.Issued != 4 || next.Index(2) >= 0 || next.Index(4) != 1 {
		t.Errorf("replaced to %+v", next)
	}
	if m := next.Members[1]; m.Disk != "" || m.Address != "member-4:7000" || m.Site != "site" {
		t.Errorf("the newcomer is %+v", m)
	}
	if v.Index(2) != 1 || v.Epoch != 1 {
		t.Errorf("the old view changed: %+v", v)
	}
	if again := replace(t, v, 2); again.Digest() != next.Digest() {
		t.Error("the same replacement makes another view")
	}
	if after := replace(t, next, 4); after.Index(5) != 1 {
		t.Errorf("an id is given again: %+v", after)
	}
	if _, err := Replace(v, 9, "site", address); err == nil || !strings.Contains(err.Error(), "member 9") {
		t.Errorf("a stranger is replaced: %v", err)
	}
	v.Issued = view.MaxMemberID
	if _, err := Replace(v, 1, "site", address); err == nil || !strings.Contains(err.Error(), "all ids") {
		t.Errorf("an id beyond the last: %v", err)
	}
}

func TestCommitted(t *testing.T) {
	old := found(t, 5)
	next := replace(t, old, 5) // by 6
	for name, test := range map[string]struct {
		holders []view.MemberID
		want    bool
	}{
		"nobody":                    {nil, false},
		"too few":                   {[]view.MemberID{1, 2}, false},
		"a majority of both":        {[]view.MemberID{1, 2, 3}, true},
		"a majority with the lost":  {[]view.MemberID{1, 2, 5}, false},
		"the newcomer in its place": {[]view.MemberID{1, 2, 6}, false},
		"everybody":                 {[]view.MemberID{1, 2, 3, 4, 6}, true},
	} {
		holders := map[view.MemberID]string{4: old.Digest()}
		for _, id := range test.holders {
			holders[id] = next.Digest()
		}
		if got := Committed(old, next, holders); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

func TestRebuild(t *testing.T) {
	first := found(t, 3)
	second := replace(t, first, 3) // by 4
	other := second
	other.Members = append([]view.Member{}, second.Members...)
	other.Members[0].Address = "elsewhere:7000"
	for name, test := range map[string]struct {
		reports []Report
		epoch   uint64 // 0: not known
		fails   string
	}{
		"nobody":                        {nil, 0, ""},
		"one of three":                  {[]Report{{1, first}}, 0, ""},
		"two of three":                  {[]Report{{1, first}, {2, first}}, 1, ""},
		"the same one twice":            {[]Report{{1, first}, {1, first}}, 0, ""},
		"one without a view":            {[]Report{{1, first}, {2, view.View{}}}, 0, ""},
		"one ahead":                     {[]Report{{1, second}, {2, first}}, 2, ""},
		"the one ahead alone":           {[]Report{{1, second}, {3, first}}, 0, ""},
		"the removed one and a stale":   {[]Report{{3, first}, {2, first}}, 1, ""},
		"two views of one epoch":        {[]Report{{1, second}, {2, other}}, 0, "two views of epoch 2"},
		"two views of an earlier epoch": {[]Report{{1, second}, {2, second}, {3, replace(t, first, 1)}}, 0, "two views of epoch 2"},
	} {
		v, known, err := Rebuild(test.reports)
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
		if known != (test.epoch != 0) || v.Epoch != test.epoch {
			t.Errorf("%s: epoch %d, known %v; want %d", name, v.Epoch, known, test.epoch)
		}
	}
}

// Whatever is told to whom, and whoever answers: a change that was committed is never forgotten, and at most one view
// is made of an epoch.
func TestACommittedViewIsAlwaysRebuilt(t *testing.T) {
	for seed := range uint64(2000) {
		random := rand.New(rand.NewPCG(1, seed))
		n := 3 + 2*random.IntN(3)
		current := found(t, n)
		committed := current.Epoch
		held := map[view.MemberID]view.View{}
		for _, m := range current.Members {
			held[m.ID] = current
		}
		for range 4 {
			lost := current.Members[random.IntN(n)].ID
			next := replace(t, current, lost)
			tell := append([]view.Member{}, next.Members...)
			random.Shuffle(len(tell), func(i, j int) { tell[i], tell[j] = tell[j], tell[i] })
			for _, m := range tell {
				held[m.ID] = next
				digests := map[view.MemberID]string{}
				for id, v := range held { // order is irrelevant: a map from a map
					digests[id] = v.Digest()
				}
				if Committed(current, next, digests) {
					committed = next.Epoch
				}
				checkRebuild(t, seed, random, held, committed)
			}
			if committed != next.Epoch {
				t.Fatalf("seed %d: all hold epoch %d and it is not committed", seed, next.Epoch)
			}
			current = next
		}
	}
}

// checkRebuild asks some of the members that there ever were.
func checkRebuild(t *testing.T, seed uint64, random *rand.Rand, held map[view.MemberID]view.View, committed uint64) {
	t.Helper()
	var reports []Report
	for id := view.MemberID(1); int(id) <= len(held); id++ {
		if random.IntN(2) == 0 {
			reports = append(reports, Report{id, held[id]})
		}
	}
	v, known, err := Rebuild(reports)
	if err != nil || known && v.Epoch < committed {
		t.Fatalf("seed %d: rebuilt epoch %d (%v) though %d was committed, from %d reports", seed, v.Epoch, err, committed, len(reports))
	}
}
