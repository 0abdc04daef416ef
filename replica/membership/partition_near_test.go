package membership

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/view"
)

// paper are the distances of the Gryff paper's evaluation, in milliseconds.
func paper() Distances {
	const ms = time.Millisecond
	return Distances{
		"CA": {"VA": 72 * ms, "IR": 151 * ms, "OR": 59 * ms, "JP": 113 * ms}, "IR": {"OR": 145 * ms, "JP": 220 * ms},
		"VA": {"IR": 88 * ms, "OR": 93 * ms, "JP": 162 * ms}, "OR": {"JP": 121 * ms},
	}
}

// placedAt is a cluster with a member, and the witness beside it, at each of some sites.
func placedAt(t *testing.T, p Placement, sites ...string) view.View {
	t.Helper()
	v := view.View{Cluster: "test", Epoch: 1}
	var witnesses []view.Witness
	for i, site := range sites {
		id := view.MemberID(2*i + 1)
		v.Members = append(v.Members, view.Member{ID: id, Site: site, Disk: fmt.Sprint("d", id), Address: site})
		witnesses = append(witnesses, view.Witness{ID: id + 1, Site: site, Address: site, Disk: fmt.Sprint("w", id)})
		if !p.Dedicated {
			witnesses[i].Beside = id
		}
	}
	v, err := Place(v, witnesses, p)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// sitesOf are those of members or witnesses, sorted.
func sitesOf(v *view.View, ids ...view.MemberID) (sites []string) {
	for _, id := range ids {
		if w, known := v.Witness(id); known {
			sites = append(sites, w.Site)
		} else {
			sites = append(sites, v.Members[v.Index(id)].Site)
		}
	}
	slices.Sort(sites)
	return sites
}

// In any order of the sites, masters, backups and witnesses are where the updates of Japan take no more than what they
// take to Virginia, and masters are spread over those sites.
func TestSitesArePlacedByDistances(t *testing.T) {
	for _, sites := range [][]string{
		{"CA", "VA", "IR", "OR", "JP"}, {"JP", "IR", "OR", "VA", "CA"}, {"IR", "JP", "VA", "CA", "OR"},
	} {
		for _, dedicated := range []bool{false, true} {
			v := placedAt(t, Placement{Partitions: 6, Faults: 2, Distances: paper(), Dedicated: dedicated}, sites...)
			masters := map[string]int{}
			for i, p := range v.Partitions {
				masters[sitesOf(&v, p.Master)[0]]++
				near := sitesOf(&v, append(slices.Clone(p.Witnesses), p.Master)...)
				if !slices.Equal(near, []string{"CA", "OR", "VA"}) {
					t.Errorf("partition %d has its master and witnesses at %v", i, near)
				}
				at := sitesOf(&v, p.Backups...)
				if beside := slices.Equal(at, sitesOf(&v, p.Witnesses...)); beside == dedicated {
					t.Errorf("dedicated %v: partition %d has backups at %v and witnesses at %v", dedicated, i, at,
						sitesOf(&v, p.Witnesses...))
				}
			}
			if masters["CA"] != 2 || masters["VA"] != 2 || masters["OR"] != 2 {
				t.Errorf("masters are at %v", masters)
			}
		}
	}
}

// Homes that are given win, and as long as not all distances are known there are none.
func TestHomesAreGivenOrInTurn(t *testing.T) {
	sites := []string{"JP", "IR", "OR", "VA", "CA"}
	v := placedAt(t, Placement{Partitions: 2, Faults: 2, Homes: []string{"", "JP"}, Distances: paper()}, sites...)
	if got := sitesOf(&v, v.Partitions[0].Master, v.Partitions[1].Master); !slices.Equal(got, []string{"JP", "OR"}) {
		t.Errorf("masters are at %v", got)
	}
	some := paper()
	delete(some["CA"], "JP")
	v = placedAt(t, Placement{Partitions: 2, Faults: 2, Distances: some}, sites...)
	if got := sitesOf(&v, v.Partitions[0].Master, v.Partitions[1].Master); !slices.Equal(got, []string{"IR", "JP"}) {
		t.Errorf("masters are at %v", got)
	}
}

// A master stays where updates take little longer than they would elsewhere, or if a distance is missing; one of a
// partition that was split off takes its turn.
func TestMastersStayWhereItIsNearlyAsGood(t *testing.T) {
	sites := []string{"CA", "VA", "IR", "OR", "JP"}
	v := placedAt(t, Placement{Partitions: 5, Faults: 2}, sites...)
	p := Placement{Partitions: 5, Faults: 2, Distances: paper()}
	homes := func() (all []string) {
		for i := range v.Partitions {
			all = append(all, p.Home(&v, i))
		}
		return all
	}
	if got := homes(); !slices.Equal(got, []string{"CA", "VA", "OR", "OR", "VA"}) {
		t.Errorf("homes are %v", got)
	}
	p.Distances["VA"]["JP"] = 180 * time.Millisecond // from 162
	if got := homes(); !slices.Equal(got[:2], []string{"CA", "VA"}) || got[3] != "OR" {
		t.Errorf("with another distance homes are %v", got)
	}
	v.Partitions[1].Split = 1
	p.Distances = paper()
	v.Partitions[1].Master = v.Partitions[0].Master
	if got := p.Home(&v, 1); got != "VA" {
		t.Errorf("that of a partition that was split off is %s", got)
	}
	delete(p.Distances["VA"], "JP")
	if got := homes(); !slices.Equal(got, []string{"CA", "CA", "IR", "OR", "JP"}) {
		t.Errorf("without a distance homes are %v", got)
	}
}
