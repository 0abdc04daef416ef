package dev

import (
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const dedicatedThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], curp: {witness: {placement: Dedicated}}}"

// newDedicatedScene is a cluster whose witnesses have processes of their own, and that is founded.
func newDedicatedScene(t *testing.T) *curpScene {
	t.Helper()
	s := &curpScene{scene: &scene{t: t, record: newRecord(manifest(t, dedicatedThree)), reports: map[view.MemberID]report{}}}
	for _, m := range s.record.Members {
		s.wait(m.ID)
	}
	for _, w := range s.record.Witnesses[1:] {
		s.names(w.ID, "")
	}
	s.waits("a/witness to name its empty disk")
	s.names(s.record.Witnesses[0].ID, "")
	s.views(1, false, 1, 3, 5)
	s.goOn()
	return s
}

// names has a dedicated witness say on which disk it is: its first one, or another one.
func (s *curpScene) names(id view.MemberID, which string) {
	s.reports[id] = report{running: true, witness: &membership.WitnessReport{Witness: id, Disk: fmt.Sprint("disk-", id, which)}}
}

// goOn has all members say that all is well, and takes steps until there is nothing to do.
func (s *curpScene) goOn() {
	s.t.Helper()
	for range 40 {
		var all, heard []view.MemberID
		for _, m := range s.record.Members {
			all, heard = append(all, m.ID), append(heard, m.ID)
		}
		for _, w := range s.record.Witnesses {
			heard = append(heard, w.ID)
		}
		s.hold(true, all...)
		for _, id := range all {
			r := s.reports[id]
			r.told = &membership.MemberReport{Member: id, Disk: r.disk, Digest: s.record.View.Digest(), Epoch: s.record.View.Epoch, Hears: heard}
			for _, p := range s.record.View.Partitions {
				part := membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}
				if p.Master == id {
					part.Recovered, part.CaughtUp = true, learners(s.record.View, p, all)
				}
				r.told.Partitions = append(r.told.Partitions, part)
			}
			s.reports[id] = r
		}
		if next := s.step(); next.view.Epoch == 0 {
			return
		}
	}
	s.t.Fatalf("it does not come to rest: %+v", s.record.View)
}

func (s *curpScene) witnesses() (all []string) {
	for _, w := range s.record.View.Witnesses {
		all = append(all, fmt.Sprint(w.ID, " ", w.Site))
	}
	return all
}

func TestDedicatedWitnessesOfARecord(t *testing.T) {
	s := newDedicatedScene(t)
	r := &s.record
	if got := strings.Join(s.witnesses(), ", "); got != "2 a, 4 b, 6 c" || r.Members[0].Witness != 0 || r.Issued != 6 {
		t.Errorf("witnesses %s of %+v", got, r)
	}
	for i, p := range r.View.Partitions {
		if got, want := s.partition(i), []string{"1 a [b] [c/witness]", "1 b [c] [a/witness]", "1 c [a] [b/witness]"}[i]; got != want {
			t.Errorf("partition %d: %s, want %s: %+v", i, got, want, p)
		}
	}
	if missing, over := r.staff(s.reports); len(missing)+len(over) > 0 {
		t.Errorf("at rest %v are missing and %v over", missing, over)
	}
	r.newcomer("d")
	if m := r.Members[3]; m.ID != 7 || m.Witness != 0 || r.Issued != 7 {
		t.Errorf("a newcomer is %+v", m)
	}
	r.issueWitness("d")
	if w := r.Witnesses[3]; w.ID != 8 || r.label(8) != "d/witness" || r.label(2) != "a/witness" {
		t.Errorf("its site's witness is %+v, %s", w, r.label(8))
	}
	other := newRecord(manifest(t, curpThree))
	if err := r.fits(other); err == nil || !strings.Contains(err.Error(), "dedicated witnesses true, the manifest has false") {
		t.Errorf("%v", err)
	}
}

// A witness that lost its disk gets a successor at its site; the former one goes once nobody needs it.
func TestADedicatedWitnessThatLostItsDisk(t *testing.T) {
	s := newDedicatedScene(t)
	s.names(4, "-other")
	s.goOn()
	missing, over := s.record.staff(s.reports)
	if !slices.Equal(missing, []string{"b"}) || len(over) > 0 {
		t.Fatalf("%v are missing and %v over", missing, over)
	}
	s.record.issueWitness("b")
	if got := s.record.label(4); got != "b/witness.4" || s.record.label(8) != "b/witness" {
		t.Errorf("the former one is %s, and the next %s", got, s.record.label(8))
	}
	if missing, _ := s.record.staff(s.reports); len(missing) > 0 {
		t.Errorf("%v are missing still", missing)
	}
	s.names(8, "")
	s.goOn()
	if got := strings.Join(s.witnesses(), ", "); got != "2 a, 6 c, 8 b" {
		t.Errorf("the witnesses are %s", got)
	}
	if missing, over := s.record.staff(s.reports); len(missing) > 0 || !slices.Equal(over, []view.MemberID{4}) {
		t.Errorf("%v are missing and %v over", missing, over)
	}
	for i := range s.record.View.Partitions {
		if got := s.partition(i); !strings.HasSuffix(got, "/witness]") {
			t.Errorf("partition %d: %s", i, got)
		}
	}
}

// One that waits and has been overtaken by a member can't be taken on any more: another one comes.
func TestADedicatedWitnessThatIsOvertaken(t *testing.T) {
	s := newDedicatedScene(t)
	s.names(4, "-other")
	s.goOn()
	s.record.issueWitness("b")
	s.record.View.Issued = 9
	for id, r := range s.reports { // order is irrelevant: each alone
		r.standing.Digest = s.record.View.Digest()
		s.reports[id] = r
	}
	if missing, over := s.record.staff(s.reports); !slices.Equal(missing, []string{"b"}) || !slices.Equal(over, []view.MemberID{8}) {
		t.Errorf("%v are missing and %v over", missing, over)
	}
}

// A cut between sites is one of their witnesses too.
func TestDedicatedWitnessesAreCutWithTheirSite(t *testing.T) {
	s := newDedicatedScene(t)
	c := &Cluster{options: Options{Manifest: manifest(t, dedicatedThree)}, cut: map[link]bool{}, woken: make(chan struct{}, 1)}
	c.directory = &directory{path: t.TempDir(), record: s.record}
	var told []string
	for _, m := range s.record.Members {
		c.members = append(c.members, &member{record: m, admin: linked{told: &told}, slot: slot{process: &process{ended: make(chan struct{})}}})
	}
	for _, w := range s.record.Witnesses {
		c.alone = append(c.alone, newDedicated(s.record.Cluster, w))
	}
	if err := c.Partition("a", "c"); err != nil {
		t.Fatal(err)
	}
	if want := []string{"1-5 true", "5-1 true", "1-6 true", "5-2 true"}; !slices.Equal(told, want) {
		t.Errorf("told %q, want %q", told, want)
	}
	if got := fmt.Sprint(c.config(c.members[0]).Blocked); got != "[5 6]" {
		t.Errorf("blocked from the start: %s", got)
	}
	if got, want := c.witnessConfig(c.alone[1]), filepath.Join(c.directory.path, "witnesses", "b.4", "disk"); got.Directory != want || got.Self != 4 {
		t.Errorf("%+v", got)
	}
	told = nil
	if err := c.Heal(); err != nil || len(told) != 4 {
		t.Errorf("told %q: %v", told, err)
	}
}
