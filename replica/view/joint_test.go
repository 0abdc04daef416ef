package view

import (
	"encoding/json"
	"math/bits"
	"strings"
	"testing"
)

// joint is a joint view of members that stay (1..), leave (101..) and join (201..).
func joint(stay, leave, join int) View {
	v := View{Cluster: "c", Epoch: 2, Since: 1}
	add := func(first, n int, joining, leaving bool) {
		for i := range n {
			v.Members = append(v.Members, Member{ID: MemberID(first + i), Joining: joining, Leaving: leaving})
		}
	}
	add(1, stay, false, false)
	add(101, leave, false, true)
	add(201, join, true, false)
	return v
}

// changes visits joint views of all small changes.
func changes(visit func(v View)) {
	for stay := range 6 {
		for leave := range 4 {
			for join := range 4 {
				if leave+join > 0 && stay+leave > 0 && stay+join > 0 {
					visit(joint(stay, leave, join))
				}
			}
		}
	}
}

// subset is membership in a set of members by position, as bits.
func subset(v View, set int) func(MemberID) bool {
	return func(id MemberID) bool { return set&(1<<v.Index(id)) != 0 }
}

// sides are the members before and after the change, as bits.
func sides(v View) (before, after int) {
	for i, m := range v.Members {
		if !m.Joining {
			before |= 1 << i
		}
		if !m.Leaving {
			after |= 1 << i
		}
	}
	return before, after
}

func majority(set, side int) bool {
	return 2*bits.OnesCount(uint(set&side)) > bits.OnesCount(uint(side))
}

func TestSides(t *testing.T) {
	v := joint(2, 1, 3)
	if !v.Joint() || v.Before().Joint() || v.After().Joint() {
		t.Error("which views are joint is wrong")
	}
	if v.Before().Size() != 3 || v.After().Size() != 5 || v.Before().Epoch != 2 || v.After().Since != 1 {
		t.Errorf("before the change %+v, after it %+v", v.Before(), v.After())
	}
	if p := of(3); p.Joint() || p.Before().Digest() != p.Digest() || p.After().Digest() != p.Digest() {
		t.Error("a plain view has sides of its own")
	}
	if v.Members[2].Leaving != true {
		t.Error("asking for a side changed the view")
	}
}

// A digest is made of this text, and members hold digests: another text is another digest for each view that there is.
func TestTheTextOfAView(t *testing.T) {
	v := View{Cluster: "c", Epoch: 1, Members: []Member{{ID: 1, Site: "a", Address: "a:1", Disk: "d"}}}
	text, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"cluster":"c","epoch":1,"members":[{"id":1,"site":"a","address":"a:1","disk":"d"}],"issued":0}`
	if string(text) != want {
		t.Errorf("a plain view is written as %s, want %s", text, want)
	}
}

func TestJointQuorums(t *testing.T) {
	changes(func(v View) {
		before, after := sides(v)
		for set := range 1 << v.Size() {
			has := subset(v, set)
			if got, want := v.Quorum(has), majority(set, before) && majority(set, after); got != want {
				t.Fatalf("%+v: set %b is a quorum: %v, want %v", v.Members, set, got, want)
			}
			// It meets every majority of either side, unless one lives in what it leaves out.
			if got, want := v.Meets(has), !majority(before&^set, before) && !majority(after&^set, after); got != want {
				t.Fatalf("%+v: set %b meets every majority: %v, want %v", v.Members, set, got, want)
			}
		}
	})
}

// Whatever majority before the change holds something: with those that fetched it from any majority before, a majority
// after the change holds it, if the change counts as covered. And it counts as soon as that is so for all.
func TestCovered(t *testing.T) {
	changes(func(v View) {
		before, after := sides(v)
		for settled := range 1 << v.Size() {
			if settled&^after != 0 {
				continue
			}
			for fetched := settled; ; fetched = (fetched - 1) & settled {
				covered := true
				for quorum := range 1 << v.Size() {
					if quorum&^before == 0 && majority(quorum, before) && !majority(quorum&settled|fetched, after) {
						covered = false
					}
				}
				if got := v.Covered(subset(v, fetched), subset(v, settled)); got != covered {
					t.Fatalf("%+v: with %b settled and %b fetched covered is %v, want %v", v.Members, settled,
						fetched, got, covered)
				}
				if fetched == 0 {
					break
				}
			}
		}
	})
}

// When all have done what Transfers asks of them, the change is covered; and only those that stay are spared.
func TestTransfers(t *testing.T) {
	changes(func(v View) {
		everybody := func(MemberID) bool { return true }
		if !v.Covered(v.Transfers, everybody) {
			t.Fatalf("%+v: not covered though all did their part", v.Members)
		}
		for _, m := range v.Members {
			if m.Joining && !v.Transfers(m.ID) || m.Leaving && v.Transfers(m.ID) {
				t.Fatalf("%+v: member %d transfers: %v", v.Members, m.ID, v.Transfers(m.ID))
			}
		}
	})
	for name, c := range map[string]struct {
		view View
		stay bool // transfer too
	}{
		"3 to 5":          {joint(3, 0, 2), false},
		"5 to 3":          {joint(3, 2, 0), true},
		"one of 3 new":    {joint(2, 1, 1), false},
		"all of 3 new":    {joint(0, 3, 3), false},
		"5 to 4":          {joint(4, 1, 0), true},
		"1 to 3":          {joint(1, 0, 2), false},
		"a plain view":    {of(3), false},
		"two of 5 new":    {joint(3, 2, 2), false},
		"3 to 5, one new": {joint(2, 1, 3), false},
	} {
		if got := stayersTransfer(c.view); got != c.stay {
			t.Errorf("%s: members that stay transfer: %v, want %v", name, got, c.stay)
		}
	}
	if joint(3, 0, 2).Transfers(99) {
		t.Error("a stranger transfers")
	}
}

func stayersTransfer(v View) bool {
	m := v.Members[0]
	return !m.Joining && !m.Leaving && v.Transfers(m.ID)
}

func TestValidateJoint(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*View)
		says   string
	}{
		"good": {func(*View) {}, ""},
		"both at once": {func(v *View) {
			v.Members[0].Joining, v.Members[0].Leaving = true, true
		}, "member 1 joins and leaves"},
		"nobody after":   {func(v *View) { v.Members = v.Members[2:3] }, "nobody on one of its sides"},
		"nobody before":  {func(v *View) { v.Members = v.Members[3:] }, "nobody on one of its sides"},
		"everybody goes": {func(v *View) { v.Members = v.Members[2:] }, ""}, // by others
	} {
		v := joint(2, 1, 1)
		c.change(&v)
		err := v.Validate()
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: Validate says %v, want %q in it", name, err, c.says)
		}
	}
}
