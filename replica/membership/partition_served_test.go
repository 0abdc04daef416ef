package membership

import (
	"slices"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// A master whose disk is sound copies the state, and can't serve. What it says of its term counts all the same: with
// the disk of its only backup lost, it is the only one who can say that the term never served.
func TestWhoCopiesSaysThatItsTermNeverServed(t *testing.T) {
	v, p := placed(t, 5, 1, false)
	v.Epoch = 2
	v.Partitions, p.Partitions, p.Homes = v.Partitions[:1], 1, []string{"a"}
	v.Partitions[0] = view.Partition{Term: 2, Master: 3, Backups: []view.MemberID{4}, Witnesses: []view.MemberID{9},
		Formers: []view.Former{{Term: 1, Master: 1, Backups: []view.MemberID{2}, Witnesses: []view.MemberID{7}}}}
	s := snapshot(v, p)
	for _, m := range v.Members {
		s.told(m.ID, unserved(2))
	}
	s.told(3, func(r *MemberReport) { r.Partitions[0] = Part{Term: 2, Lost: true, Copying: true} })
	s.told(4, func(r *MemberReport) { r.Disk, r.Partitions[0].Lost = "another", true })
	if d := Decide(s); !d.Changed() || !slices.Contains([]view.MemberID{1, 2}, d.Next.Partitions[0].Master) {
		t.Errorf("%q, %q", d.Changes, d.Waits)
	}
}
