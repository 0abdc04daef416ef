package view

import (
	"strings"
	"testing"
)

func masters() View {
	return View{
		Cluster: "c", Epoch: 5,
		Members: []Member{{ID: 1, Site: "ca"}, {ID: 2, Site: "va"}, {ID: 3, Site: "ir"}, {ID: 7, Site: "or"}},
		Witnesses: []Witness{
			{ID: 4, Site: "ca", Beside: 1}, {ID: 5, Site: "va", Beside: 2}, {ID: 6, Site: "ir", Beside: 3},
			{ID: 8, Site: "ir"},
		},
		Partitions: []Partition{{
			Term: 5, Master: 2, Backups: []MemberID{3, 1}, Witnesses: []MemberID{6, 8},
			Formers: []Former{
				{Term: 2, Master: 1, Backups: []MemberID{2, 3}, Witnesses: []MemberID{5, 6}},
				{Term: 4, Master: 3, Backups: []MemberID{2, 1}, Witnesses: []MemberID{5, 4}},
			},
		}},
	}
}

func TestPartitionsAreValidated(t *testing.T) {
	if err := masters().Validate(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(*View){
		"its term 0":           func(v *View) { v.Partitions[0].Term = 0 },
		"its term 6":           func(v *View) { v.Partitions[0].Term = 6 },
		"member 9 is not in":   func(v *View) { v.Partitions[0].Master = 9 },
		"member 8 is not in":   func(v *View) { v.Partitions[0].Backups[0] = 8 },
		"member 2 has two":     func(v *View) { v.Partitions[0].Backups[0] = 2 },
		"witness 9 is not in":  func(v *View) { v.Partitions[0].Witnesses[0] = 9 },
		"witness 8 is named":   func(v *View) { v.Partitions[0].Witnesses[0] = 8 },
		"beside the master 2":  func(v *View) { v.Partitions[0].Witnesses[0] = 5 },
		"the terms 0 and 5":    func(v *View) { v.Partitions[0].Formers[0].Term = 5 },
		"the terms 4 and 4":    func(v *View) { v.Partitions[0].Formers[0].Term = 4 },
		"witness 0 is outside": func(v *View) { v.Witnesses[0].ID = 0 },
		"fewer disks":          func(v *View) { v.Partitions[0].Witnesses = v.Partitions[0].Witnesses[:1] },
		"7 is named twice":     func(v *View) { v.Witnesses[0].ID = 7 },
		"5 is named twice":     func(v *View) { v.Witnesses[0].ID = 5 },
		"beside member 9":      func(v *View) { v.Witnesses[0].Beside = 9 },
	} {
		v := masters()
		spoil(&v)
		if err := v.Validate(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

func TestIDsOfWitnessesAreIssuedOnce(t *testing.T) {
	if got := masters().LastIssued(); got != 8 {
		t.Errorf("the last ID is %d, want 8", got)
	}
}

func TestPartitionsAreInTheDigest(t *testing.T) {
	a, b := masters(), masters()
	b.Partitions[0].Term = 4
	if a.Digest() == b.Digest() {
		t.Error("another term, the same digest")
	}
	if c := a.Partitions[0].Former(); c.Term != 5 || c.Master != 2 || len(c.Backups) != 2 || len(c.Witnesses) != 2 {
		t.Errorf("as a former: %+v", c)
	}
}

// A list that is empty is written as one that is not there, and so is read back.
func TestEmptyListsAreNotInTheDigest(t *testing.T) {
	a, b := masters(), masters()
	a.Partitions[0].Backups, a.Partitions[0].Witnesses = nil, nil
	b.Partitions[0].Backups, b.Partitions[0].Witnesses = []MemberID{}, []MemberID{}
	a.Partitions[0].Formers = []Former{{Term: 1, Master: 2}}
	b.Partitions[0].Formers = []Former{{Term: 1, Master: 2, Backups: []MemberID{}, Witnesses: []MemberID{}}}
	if a.Digest() != b.Digest() {
		t.Error("nothing and an empty list make two digests")
	}
	if b.Partitions[0].Backups == nil || b.Partitions[0].Formers[0].Witnesses == nil {
		t.Error("the view was changed")
	}
}
