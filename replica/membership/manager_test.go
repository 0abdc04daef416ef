package membership

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func founders(n int) (all []Founder) {
	for i := range n {
		id := view.MemberID(i + 1)
		all = append(all,
			Founder{ID: id, Site: fmt.Sprint("site-", id), Address: address(id), Disk: fmt.Sprint("disk-", id)})
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

// change has newcomers with the next ids join, and members leave.
func change(t *testing.T, v view.View, join int, leaving ...view.MemberID) view.View {
	t.Helper()
	next, err := Change(v, newcomers(v, join), leaving)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

func newcomers(v view.View, n int) (all []Founder) {
	for i := range n {
		id := v.LastIssued() + 1 + view.MemberID(i)
		all = append(all, Founder{ID: id, Site: "site", Address: address(id), Disk: fmt.Sprint("disk-", id)})
	}
	return all
}

// must is for decisions on views that a test has made.
func must(t *testing.T) func(view.View, error) view.View {
	return func(v view.View, err error) view.View {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
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

func TestCommitted(t *testing.T) {
	old := found(t, 3)
	joint := change(t, old, 2, 3) // 4 and 5 in the place of 3
	for name, test := range map[string]struct {
		holders []view.MemberID
		want    bool
	}{
		"nobody":                      {nil, false},
		"a majority before":           {[]view.MemberID{1, 3}, false},
		"a majority after":            {[]view.MemberID{4, 5, 1}, false},
		"a majority before and after": {[]view.MemberID{1, 3, 4, 5}, true},
		"those that stay":             {[]view.MemberID{1, 2}, false},
		"those and a newcomer":        {[]view.MemberID{1, 2, 5}, true},
	} {
		holders := map[view.MemberID]string{2: old.Digest()}
		for _, id := range test.holders {
			holders[id] = joint.Digest()
		}
		if got := Committed(joint, holders); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
	if !Committed(old, map[view.MemberID]string{1: old.Digest(), 3: old.Digest()}) {
		t.Error("a plain view that a majority holds did not take hold")
	}
}

func TestRebuild(t *testing.T) {
	first := found(t, 3)
	second := change(t, first, 1, 3) // by 4
	five := change(t, first, 2)
	other := second
	other.Members = append([]view.Member{}, second.Members...)
	other.Members[0].Address = "elsewhere:7000"
	for name, test := range map[string]struct {
		reports []Report
		epoch   uint64 // 0: not known
		fails   string
	}{
		"nobody":                       {nil, 0, ""},
		"one of three":                 {[]Report{voter(1, first)}, 0, ""},
		"two of three":                 {[]Report{voter(1, first), voter(2, first)}, 1, ""},
		"the same one twice":           {[]Report{voter(1, first), voter(1, first)}, 0, ""},
		"one without a view":           {[]Report{voter(1, first), {Member: 2}}, 0, ""},
		"one on the disk it names":     {[]Report{voter(1, first), {Member: 2, Disk: "disk-2"}}, 1, ""},
		"one ahead":                    {[]Report{voter(1, second), voter(2, first)}, 2, ""},
		"the one ahead and who leaves": {[]Report{voter(1, second), voter(3, first)}, 0, ""},
		"who leaves is ahead":          {[]Report{voter(3, second), voter(1, first), voter(4, second)}, 2, ""},
		"the removed one and a stale":  {[]Report{voter(3, first), voter(2, first)}, 1, ""},
		"three of those to be five":    {[]Report{voter(2, five), voter(3, five), voter(4, five)}, 2, ""},
		// the others may have finished the change
		"those who stay, of five": {[]Report{voter(2, five), voter(3, five)}, 0, ""},
		"two views of one epoch":  {[]Report{voter(1, second), voter(2, other)}, 0, "two views of epoch 2"},
		"two views of an earlier epoch": {
			[]Report{voter(1, second), voter(2, second), voter(3, change(t, first, 1, 1))}, 0, "two views of epoch 2",
		},
	} {
		d := Rebuild(test.reports, everybodyElse)
		v, known, err := d.View, d.Known, d.Err
		if (err == nil) != (test.fails == "") || err != nil && !strings.Contains(err.Error(), test.fails) {
			t.Errorf("%s: %v, want %q", name, err, test.fails)
		}
		if known != (test.epoch != 0) || known && v.Epoch != test.epoch {
			t.Errorf("%s: epoch %d, known %v; want %d", name, v.Epoch, known, test.epoch)
		}
	}
}

// Of a joint view everybody is heard who is not lost: either of two may follow it.
func TestRebuildAJointView(t *testing.T) {
	joint := change(t, found(t, 3), 2)
	reports := []Report{voter(2, joint), voter(3, joint), voter(4, joint)}
	for name, test := range map[string]struct {
		lost  []view.MemberID
		known bool
	}{
		"two are silent": {nil, false},
		"one is":         {[]view.MemberID{1}, false},
		"both are lost":  {[]view.MemberID{1, 5}, true},
	} {
		d := Rebuild(reports, func(id view.MemberID) bool { return slices.Contains(test.lost, id) })
		if d.Known != test.known || !slices.Equal(d.Missing, []view.MemberID{1, 5}) {
			t.Errorf("%s: %+v", name, d)
		}
	}
}

func voter(id view.MemberID, v view.View) Report { return Report{Member: id, View: v, Votes: true} }

func everybodyElse(view.MemberID) bool { return true }

// Whatever is told to whom, and whoever answers, over all kinds of changes: a view that was committed is never
// forgotten.
func TestACommittedViewIsAlwaysRebuilt(t *testing.T) {
	for seed := range uint64(3000) {
		random := rand.New(rand.NewPCG(1, seed))
		current := found(t, 1+random.IntN(5))
		committed := current.Epoch
		held := map[view.MemberID]view.View{}
		for _, m := range current.Members {
			held[m.ID] = current
		}
		for range 8 {
			taken := committed == current.Epoch
			next := step(t, random, current, taken)
			if next.Epoch == current.Epoch {
				next = current // told on
			}
			tell := slices.Clone(next.Members)
			random.Shuffle(len(tell), func(i, j int) { tell[i], tell[j] = tell[j], tell[i] })
			if current.Joint() && next.Epoch > current.Epoch || random.IntN(3) == 0 {
				tell = tell[:random.IntN(len(tell)+1)]
			}
			for _, m := range tell {
				held[m.ID] = next
				digests := map[view.MemberID]string{}
				for id, v := range held { // order is irrelevant: a map from a map
					digests[id] = v.Digest()
				}
				if Committed(next, digests) {
					committed = next.Epoch
				}
				checkRebuild(t, seed, random, held, committed)
			}
			current = next
		}
	}
}

// step makes the next view, if one may be made: an abandoned change needs nothing, all else that the view is committed.
func step(t *testing.T, random *rand.Rand, v view.View, taken bool) view.View {
	t.Helper()
	switch {
	case v.Joint() && random.IntN(3) == 0:
		return must(t)(Abandon(v))
	case !taken:
		return v
	case v.Joint():
		return must(t)(Finish(v))
	}
	var leaving []view.MemberID
	for _, m := range v.Members {
		if random.IntN(3) == 0 {
			leaving = append(leaving, m.ID)
		}
	}
	join := random.IntN(3)
	if len(leaving) == v.Size() {
		join++
	}
	if join+len(leaving) == 0 {
		join++
	}
	return change(t, v, join, leaving...)
}

// checkRebuild asks some of the members that there ever were.
func checkRebuild(t *testing.T, seed uint64, random *rand.Rand, held map[view.MemberID]view.View, committed uint64) {
	t.Helper()
	var reports []Report
	for id := view.MemberID(1); int(id) <= len(held); id++ {
		if random.IntN(2) == 0 {
			reports = append(reports, voter(id, held[id]))
		}
	}
	d := Rebuild(reports, everybodyElse)
	if d.Err != nil || d.Known && d.View.Epoch < committed {
		t.Fatalf("seed %d: rebuilt epoch %d (%v) though %d was committed, from %d reports", seed, d.View.Epoch, d.Err,
			committed, len(reports))
	}
}
