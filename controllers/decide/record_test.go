package decide

import (
	"testing"

	"github.com/georegister/georegister/controllers/world"
)

// Of two views of an epoch, which a record that was lost and made again can give to a cluster with masters, the one
// that a quorum holds is the cluster's, whatever the record says.
func TestTheViewThatAQuorumHolds(t *testing.T) {
	for _, c := range []struct {
		name    string
		holders []int // positions of the members that hold the other view
		exists  bool  // the record is there
		rebuilt bool
	}{
		{"two of three, and the record is the other", []int{1, 2}, true, true},
		{"two of three, and the record is missing", []int{1, 2}, false, true},
		{"one of three, and the record is what the others hold", []int{2}, true, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := clusterWithMasters(t)
			other := s.Record.View
			other.Issued = 99
			for _, i := range c.holders {
				hold(s, s.Members[i].ID, other)
			}
			if !c.exists {
				s.Record = world.Record{}
			}
			got, rebuilt := written(Next(*s).Step, "RebuildingRecord")
			if rebuilt != c.rebuilt || rebuilt && got.View.Digest() != other.Digest() {
				t.Errorf("rebuilt: %t, as %v; the view that a quorum holds is %s", rebuilt, got.View, other.Digest())
			}
		})
	}
}

// Where neither of two views is held by a quorum, a person decides.
func TestTwoViewsThatNoQuorumHolds(t *testing.T) {
	s := clusterWithMasters(t)
	other := s.Record.View
	other.Issued = 99
	hold(s, s.Members[2].ID, other)
	silent(s, s.Members[1].ID)
	s.Record = world.Record{}
	if step := Next(*s).Step; step != nil {
		t.Errorf("without a person: %v", step)
	}
}
