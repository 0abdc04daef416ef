package membership

import (
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/view"
)

// A partition is split out of a term without witnesses, and the new one goes to its home.
func TestAPartitionIsSplit(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	p.Partitions, p.Homes = 4, []string{"", "", "", "b"}
	var got []string
	for range 12 {
		s := snapshot(v, p)
		for i := range s.Members {
			for j := range s.Members[i].Partitions {
				s.Members[i].Partitions[j].Recovered = true
			}
		}
		d := Decide(s)
		if !d.Changed() {
			break
		}
		v = d.Next
		line := text(v.Partitions[0])
		if len(v.Partitions) > 3 {
			line += " | " + text(v.Partitions[3])
		}
		got = append(got, line)
	}
	want := []string{
		"2: 1 [2] w[] <1", "2: 1 [2] w[]", "4: 1 [2] w[5] <2 | 4: 1 [2] w[5] <2", "4: 1 [2] w[5] | 4: 1 [2] w[5]",
		"4: 1 [2] w[5] | 6: 1 [2] w[] <4", "4: 1 [2] w[5] | 6: 1 [2] w[]", "4: 1 [2] w[5] | 8: 2 [3] w[6] <6",
	}
	if len(got) < len(want) || !slices.Equal(got[:len(want)], want) {
		t.Fatalf("%q, want %q", got, want)
	}
	if v.Founded != 3 || v.Partitions[3].Split != 4 || v.Partitions[0].Split != 0 {
		t.Errorf("founded %d, split in %d and %d", v.Founded, v.Partitions[3].Split, v.Partitions[0].Split)
	}
	for i := range 3 {
		if i > 0 && v.Partitions[i].Term != 1 {
			t.Errorf("partition %d is %s", i, text(v.Partitions[i]))
		}
	}
}

// It is not split while something else is to be done with it.
func TestASplitWaits(t *testing.T) {
	for name, c := range map[string]struct {
		say  func(s *Snapshot)
		want string
	}{
		"a member is drained that is its backup": {func(s *Snapshot) {
			s.Drained = []view.MemberID{2}
		}, "2: 1 [3] w[5] <1"},
		"its home is elsewhere":    {func(s *Snapshot) { s.Placement.Homes = []string{"b"} }, "2: 1 [2] w[] <1"},
		"the view changes members": {func(s *Snapshot) { s.View.Members[2].Leaving = true }, ""},
		"it recovers": {func(s *Snapshot) {
			s.View.Epoch++
			s.View.Partitions[0].Term, s.View.Partitions[0].Formers = 2, []view.Former{s.View.Partitions[0].Former()}
		}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			v, p := placed(t, 3, 1, false)
			p.Partitions = 4
			s := snapshot(v, p)
			c.say(&s)
			for i := range s.Members {
				s.Members[i].Digest = s.View.Digest()
			}
			got := ""
			d := Decide(s)
			if d.Changed() && text(d.Next.Partitions[0]) != text(s.View.Partitions[0]) {
				got = text(d.Next.Partitions[0])
			}
			if got != c.want || d.Changed() && len(d.Next.Partitions) != 3 {
				t.Errorf("%q, want %q: %s", got, c.want, strings.Join(append(d.Lines(), d.Waits...), "; "))
			}
		})
	}
}

// A quorum that is lost and given up leaves partitions that were split off what they are.
func TestSplitsOutliveALostQuorum(t *testing.T) {
	v, p := placed(t, 3, 1, false)
	v.Epoch, v.Founded, p.Partitions = 2, 3, 4
	child := v.Partitions[0]
	child.Term, child.Split = 2, 2
	v.Partitions = append(v.Partitions, child)
	s := snapshot(v, p, 1, 3) // 2 is left: partition 2, of 3 and 1, is lost
	d, err := RecoverPartitions(s, []int{2})
	if err != nil || len(d.View.Partitions) != 4 {
		t.Fatalf("%+v: %v", d, err)
	}
	if err := d.View.Validate(); err != nil || d.View.Founded != 3 || d.View.Partitions[3].Split != 2 {
		t.Errorf("%+v: %v", d.View, err)
	}
}
