package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/dev/record"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

const dedicatedThree = "{protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], curp: {witness: {placement: " +
	"Dedicated}}}"

// newDedicatedScene is a cluster whose witnesses have processes of their own, and that is founded.
func newDedicatedScene(t *testing.T) *curpScene {
	t.Helper()
	s := &curpScene{
		scene: &scene{t: t, record: record.New(manifest(t, dedicatedThree)), reports: map[view.MemberID]Report{}},
	}
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
	s.reports[id] = Report{
		Running: true, Witness: &membership.WitnessReport{Witness: id, Disk: fmt.Sprint("disk-", id, which)},
	}
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
			r.Member = &membership.MemberReport{
				Member: id, Disk: r.Disk, Digest: s.record.View.Digest(), Epoch: s.record.View.Epoch, Hears: heard,
			}
			for _, p := range s.record.View.Partitions {
				part := membership.Part{Term: p.Term, WholeTerm: p.Term, NotedTerm: p.Term}
				if p.Master == id {
					part.Recovered, part.CaughtUp = true, learners(s.record.View, p, all)
				}
				r.Member.Partitions = append(r.Member.Partitions, part)
			}
			s.reports[id] = r
		}
		if next := s.step(); next.View.Epoch == 0 {
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
		if got, want := s.partition(i), []string{"1 a [b] [c/witness]", "1 b [c] [a/witness]",
			"1 c [a] [b/witness]"}[i]; got != want {
			t.Errorf("partition %d: %s, want %s: %+v", i, got, want, p)
		}
	}
	if missing, over := s.now().Staff(); len(missing)+len(over) > 0 {
		t.Errorf("at rest %v are missing and %v over", missing, over)
	}
	r.Newcomer("d")
	if m := r.Members[3]; m.ID != 7 || m.Witness != 0 || r.Issued != 7 {
		t.Errorf("a newcomer is %+v", m)
	}
	r.IssueWitness("d")
	if w := r.Witnesses[3]; w.ID != 8 || r.Label(8) != "d/witness" || r.Label(2) != "a/witness" {
		t.Errorf("its site's witness is %+v, %s", w, r.Label(8))
	}
}

// A witness that lost its disk gets a successor at its site; the former one goes once nobody needs it.
func TestADedicatedWitnessThatLostItsDisk(t *testing.T) {
	s := newDedicatedScene(t)
	s.names(4, "-other")
	s.goOn()
	missing, over := s.now().Staff()
	if !slices.Equal(missing, []string{"b"}) || len(over) > 0 {
		t.Fatalf("%v are missing and %v over", missing, over)
	}
	s.record.IssueWitness("b")
	if got := s.record.Label(4); got != "b/witness.4" || s.record.Label(8) != "b/witness" {
		t.Errorf("the former one is %s, and the next %s", got, s.record.Label(8))
	}
	if missing, _ := s.now().Staff(); len(missing) > 0 {
		t.Errorf("%v are missing still", missing)
	}
	s.names(8, "")
	s.goOn()
	if got := strings.Join(s.witnesses(), ", "); got != "2 a, 6 c, 8 b" {
		t.Errorf("the witnesses are %s", got)
	}
	if missing, over := s.now().Staff(); len(missing) > 0 || !slices.Equal(over, []view.MemberID{4}) {
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
	s.record.IssueWitness("b")
	s.record.View.Issued = 9
	for id, r := range s.reports { // order is irrelevant: each alone
		r.Answer.Digest = s.record.View.Digest()
		s.reports[id] = r
	}
	missing, over := s.now().Staff()
	if !slices.Equal(missing, []string{"b"}) || !slices.Equal(over, []view.MemberID{8}) {
		t.Errorf("%v are missing and %v over", missing, over)
	}
}
