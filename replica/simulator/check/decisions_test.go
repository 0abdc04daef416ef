package check

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// paired is a view of members 1, 3 and 5 with the witnesses 2, 4 and 6 beside them, and one partition.
func paired(t *testing.T) (view.View, membership.Placement) {
	t.Helper()
	v := view.View{Cluster: "c", Epoch: 1, Since: 1}
	var witnesses []view.Witness
	for i, id := range membership.PairedIDs(0, 3) {
		site := string(rune('a' + i))
		v.Members = append(v.Members, view.Member{ID: id, Site: site, Disk: "d" + site})
		witnesses = append(witnesses,
			view.Witness{ID: membership.WitnessOf(id), Site: site, Disk: "w" + site, Beside: id})
	}
	p := membership.Placement{Partitions: 1, Faults: 1}
	v, err := membership.Place(v, witnesses, p)
	if err != nil {
		t.Fatal(err)
	}
	return v, p
}

// joined is a view in which member 7 joins.
func joined(t *testing.T, v view.View) view.View {
	t.Helper()
	joint, err := membership.Change(v, []membership.Founder{{ID: 7, Site: "d", Disk: "dd"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return joint
}

// A change that nobody wants any more is abandoned once a majority of the members before it was heard.
func TestAChangeEndsInAViewThatWasHeard(t *testing.T) {
	v, _ := paired(t)
	v.Partitions, v.Witnesses = nil, nil
	s := membership.Snapshot{View: joined(t, v), Unwanted: true}
	for _, id := range []view.MemberID{1, 3} {
		s.Members = append(s.Members, membership.MemberReport{Member: id})
	}
	d := membership.Decide(s)
	if err := Decision(s, d); err != nil || d.Kind != membership.Abandoned {
		t.Errorf("two of three are heard: %+v, %v", d, err)
	}
	s.Members = s.Members[:1]
	if err := Decision(s, d); err == nil || !strings.Contains(err.Error(), "too few were heard") {
		t.Errorf("one of three is heard: %v", err)
	}
	s.Abandon = true // somebody asks for that
	if err := Decision(s, membership.Decide(s)); err != nil {
		t.Error(err)
	}
}

// Who is named, and is in the view or has left it, changes no decision.
func TestWhoHasComeOrGoneDoesNotComeAgain(t *testing.T) {
	v, p := paired(t)
	joint := joined(t, v)
	joint.Issued = 8
	s := membership.Snapshot{View: joint, Placement: p}
	for _, m := range joint.Members {
		s.Members = append(s.Members, membership.MemberReport{Member: m.ID, Disk: m.Disk, Digest: joint.Digest()})
	}
	alone := membership.Decide(s)
	s.Named = Namesakes(joint)
	if d := membership.Decide(s); !reflect.DeepEqual(d, alone) || Named(joint, d) != nil {
		t.Errorf("%v are named: %+v, not %+v", s.Named, d, alone)
	}
	gone := s.Named[len(s.Named)-1]
	if gone.ID != 8 || len(s.Named) != len(joint.Witnesses)+1 {
		t.Fatalf("%v are named", s.Named)
	}
	next := joint
	next.Epoch, next.Witnesses = joint.Epoch+1, append(next.Witnesses, gone)
	if err := Named(joint, membership.Decision{Next: next}); err == nil {
		t.Error("a witness comes that has gone")
	}
}

// A witness beside a newcomer comes only if that newcomer stays.
func TestNoWitnessComesThatTheEndOfTheChangeTakesAway(t *testing.T) {
	v, p := paired(t)
	joint := joined(t, v)
	next, err := membership.ChangeWitnesses(joint, []view.Witness{{ID: 8, Site: "d", Disk: "wd", Beside: 7}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, abandon := range []bool{false, true} {
		s := membership.Snapshot{View: joint, Placement: p, Abandon: abandon}
		if err := taken(s, membership.Decision{Next: next}); (err != nil) != abandon {
			t.Error(fmt.Errorf("abandoned: %v: %w", abandon, err))
		}
	}
}

// Nothing else is the matter, and a master hears too few to have its two backups.
func TestAMasterThatIsCutOffYields(t *testing.T) {
	for _, c := range []struct {
		name   string
		say    func(s *membership.Snapshot)
		breaks bool
	}{
		{"all hear each other", func(*membership.Snapshot) {}, false},
		{"its backups don't hear it, nor it them", func(s *membership.Snapshot) {
			s.Members[0].Hears = []view.MemberID{1, 4, 5}
			s.Members[1].Hears, s.Members[2].Hears = []view.MemberID{2, 3, 4, 5}, []view.MemberID{2, 3, 4, 5}
			s.Members[3].Disk = "another"
		}, true},
		{"others can be its backups", func(s *membership.Snapshot) {
			s.Members[0].Hears = []view.MemberID{1, 4, 5}
			s.Members[1].Hears, s.Members[2].Hears = []view.MemberID{2, 3, 4, 5}, []view.MemberID{2, 3, 4, 5}
		}, false},
		{"one backup does not say what it has", func(s *membership.Snapshot) {
			s.Members[0].Hears = []view.MemberID{1, 4, 5}
			s.Members[1].Hears, s.Members[2].Hears = []view.MemberID{2, 3, 4, 5}, []view.MemberID{2, 3, 4, 5}
			s.Members[3].Disk, s.Members[2].Partitions = "another", nil
		}, false},
	} {
		v := view.View{Cluster: "c", Epoch: 1, Since: 1,
			Partitions: []view.Partition{{Term: 1, Master: 1, Backups: []view.MemberID{2, 3}}}}
		for id := range view.MemberID(5) {
			v.Members = append(v.Members, view.Member{ID: id + 1, Site: "a", Disk: fmt.Sprint(id)})
		}
		s := membership.Snapshot{View: v, Placement: membership.Placement{Partitions: 1, Faults: 2}}
		for _, m := range v.Members {
			s.Members = append(s.Members, membership.MemberReport{Member: m.ID, Disk: m.Disk, Digest: v.Digest(),
				Hears: v.IDs(), Partitions: []membership.Part{{Term: 1}}})
		}
		c.say(&s)
		if err := Yields(s, membership.Decision{}); (err != nil) != c.breaks {
			t.Errorf("%s: %v", c.name, err)
		}
		if err := Yields(s, membership.Decide(s)); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The view after another one has the epoch after it.
func TestTheNextViewHasTheNextEpoch(t *testing.T) {
	v, _ := paired(t)
	next := v
	if err := Succession(v, next, false); err == nil {
		t.Error("it has the same epoch")
	}
	next.Epoch++
	if err := Succession(v, next, false); err != nil {
		t.Error(err)
	}
}
