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
