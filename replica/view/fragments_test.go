package view

import (
	"slices"
	"testing"
)

// exchanged is a joint view in which so many of n members leave and others join.
func exchanged(n, leave, join int) View {
	v := View{Cluster: "c", Epoch: 2}
	for i := range n + join {
		v.Members = append(v.Members, Member{ID: MemberID(i + 1), Leaving: i < leave, Joining: i >= n})
	}
	return v
}

func TestHolders(t *testing.T) {
	for _, c := range []struct {
		fragments Fragments
		n, want   int
	}{
		{Fragments{Data: 1}, 5, 3},
		{Fragments{Data: 3, Faults: 1}, 5, 4},
		{Fragments{Data: 5, Faults: 1}, 7, 6},
		{Fragments{Data: 3, Faults: 2}, 7, 5},
		{Fragments{Data: 1, Faults: 1}, 7, 4}, // a majority
		{Fragments{Data: 3, Faults: 2}, 3, 4}, // of which one may be lost
		{Fragments{Data: 3, Faults: 1}, 1, 3}, // more than there are
	} {
		if got := c.fragments.Holders(exchanged(c.n, 0, 0)); got != c.want {
			t.Errorf("%+v of %d members: %d, want %d", c.fragments, c.n, got, c.want)
		}
	}
}

func TestRestorable(t *testing.T) {
	three, five := Fragments{Data: 3, Faults: 1}, Fragments{Data: 5, Faults: 1}
	for name, c := range map[string]struct {
		fragments Fragments
		joint     View
		fetched   []MemberID
		want      bool
	}{
		"whole values":                           {Fragments{}, exchanged(5, 5, 5), []MemberID{6, 7, 8}, true},
		"nobody for the one who leaves":          {three, exchanged(5, 1, 1), nil, false},
		"one for one":                            {three, exchanged(5, 1, 1), []MemberID{6}, true},
		"two for three":                          {three, exchanged(5, 3, 3), []MemberID{6, 7}, false},
		"three for three":                        {three, exchanged(5, 3, 3), []MemberID{6, 7, 8}, true},
		"three for four":                         {three, exchanged(5, 4, 4), []MemberID{6, 7, 8}, false},
		"three for five":                         {three, exchanged(5, 5, 5), []MemberID{6, 7, 8}, false},
		"four for five: k + f":                   {three, exchanged(5, 5, 5), []MemberID{6, 7, 8, 9}, true},
		"five for five of seven":                 {five, exchanged(7, 5, 5), []MemberID{8, 9, 10, 11, 12}, true},
		"four for five of seven":                 {five, exchanged(7, 5, 5), []MemberID{8, 9, 10, 11}, false},
		"who stays fetched too":                  {three, exchanged(5, 4, 4), []MemberID{5, 6, 7, 8}, true},
		"more join than are needed":              {three, exchanged(5, 0, 2), nil, true},
		"f grows with the members":               {Fragments{Data: 1}, exchanged(3, 0, 2), nil, false},
		"and one has fetched":                    {Fragments{Data: 1}, exchanged(3, 0, 2), []MemberID{4}, true},
		"one that was trusted grows":             {three, exchanged(1, 0, 4), []MemberID{2, 3, 4}, true},
		"and fewer have fetched":                 {three, exchanged(1, 0, 4), []MemberID{2, 3}, false},
		"and there are not enough for k + f yet": {three, exchanged(1, 0, 2), []MemberID{2, 3}, true},
		"and one of these has not fetched":       {three, exchanged(1, 0, 2), []MemberID{2}, false},
	} {
		got := c.fragments.Restorable(c.joint, func(id MemberID) bool { return slices.Contains(c.fetched, id) })
		if got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
