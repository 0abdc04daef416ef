package membership

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// keepers are the partitions of a view in few words.
func keepers(v view.View) string {
	var all []string
	for _, p := range v.Partitions {
		text := fmt.Sprintf("%d %v w%v", p.Master, p.Backups, p.Witnesses)
		for _, f := range p.Formers {
			text += fmt.Sprintf(" <%d w%v", f.Term, f.Witnesses)
		}
		if p.Empty {
			text += " empty"
		}
		all = append(all, text)
	}
	return strings.Join(all, "; ")
}

// Of three members with a backup each one is left: it has the shard that it is the master of, and the one that it is
// a backup of, with the witness beside it. Of the third one it has what it followed, and that goes on only by its
// number; if it were copying, it would have nothing.
func TestOneOfThreeIsLeft(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	s := snapshot(v, p, 2, 3)
	d, err := RecoverPartitions(s, []int{0, 2}) // of others, which are not lost
	if err != nil || d.View.Epoch != 0 || !slices.Equal(d.Lost, []int{1}) ||
		!slices.Equal(d.Behind, []int{1}) || d.Emptied != nil {
		t.Fatalf("%+v: %v", d, err)
	}
	d, err = RecoverPartitions(s, []int{0, 1, 2})
	if got := keepers(d.View); err != nil || got != "1 [] w[] <1 w[]; 1 [] w[]; 1 [] w[] <1 w[4]" {
		t.Errorf("%s: %v", got, err)
	}
	if !slices.Equal(d.Behind, []int{1}) || d.Emptied != nil || d.Lost != nil || d.Shortened != nil ||
		!Recovered(d.View) || Recovered(v) {
		t.Errorf("%+v", d)
	}
	s.told(1, func(r *MemberReport) { r.Partitions[1].Copying = true })
	if d, err := RecoverPartitions(s, nil); err != nil || d.View.Epoch != 0 || !slices.Equal(d.Lost, []int{1}) ||
		!slices.Equal(d.Emptied, []int{1}) || d.Behind != nil {
		t.Errorf("%+v: %v", d, err)
	}
	if d, err := RecoverPartitions(s, []int{1}); err != nil ||
		keepers(d.View) != "1 [] w[] <1 w[]; 1 [] w[] empty; 1 [] w[] <1 w[4]" || !slices.Equal(d.Emptied, []int{1}) {
		t.Errorf("%s: %v", keepers(d.View), err)
	}
	if n := d.View; n.Epoch != 2 || n.Size() != 1 || len(n.Witnesses) != 1 || n.Issued != 6 {
		t.Errorf("%+v", n)
	}
	s = snapshot(v, p, 2, 3)
	s.Witnesses = nil // the one beside it lost its disk
	if d, err = RecoverPartitions(s, []int{1}); err != nil || !slices.Equal(d.Shortened, []int{2}) {
		t.Errorf("%+v: %v", d, err)
	}
}

// Of five members with two backups each, two are left.
func TestTwoOfFiveAreLeft(t *testing.T) {
	v, p := placed(t, 5, 2, false)
	for _, tt := range []struct {
		left string // by who is dead
		dead []view.MemberID
		lost []int
		want string
	}{
		{"1 and 2", []view.MemberID{3, 4, 5}, []int{2},
			"1 [] w[] <1 w[7]; 2 [] w[] <1 w[]; 1 [] w[]; 1 [] w[] <1 w[6]; 1 [] w[] <1 w[6 7]"},
		{"1 and 3", []view.MemberID{2, 4, 5}, nil,
			"1 [] w[] <1 w[8]; 3 [] w[] <1 w[8]; 3 [] w[] <1 w[]; 1 [] w[] <1 w[6]; 1 [] w[] <1 w[6]"},
	} {
		s := snapshot(v, p, tt.dead...)
		d, err := RecoverPartitions(s, nil)
		if err != nil || !slices.Equal(d.Lost, tt.lost) {
			t.Fatalf("%s: %+v: %v", tt.left, d, err)
		}
		if d, err = RecoverPartitions(s, []int{2}); err != nil || keepers(d.View) != tt.want {
			t.Errorf("%s: %s, want %s: %v", tt.left, keepers(d.View), tt.want, err)
		}
	}
	// Of two backups the one with the longer log is chosen, of the term that the view has.
	s := snapshot(v, p, 3, 4, 5)
	s.told(2, func(r *MemberReport) { r.Partitions[4].Length = 9 })
	if d, err := RecoverPartitions(s, []int{2}); err != nil || d.View.Partitions[4].Master != 2 {
		t.Errorf("%s: %v", keepers(d.View), err)
	}
	s.told(2, func(r *MemberReport) { r.Partitions[4].Lost = true })
	if d, err := RecoverPartitions(s, []int{2}); err != nil || d.View.Partitions[4].Master != 1 {
		t.Errorf("%s: %v", keepers(d.View), err)
	}
}

// Of a shard whose master and backups are all lost, the learner goes on that has followed furthest, and others with a
// copy are its backups.
func TestAShardGoesOnFromWhoHasFollowedFurthest(t *testing.T) {
	v, p := placed(t, 7, 2, false)
	v.Epoch = 5
	v.Partitions[0] = view.Partition{
		Term: 5, Master: 4, Backups: []view.MemberID{5, 6}, Witnesses: []view.MemberID{12, 13},
	}
	const lost = " w[] empty"
	for name, tt := range map[string]struct {
		parts [3]Part // of the learners 1, 2 and 3
		want  string
	}{
		"the longest log": {
			[3]Part{{WholeTerm: 5, Length: 7}, {WholeTerm: 5, Length: 9}, {WholeTerm: 5, Length: 8}}, "2 [3] w[10]",
		},
		"the first of equals": {
			[3]Part{{WholeTerm: 5, Length: 9}, {WholeTerm: 5, Length: 9}, {WholeTerm: 5, Length: 9}}, "1 [2] w[9]",
		},
		"a longer log of an earlier term": {
			[3]Part{{WholeTerm: 4, Length: 19}, {WholeTerm: 5, Length: 9}, {WholeTerm: 3, Length: 29}}, "2 [3] w[10]",
		},
		"a longer log that is lost or a part": {
			[3]Part{{WholeTerm: 5, Length: 19, Lost: true}, {WholeTerm: 5, Length: 29, Copying: true},
				{WholeTerm: 4, Length: 1}}, "3 [] w[]",
		},
		"one that has nothing yet": {[3]Part{{}, {WholeTerm: 4}, {NotedTerm: 4}}, "2 [] w[]"},
		"who lost the disk is no backup": {
			[3]Part{{WholeTerm: 5, Length: 9}, {WholeTerm: 5, Length: 9, Lost: true}, {Length: 2}}, "1 [3] w[10]",
		},
		"a part, nothing, and nothing that counts": {
			[3]Part{{Copying: true, Length: 9}, {NotedTerm: 4}, {WholeTerm: 5, Length: 9, Lost: true}}, lost,
		},
	} {
		s := snapshot(v, p, 4, 5, 6, 7)
		for i, part := range tt.parts {
			part.Term = 5
			s.told(view.MemberID(i+1), func(r *MemberReport) { r.Partitions[0] = part })
		}
		d, err := RecoverPartitions(s, []int{0, 3, 4})
		got := strings.Split(keepers(d.View), ";")[0]
		if err != nil || got != tt.want && (tt.want != lost || !strings.HasSuffix(got, " empty")) {
			t.Errorf("%s: %s, want %s: %v", name, got, tt.want, err)
		}
		if empty := tt.want == lost; slices.Contains(d.Emptied, 0) != empty || slices.Contains(d.Behind, 0) == empty {
			t.Errorf("%s: %+v", name, d)
		}
	}
	s := snapshot(v, p, 4, 5, 6, 7)
	s.told(3, func(r *MemberReport) { r.Partitions[0].Term = 4 })
	if _, err := RecoverPartitions(s, []int{0, 3, 4}); err == nil ||
		!strings.Contains(err.Error(), "member 3 has not said yet what it has of partition 0") {
		t.Errorf("what one that is left has is not known: %v", err)
	}
}

// A backup whose disk does not have its part is none in the next term: its master would wait for it.
func TestALostBackupIsNoneAfterALostQuorum(t *testing.T) {
	v, p := placed(t, 7, 3, false)
	s := snapshot(v, p, 4, 5, 6, 7)
	s.told(2, func(r *MemberReport) { r.Partitions[0].Lost = true })
	d, err := RecoverPartitions(s, []int{3, 4, 5, 6})
	if got := strings.Split(keepers(d.View), ";")[0]; err != nil || got != "1 [3] w[10] <1 w[9 10]" {
		t.Errorf("%s: %v", got, err)
	}
}

// A master that was recovering when the quorum was lost has what its former term's backups had; one that only became a
// backup in the term that is not recovered yet may have not.
func TestALostQuorumInARecovery(t *testing.T) {
	v, p := placed(t, 5, 1, false)
	v.Epoch = 2
	v.Partitions[0] = view.Partition{Term: 2, Master: 2, Backups: []view.MemberID{3}, Witnesses: []view.MemberID{8},
		Formers: []view.Former{{Term: 1, Master: 1, Backups: []view.MemberID{2}, Witnesses: []view.MemberID{7}}}}
	all := []int{1, 2, 3, 4}
	s := snapshot(v, p, 2, 4, 5)
	if d, err := RecoverPartitions(s, all); err != nil || d.View.Partitions[0].Master != 3 {
		t.Errorf("member 3 was no backup in term 1, and has all that was recovered from it: %s: %v",
			keepers(d.View), err)
	}
	s.told(3, func(r *MemberReport) { r.Partitions[0].WholeTerm = 0 })
	if d, err := RecoverPartitions(s, all); err != nil || !slices.Equal(d.Lost, []int{0}) ||
		!slices.Contains(d.Behind, 0) {
		t.Errorf("member 3 has dropped it: %s: %v", keepers(d.View), err)
	}
	s.told(3, func(r *MemberReport) { r.Partitions[0].NotedTerm = 0 })
	if d, err := RecoverPartitions(s, all); err != nil || d.View.Partitions[0].Master != 1 {
		t.Errorf("member 3 never had it, so that term 2 has not served, and member 1 has all of term 1: %s: %v",
			keepers(d.View), err)
	}
	s = snapshot(v, p, 1, 4, 5, 7)
	s.told(2, unserved(2))
	if d, err := RecoverPartitions(s, all); err != nil || !slices.Equal(d.Shortened, []int{0}) {
		t.Errorf("witness 7 is lost: %+v: %v", d, err)
	}
	s = snapshot(v, p, 1, 4, 5)
	d, err := RecoverPartitions(s, all)
	if got := strings.Split(keepers(d.View), ";")[0]; err != nil ||
		got != "2 [] w[8] <1 w[7] <2 w[8]" && got != "2 [] w[] <1 w[7] <2 w[8]" {
		t.Errorf("%s: %v", got, err)
	}
	if s.View.Digest() != v.Digest() || len(v.Partitions[0].Formers[0].Witnesses) != 1 ||
		v.Partitions[0].Formers[0].Witnesses[0] != 7 {
		t.Errorf("the view became %s", keepers(v))
	}
	s.told(2, recovered(0)) // which was not recorded any more
	d, err = RecoverPartitions(s, all)
	if got := strings.Split(keepers(d.View), ";")[0]; err != nil || got != "2 [] w[] <2 w[8]" {
		t.Errorf("%s: %v", got, err)
	}
}

func TestRecoverPartitionsRefuses(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	ahead := snapshot(v, p, 2, 3)
	ahead.told(1, func(r *MemberReport) { r.Epoch = 9 })
	other := snapshot(v, p, 2, 3)
	other.told(1, func(r *MemberReport) { r.Disk = "another" })
	plain := v
	plain.Partitions = nil
	for _, tt := range []struct {
		s    Snapshot
		want string
	}{
		{snapshot(v, p, 2), "a quorum is left"},
		{snapshot(v, p, 1, 2, 3), "nobody is left"},
		{other, "nobody is left"},
		{ahead, "member 1 holds the view of epoch 9: rebuild the record first"},
		{snapshot(plain, p, 2, 3), "it has no partitions"},
	} {
		if d, err := RecoverPartitions(tt.s, []int{0, 1, 2}); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: %v, want %s", d, err, tt.want)
		}
	}
}

// Whoever is left, nothing goes on from a member that could miss what was synced while one is left that could not,
// and nothing is emptied while somebody has a whole copy.
func TestWhoeverIsLeft(t *testing.T) {
	v, p := placed(t, 7, 3, false)
	var counts [3]int
	for set := 1; set < 1<<7; set++ {
		var dead []view.MemberID
		for i := range 7 {
			if set&(1<<i) == 0 {
				dead = append(dead, view.MemberID(i+1))
			}
		}
		s := snapshot(v, p, dead...)
		for i := range s.Members { // some have no whole copy
			for j := range s.Members[i].Partitions {
				s.Members[i].Partitions[j].Copying = (set+i+j)%3 == 0 &&
					!v.Partitions[j].Former().Has(s.Members[i].Member)
			}
		}
		d, err := RecoverPartitions(s, []int{0, 1, 2, 3, 4, 5, 6})
		if quorum := len(dead) <= 3; quorum != (err != nil) {
			t.Fatalf("without %v: %v", dead, err)
		} else if quorum {
			continue
		}
		for i, next := range d.View.Partitions {
			was := v.Partitions[i]
			all := append([]view.MemberID{was.Master}, was.Backups...)
			held := slices.ContainsFunc(all, func(id view.MemberID) bool { return !slices.Contains(dead, id) })
			copied := slices.ContainsFunc(s.Members, func(r MemberReport) bool { return !r.Partitions[i].Copying })
			counts[index(held)+index(copied)]++
			switch {
			case slices.Contains(dead, next.Master), held &&
				!slices.Contains(all, next.Master), len(next.Backups) > d.View.Faults(),
				copied && s.part(next.Master, i).Copying, held == (len(next.Formers) == 0),
				next.Empty == copied, slices.Contains(d.Emptied, i) == copied, slices.Contains(d.Behind,
					i) != (copied && !held):
				t.Errorf("without %v: %+v became %+v: %+v", dead, was, next, d)
			}
		}
	}
	if slices.Contains(counts[:], 0) {
		t.Errorf("nobody, somebody with a copy, and somebody with all was left: %v", counts)
	}
}
