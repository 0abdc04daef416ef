package runtime

import (
	"slices"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/view"
)

func TestNearestFirst(t *testing.T) {
	const ms = time.Millisecond / rttGrain
	for name, test := range map[string]struct {
		away []bool
		rtts []time.Duration
		want []view.MemberID
	}{
		"as configured":          {[]bool{false, false, false}, []time.Duration{0, 0, 0}, []view.MemberID{4, 2, 3}},
		"as measured":            {[]bool{false, false, false}, []time.Duration{9 * ms, 5 * ms, 1 * ms}, []view.MemberID{3, 2, 4}},
		"the same within grains": {[]bool{false, false, false}, []time.Duration{1, 1, 1}, []view.MemberID{4, 2, 3}},
		"away goes last":         {[]bool{true, false, false}, []time.Duration{0, 5 * ms, 9 * ms}, []view.MemberID{2, 3, 4}},
	} {
		r := ranks{order: []view.MemberID{4, 2, 3}, away: test.away, rtts: test.rtts}
		got := []view.MemberID{2, 3, 4}
		if slices.SortFunc(got, r.compare); !slices.Equal(got, test.want) {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
