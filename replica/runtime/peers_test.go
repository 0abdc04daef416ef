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
		reachability []reachability
		rtts         []time.Duration
		want         []view.MemberID
	}{
		"as configured": {
			[]reachability{answers, answers, answers}, []time.Duration{0, 0, 0}, []view.MemberID{4, 2, 3},
		},
		"as measured": {
			[]reachability{answers, answers, answers}, []time.Duration{9 * ms, 5 * ms, 1 * ms},
			[]view.MemberID{3, 2, 4},
		},
		"the same within grains": {
			[]reachability{answers, answers, answers}, []time.Duration{1, 1, 1}, []view.MemberID{4, 2, 3},
		},
		"away goes last": {
			[]reachability{away, answers, answers}, []time.Duration{0, 5 * ms, 9 * ms}, []view.MemberID{2, 3, 4},
		},
		"nothing is known yet": {
			[]reachability{away, expected, expected}, []time.Duration{0, 0, 0}, []view.MemberID{2, 3, 4},
		},
		"the first is heard": {
			[]reachability{away, expected, answers}, []time.Duration{0, 0, 5 * ms}, []view.MemberID{3, 2, 4},
		},
	} {
		r := ranks{order: []view.MemberID{4, 2, 3}, reachability: test.reachability, rtts: test.rtts}
		got := []view.MemberID{2, 3, 4}
		if slices.SortFunc(got, r.compare); !slices.Equal(got, test.want) {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}

// What is asked again later than anybody can have answered is not asked in vain.
func TestPace(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		reachability   []reachability
		rtts           []time.Duration
		retry, suspect time.Duration
	}{
		{[]reachability{answers, answers}, []time.Duration{1 * ms, 2 * ms}, minRetry, 5 * minRetry},
		{[]reachability{answers, answers}, []time.Duration{220 * ms, 90 * ms}, 330 * ms, 1650 * ms},
		{[]reachability{away, answers}, []time.Duration{220 * ms, 90 * ms}, 135 * ms, 675 * ms},
		{[]reachability{expected, away}, []time.Duration{0, 0}, minRetry, 5 * minRetry},
	} {
		r := ranks{reachability: test.reachability}
		for _, rtt := range test.rtts {
			r.rtts = append(r.rtts, rtt/rttGrain)
		}
		if retry, suspect := pace(r.farthest()); retry != test.retry || suspect != test.suspect {
			t.Errorf("%v: asked again after %v, suspected after %v, want %v and %v", test, retry, suspect,
				test.retry, test.suspect)
		}
	}
	v := view.View{Cluster: "c", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for _, test := range []struct {
		options Options
		want    bool
	}{
		{Options{}, true},
		{Options{Retry: ms}, false},
		{Options{OneWayDelay: func(view.MemberID) time.Duration { return ms }}, false},
	} {
		o := test.options
		o.View, o.Self = v, 1
		if err := o.completeDistances(); err != nil || o.paced != test.want {
			t.Errorf("%+v: %v; what is measured counts: %v, want %v", test.options, err, o.paced, test.want)
		}
	}
}

func TestWhoIsAskedFirst(t *testing.T) {
	v := view.View{
		Cluster: "c", Epoch: 2,
		Members: []view.Member{{ID: 1}, {ID: 2, Joining: true}, {ID: 3}, {ID: 4, Leaving: true}, {ID: 5}},
	}
	near := func(id view.MemberID) time.Duration { return time.Duration(6-id) * time.Millisecond }
	for name, test := range map[string]struct {
		options Options
		want    []view.MemberID
	}{
		"a newcomer last": {Options{}, []view.MemberID{3, 4, 5, 2}},
		"whoever is away behind it": {
			Options{Inheritance: Inheritance{Away: []view.MemberID{3, 9}}}, []view.MemberID{4, 5, 2, 3},
		},
		"by distance before all": {Options{OneWayDelay: near}, []view.MemberID{5, 4, 3, 2}},
		"as configured, but for the away": {
			Options{OneWayDelay: near, Inheritance: Inheritance{Away: []view.MemberID{5}}}, []view.MemberID{4, 3, 2, 5},
		},
	} {
		o := test.options
		o.View, o.Self = v, 1
		if err := o.completeDistances(); err != nil {
			t.Fatal(err)
		}
		if got := o.first(); !slices.Equal(got, test.want) {
			t.Errorf("%s: %d, want %d", name, got, test.want)
		}
	}
}
