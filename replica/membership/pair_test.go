package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func TestPairedIDs(t *testing.T) {
	for _, c := range []struct {
		last view.MemberID
		want []view.MemberID
	}{
		{0, []view.MemberID{1, 3, 5}},
		{6, []view.MemberID{7, 9, 11}},
		{7, []view.MemberID{9, 11, 13}}, // the witness of 7 may be about to come
	} {
		if got := PairedIDs(c.last, 3); !slices.Equal(got, c.want) {
			t.Errorf("after %d come %v, want %v", c.last, got, c.want)
		}
	}
}

// Two newcomers have been named together, and the witness of the first comes after both; it neither goes nor comes
// again while its member is there.
func TestTheWitnessOfANewcomerComesLater(t *testing.T) {
	v := pairs(t, 3, 1)
	ids := PairedIDs(v.LastIssued(), 2)
	joint, err := Change(v, []Founder{{ID: ids[0], Site: "d", Disk: "d7"}, {ID: ids[1], Site: "e", Disk: "d9"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, err := ChangeWitnesses(joint,
		[]view.Witness{{ID: WitnessOf(ids[0]), Site: "d", Disk: "w7", Beside: ids[0]}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for want, try := range map[string]func() error{
		"8 goes only with member 7": func() error {
			_, err := ChangeWitnesses(next, nil, []view.MemberID{8})
			return err
		},
		"is named twice": func() error {
			_, err := ChangeWitnesses(next, []view.Witness{{ID: 8, Disk: "other", Beside: 7}}, nil)
			return err
		},
		"IDs up to 9": func() error {
			_, err := ChangeWitnesses(next, []view.Witness{{ID: 8, Disk: "w", Beside: 9}}, nil)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// pairs is a placed view of members 1, 3, 5, ... with a witness beside each.
func pairs(t *testing.T, n, faults int) view.View {
	t.Helper()
	v := view.View{Cluster: "c", Epoch: 1, Since: 1}
	var witnesses []view.Witness
	for i, id := range PairedIDs(0, n) {
		site := string(rune('a' + i))
		v.Members = append(v.Members, view.Member{ID: id, Site: site, Disk: "d" + site})
		witnesses = append(witnesses, view.Witness{ID: WitnessOf(id), Site: site, Disk: "w" + site, Beside: id})
	}
	v, err := Place(v, witnesses, Placement{Partitions: n, Faults: faults})
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// A change that is given up takes the witnesses of its newcomers away, and their IDs with them.
func TestAnAbandonedNewcomerTakesItsWitnessAlong(t *testing.T) {
	v := pairs(t, 3, 1)
	joint, err := Change(v, []Founder{{ID: 7, Site: "d", Disk: "d7"}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	joint, err = ChangeWitnesses(joint, []view.Witness{{ID: 8, Site: "d", Disk: "w7", Beside: 7}}, nil)
	if err != nil {
		t.Fatal(err)
	}
	next, err := Abandon(joint)
	if err != nil || len(next.Witnesses) != 3 || !slices.Equal(PairedIDs(next.LastIssued(), 1), []view.MemberID{9}) {
		t.Errorf("%+v, %v", next, err)
	}
}
