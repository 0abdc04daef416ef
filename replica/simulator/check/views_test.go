package check

import (
	"errors"
	"testing"

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
		if away := awayFromHome(c.homes, v, c.partition); away != c.away {
			t.Errorf("%s: %v", name, away)
		}
	}
}
