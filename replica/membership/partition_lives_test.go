package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

func TestLivesBeginAndEnd(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	v.Partitions = v.Partitions[:1] // 1 [2] w[5]
	v.Epoch = 4
	v.Partitions[0].Term = 4
	v.Partitions[0].Formers = []view.Former{
		{Term: 3, Master: 1, Backups: []view.MemberID{2}, Witnesses: []view.MemberID{5}},
	}
	s := snapshot(v, p)
	s.Witnesses[1].Lives = []Life{{5, 0, 1}, {5, 0, 3}, {5, 0, 9}}
	s.Witnesses[2].Lives = []Life{{6, 0, 2}}
	start, end := Lives(s)
	if !slices.Equal(start, []Life{{5, 0, 4}}) || !slices.Equal(end, []Life{{5, 0, 1}, {6, 0, 2}}) {
		t.Errorf("start %v, end %v", start, end)
	}
	s.Witnesses[1].Lives = append(s.Witnesses[1].Lives, Life{5, 0, 4})
	late := s // a view of epoch 3 was forgotten
	late.View.Partitions = []view.Partition{v.Partitions[0]}
	late.View.Partitions[0].Term, late.View.Partitions[0].Formers = 2, nil
	late.Members = slices.Clone(s.Members)
	for i := range late.Members {
		late.Members[i].Digest = late.View.Digest()
	}
	late.Witnesses = []WitnessReport{
		{Witness: 5, Disk: s.Witnesses[1].Disk, Lives: []Life{{5, 0, 2}, {5, 0, 3}, {5, 0, 5}}},
	}
	if start, end = Lives(late); len(start) != 0 || !slices.Equal(end, []Life{{5, 0, 3}}) {
		t.Errorf("start %v, end %v", start, end)
	}
	s.Members[0].Digest, s.Members[1].Digest = "", ""
	if start, end = Lives(s); len(start)+len(end) != 0 {
		t.Errorf("not held by a quorum: start %v, end %v", start, end)
	}
	s.Witnesses[1] = WitnessReport{Witness: 5, Disk: "other"}
	if start, _ = Lives(s); len(start) != 0 {
		t.Errorf("a lost disk begins %v", start)
	}
}

func TestWitnessesComeAndGo(t *testing.T) {
	v, _ := placed(t, 3, 1, false)
	v.Partitions = v.Partitions[:1] // 1 [2] w[5]
	if got := Idle(v); !slices.Equal(got, []view.MemberID{4, 6}) {
		t.Errorf("idle are %v", got)
	}
	next, err := ChangeWitnesses(v, []view.Witness{{ID: 7, Site: "b", Beside: 2, Disk: "new"}}, []view.MemberID{6})
	if err != nil || next.Epoch != 2 || len(next.Witnesses) != 3 || next.LastIssued() != 7 || len(v.Witnesses) != 3 {
		t.Fatalf("%+v, %v", next, err)
	}
	again, err := ChangeWitnesses(next, nil, []view.MemberID{7})
	if err != nil || again.LastIssued() != 7 {
		t.Errorf("IDs up to %d were given, want 7: %v", again.LastIssued(), err)
	}
	for want, try := range map[string]func() error{
		"partition 0 needs it": func() error { _, err := ChangeWitnesses(v, nil, []view.MemberID{5}); return err },
		"9 is to go":           func() error { _, err := ChangeWitnesses(v, nil, []view.MemberID{9}); return err },
		"IDs up to 7": func() error {
			_, err := ChangeWitnesses(again, []view.Witness{{ID: 7, Disk: "d"}}, nil)
			return err
		},
		"not named its disk": func() error { _, err := ChangeWitnesses(v, []view.Witness{{ID: 8}}, nil); return err },
		"beside member 9": func() error {
			_, err := ChangeWitnesses(v, []view.Witness{{ID: 8, Disk: "d", Beside: 9}}, nil)
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// Who leaves hands over first, and who joined and got a part can't be sent away by an abandoned change.
func TestMembersThatHaveAPartStay(t *testing.T) {
	v, _ := placed(t, 3, 1, false)
	joint, err := Change(v, []Founder{{ID: 7, Site: "d", Disk: "d"}}, []view.MemberID{1})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Finish(joint); err == nil ||
		!strings.Contains(err.Error(), "member 1 would not be in the view, and partition 0 needs it") {
		t.Errorf("finished: %v", err)
	}
	joint.Partitions = slices.Clone(joint.Partitions)
	joint.Partitions[0].Backups = []view.MemberID{7}
	if _, err := Abandon(joint); err == nil ||
		!strings.Contains(err.Error(), "member 7 would not be in the view, and partition 0 needs it") {
		t.Errorf("abandoned: %v", err)
	}
}
