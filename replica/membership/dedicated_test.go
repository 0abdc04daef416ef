package membership

import (
	"fmt"
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func TestDedicatedIDs(t *testing.T) {
	for _, c := range []struct {
		last view.MemberID
		want []view.MemberID
	}{
		{0, []view.MemberID{2, 4, 6}},
		{9, []view.MemberID{10, 12, 14}}, // of five founding members
		{10, []view.MemberID{12, 14, 16}},
	} {
		if got := DedicatedIDs(c.last, 3); !slices.Equal(got, c.want) {
			t.Errorf("after %d come %v, want %v", c.last, got, c.want)
		}
		for _, id := range PairedIDs(c.last, 3) {
			if slices.Contains(DedicatedIDs(c.last, 3), id) {
				t.Errorf("after %d, %d is a member's and a witness's", c.last, id)
			}
		}
	}
}

// nothing is what decisions are told beside who lives.
func nothing(*Snapshot) {}

// together counts those who keep a partition at sites where another one does.
func together(v view.View) (count int) {
	for _, p := range v.Partitions {
		var sites []string
		for _, id := range slices.Concat([]view.MemberID{p.Master}, p.Backups, p.Witnesses) {
			site := ""
			if i := v.Index(id); i >= 0 {
				site = v.Members[i].Site
			} else {
				w, _ := v.Witness(id)
				site = w.Site
			}
			if slices.Contains(sites, site) {
				count++
			}
			sites = append(sites, site)
		}
	}
	return count
}

// While a site is lost, its parts are where others are; when it is back, nobody shares a site any more.
func TestDedicatedWitnessesAreSpreadAgain(t *testing.T) {
	for _, n := range []int{3, 5} {
		v, p := placed(t, n, (n-1)/2, true)
		if together(v) != 0 {
			t.Fatalf("of %d: placed %+v", n, v.Partitions)
		}
		for site := range n {
			lost := []view.MemberID{view.MemberID(site + 1), view.MemberID(n + site + 1)}
			without, _ := drive(t, v, p, nothing, lost...)
			if together(without) == 0 {
				t.Errorf("of %d: %+v need no site %d", n, without.Partitions, site)
			}
			if back, _ := drive(t, without, p, nothing); together(back) != 0 {
				t.Errorf("of %d: after the loss of site %d: %+v", n, site, back.Partitions)
			}
		}
	}
}

// Sites may be in one zone: the zones count.
func TestDedicatedWitnessesAreKeptApartByZones(t *testing.T) {
	v, p := placed(t, 5, 1, true)
	p.Domains = map[view.MemberID]string{}
	zones := []string{"x", "y", "y", "z", "z"}
	for i, zone := range zones {
		p.Domains[view.MemberID(i+1)], p.Domains[view.MemberID(5+i+1)] = "zone "+zone, "zone "+zone
	}
	witnesses := v.Witnesses
	v.Partitions, v.Witnesses = nil, nil
	v, err := Place(v, witnesses, p)
	if err != nil {
		t.Fatal(err)
	}
	v, _ = drive(t, v, p, nothing)
	for i, part := range v.Partitions {
		var all []string
		for _, id := range slices.Concat([]view.MemberID{part.Master}, part.Backups, part.Witnesses) {
			all = append(all, p.Domains[id])
		}
		slices.Sort(all)
		if len(slices.Compact(all)) < 3 {
			t.Errorf("partition %d is kept in %v: %s", i, all, text(part))
		}
	}
}

// A witness that retires serves until others do, and goes then; its ID is not given again.
func TestADedicatedWitnessRetires(t *testing.T) {
	v, p := placed(t, 3, 1, true)
	for _, id := range []view.MemberID{4, 5, 6} {
		come := view.Witness{ID: 8, Site: "a", Address: "a", Disk: "disk-8"}
		got, d := drive(t, v, p, func(s *Snapshot) {
			s.Named, s.Retiring = []view.Witness{come}, []view.MemberID{id}
		})
		if _, known := got.Witness(id); known || len(got.Witnesses) != 3 || len(d.Waits) > 0 || got.LastIssued() != 8 {
			t.Errorf("%d is to go: %+v, %v", id, got.Witnesses, d.Waits)
		}
		for i, part := range got.Partitions {
			if len(part.Witnesses) != 1 || len(part.Formers) > 0 {
				t.Errorf("partition %d is %s", i, text(part))
			}
		}
		again, err := ChangeWitnesses(got, []view.Witness{{ID: id, Site: "a", Disk: fmt.Sprint("disk-", id)}}, nil)
		if err == nil {
			t.Errorf("witness %d came twice: %+v", id, again.Witnesses)
		}
	}
}

// Without another witness, one that retires stays where it is needed.
func TestTheLastWitnessDoesNotRetire(t *testing.T) {
	v, p := placed(t, 3, 1, true)
	got, _ := drive(t, v, p, func(s *Snapshot) { s.Retiring = []view.MemberID{4, 5, 6} })
	if len(got.Witnesses) == 0 {
		t.Fatal("all went")
	}
	for i, part := range got.Partitions {
		if len(part.Witnesses) != 1 {
			t.Errorf("partition %d is %s", i, text(part))
		}
	}
}

// A lost quorum was given up with all witnesses. Newcomers come before any witness does: that has a higher ID, and
// can't be taken on before them. Nothing that they need is missing.
func TestNewcomersWaitForNoDedicatedWitness(t *testing.T) {
	v := view.View{Cluster: "c", Epoch: 1, Since: 1}
	var witnesses []view.Witness
	for i, id := range PairedIDs(0, 3) {
		site := string(rune('a' + i))
		v.Members = append(v.Members, view.Member{ID: id, Site: site, Disk: "d" + site})
		witnesses = append(witnesses, view.Witness{ID: DedicatedIDs(0, 3)[i], Site: site, Disk: "w" + site})
	}
	p := Placement{Partitions: 3, Faults: 1, Dedicated: true}
	v, err := Place(v, witnesses, p)
	if err != nil {
		t.Fatal(err)
	}
	rescue, err := RecoverPartitions(snapshot(v, p, 2, 3, 4, 5, 6), []int{0, 1, 2})
	if err != nil || len(rescue.View.Witnesses) > 0 {
		t.Fatalf("%+v, %v", rescue.View, err)
	}
	left, _ := drive(t, rescue.View, p, nothing)
	ids := PairedIDs(left.LastIssued(), 2)
	joint, err := Change(left, []Founder{{ID: ids[0], Site: "b", Disk: "d7"}, {ID: ids[1], Site: "c", Disk: "d9"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if got, d := drive(t, joint, p, nothing); got.Joint() || got.Size() != 3 {
		t.Errorf("%+v waits for %q", got, d.Waits)
	}
}
