package decide

import (
	"testing"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/manager"
)

// relaxed is a cluster at rest that promises less than a minority; with fragments to a value if there are any.
func relaxed(sites int, faults, fragments int32) *world.Snapshot {
	s := healthy(sites)
	s.Cluster.Spec.Protocol, s.Cluster.Spec.FaultTolerance = "Gus", &faults
	if fragments > 0 {
		s.Cluster.Spec.ErasureCoding = &v1alpha1.ErasureCoding{DataFragments: fragments}
	}
	return s
}

// exchange has newcomers take the places of members at the same sites, and everybody told of the joint view.
func exchange(t *testing.T, s *world.Snapshot, leave ...view.MemberID) {
	t.Helper()
	var newcomers []manager.Founder
	for _, id := range leave {
		m := s.Record.View.Members[s.Record.View.Index(id)]
		next := s.Record.View.LastIssued() + view.MemberID(len(newcomers)) + 1
		newcomer(s, next, m.Site)
		newcomers = append(newcomers, manager.Founder{ID: next, Site: m.Site, Address: m.Address, Disk: s.Member(next).Report.Disk})
	}
	v, err := manager.Change(s.Record.View, newcomers, leave)
	if err != nil {
		t.Fatal(err)
	}
	s.Record.View = v
	told(s)
}

// Where large values are stored as fragments, nobody who joins may be missing for those who leave; where they are stored
// whole, a majority is enough.
func TestAChangeWithFragmentsNeedsASuccessorForEachThatLeaves(t *testing.T) {
	all := []view.MemberID{1, 2, 3, 4, 5}
	for name, c := range map[string]struct {
		fragments int32
		fetched   []view.MemberID
		lost      []view.MemberID
		want      string
	}{
		"all are done":              {3, []view.MemberID{6, 7, 8, 9, 10}, nil, "FinishingChange 3 with 6 7 8 9 10"},
		"k + f are done":            {3, []view.MemberID{6, 7, 8, 9}, []view.MemberID{10}, "FinishingChange 3 with 6 7 8 9 10"},
		"a majority is done":        {3, []view.MemberID{6, 7, 8}, []view.MemberID{9, 10}, "AbandoningChange 3 with 1 2 3 4 5"},
		"two are not done yet":      {3, []view.MemberID{6, 7, 8}, nil, ""},
		"a majority, and all whole": {0, []view.MemberID{6, 7, 8}, []view.MemberID{9, 10}, "FinishingChange 3 with 6 7 8 9 10"},
		"of k + f, one is not done": {3, []view.MemberID{6, 7, 8}, []view.MemberID{10}, "AbandoningChange 3 with 1 2 3 4 5"},
	} {
		t.Run(name, func(t *testing.T) {
			s := relaxed(5, 1, c.fragments)
			exchange(t, s, all...)
			fetched(s, c.fetched...)
			for _, id := range c.lost {
				gone(s, id)
			}
			if got := line(Next(*s).Step); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// fewer is a change from five members to three, of which everybody was told.
func fewer(t *testing.T, s *world.Snapshot) {
	t.Helper()
	s.Cluster.Spec.Sites = testCluster(3).Spec.Sites
	v, err := manager.Change(s.Record.View, nil, []view.MemberID{4, 5})
	if err != nil {
		t.Fatal(err)
	}
	s.Record.View = v
	told(s)
}

// A majority of those after a change that makes members fewer is lost: the five can go on, and the three can't.
func TestAShrinkingChangeWhoseMembersAreLostIsAbandoned(t *testing.T) {
	anew := func(s *world.Snapshot, id view.MemberID) { // its disk is an empty one now
		r := s.Member(id).Report
		r.Role, r.Disk, r.Incarnation, r.Quorum = world.Learner, "another", 2, false
	}
	for name, c := range map[string]struct {
		lose func(s *world.Snapshot)
		want string
	}{
		"two of three have lost their volumes": {func(s *world.Snapshot) { gone(s, 2); gone(s, 3) }, "AbandoningChange 3 with 1 2 3 4 5"},
		"two of three have new disks":          {func(s *world.Snapshot) { anew(s, 2); anew(s, 3) }, "AbandoningChange 3 with 1 2 3 4 5"},
		"one volume, and one new disk":         {func(s *world.Snapshot) { gone(s, 2); anew(s, 3) }, "AbandoningChange 3 with 1 2 3 4 5"},
		"one has lost its volume":              {func(s *world.Snapshot) { gone(s, 2) }, ""},
		"and those before it are too few":      {func(s *world.Snapshot) { gone(s, 2); gone(s, 3); silent(s, 4) }, ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(5)
			fewer(t, s)
			c.lose(s)
			p := Next(*s)
			if got := line(p.Step); got != c.want {
				t.Errorf("%q, want %q: %q", got, c.want, summary(p))
			}
		})
	}
}
