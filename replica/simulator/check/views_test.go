package check

import (
	"errors"
	"testing"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// What views and protocols say of quorums is what they are for, in changes of up to nine members.
func TestQuorumsAreWhatTheyAreFor(t *testing.T) {
	for _, shape := range []string{
		"s", "ss", "sss", "ssss", "sssss", "ssssss", "sssssss", "ssssssss", "sssssssss", "sj", "sl", "lj", "ssj",
		"ssl", "slj",
		"sslj", "ssslj", "sllljjj", "llljjj", "sslllj", "sssssjj", "ssssjjjjj", "sssssssll", "slllljjjj",
	} {
		if err := errors.Join(judgeOrdered(shape), judgeCounts(shape)); err != nil {
			t.Errorf("%s: %v", shape, err)
		}
	}
}

// A partition that begins again empty is at its home if a member is there.
func TestWhoBeginsAgainEmptyIsAtHome(t *testing.T) {
	v := view.View{
		Members:    []view.Member{{ID: 1, Site: "a"}, {ID: 2, Site: "b"}, {ID: 3, Site: "c"}},
		Partitions: []view.Partition{{Master: 1}, {Master: 1}},
	}
	for name, c := range map[string]struct {
		homes     []string
		partition int
		away      bool
	}{
		"at the first site":   {nil, 0, false},
		"at another one":      {nil, 1, true},
		"as it is given":      {[]string{"", "a"}, 1, false},
		"not as it is given":  {[]string{"c"}, 0, true},
		"nobody is there":     {[]string{"d"}, 0, false},
		"others' homes count": {[]string{"c"}, 1, true},
	} { // order is irrelevant: each is a test
		if away := awayFromHome(&membership.Placement{Homes: c.homes}, v, c.partition); away != c.away {
			t.Errorf("%s: %v", name, away)
		}
	}
}

// Lives are those of witnesses that the view has, on the disks that it names.
func TestWhoIsToldOfLives(t *testing.T) {
	s := membership.Snapshot{
		View:      view.View{Witnesses: []view.Witness{{ID: 2, Disk: "b"}, {ID: 4, Disk: "d"}}},
		Witnesses: []membership.WitnessReport{{Witness: 2, Disk: "b"}, {Witness: 4, Disk: "new"}, {Witness: 6}},
	}
	for witness, ok := range map[view.MemberID]bool{2: true, 4: false, 6: false, 8: false} { // order is irrelevant
		life := []membership.Life{{Witness: witness}}
		if err := Lives(s, life, nil); (err == nil) != ok {
			t.Errorf("witness %d begins: %v", witness, err)
		}
		if err := Lives(s, nil, life); (err == nil) != ok {
			t.Errorf("witness %d ends: %v", witness, err)
		}
	}
}
