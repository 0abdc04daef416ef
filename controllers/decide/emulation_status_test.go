package decide

import (
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
)

func TestRoundTripsAreJudged(t *testing.T) {
	const declared = 10 * ms // of a and b
	for _, tt := range []struct {
		name     string
		change   func(s *world.Snapshot)
		removes  string
		reason   string
		says     string
		measured string // of a-b in status.links
	}{
		{"as declared", func(s *world.Snapshot) {
			measures(s, "a", "b", declared)
		}, "", "WithinTolerance", "all 3 pairs", "10ms"},
		{"the most that is tolerated", func(s *world.Snapshot) {
			measures(s, "a", "b", 13*ms)
		}, "", "WithinTolerance", "", "13ms"},
		{"too long", func(s *world.Snapshot) {
			measures(s, "a", "b", 13*ms+1000)
		}, "", "TooLong", "a-b: a round trip of 10ms is declared, and the shortest measured is 13.001ms", "13.001ms"},
		{"more is tolerated", func(s *world.Snapshot) {
			measures(s, "a", "b", 20*ms)
			s.Cluster.Spec.WAN.TolerancePercent = new(int32)
			*s.Cluster.Spec.WAN.TolerancePercent = 80
		}, "", "WithinTolerance", "", "20ms"},
		{"a little short", func(s *world.Snapshot) {
			measures(s, "a", "b", 9*ms)
		}, "", "TooShort", "a-b: a round trip of 10ms is declared, and one of 9ms was measured", "9ms"},
		{"without effect", func(s *world.Snapshot) { lost(s, 9*ms-1000) }, "ab ba", "WaitingForInjection", "a-b", ""},
		{"one member measures so", func(s *world.Snapshot) {
			lost(s, 10*ms)
			s.Member(2).Report.Peers[0].MinRTT = ms
		}, "ab ba", "WaitingForInjection", "a-b", ""},
		{"without effect for a while, as when something else changes in a pod", func(s *world.Snapshot) {
			lost(s, ms)
			s.Cluster.Status.Links[0].LastTransitionTime = metav1.NewTime(s.Now.Add(1 - lostAfter))
		}, "", "TooShort", "a-b", "1ms"},
		{"without effect, not in place for long", func(s *world.Snapshot) {
			lost(s, ms)
			fresh(s, ba, remakeAfter+rttWindow-1)
		}, "", "TooShort", "a-b", "1ms"},
		{"without effect in one direction, which has none", func(s *world.Snapshot) {
			lost(s, ms)
			s.Cluster.Spec.WAN.Links[0].Directions = []v1alpha1.Direction{
				{From: "b", Delay: "0s"}, {From: "a", Delay: "10ms"},
			}
			drop(s, ba)
			*injection(s, ab) = settledIn(s, ab)
		}, "ab", "WaitingForInjection", "a-b", ""},
		{"without effect in one direction, of which the other only loses", func(s *world.Snapshot) {
			lost(s, ms)
			s.Cluster.Spec.WAN.Links[0].Directions = []v1alpha1.Direction{
				{From: "b", Delay: "0s", Loss: "1%"}, {From: "a", Delay: "10ms"},
			}
			*injection(s, ab), *injection(s, ba) = settledIn(s, ab), settledIn(s, ba)
		}, "ab", "WaitingForInjection", "a-b", ""},
		{"near within a site", func(s *world.Snapshot) {
			s.Member(1).Report.Peers = append(s.Member(1).Report.Peers,
				world.Peer{ID: 1, Reachable: true, MinRTT: 1000})
		}, "", "WithinTolerance", "", "10.1ms"},
		{"a clock that is behind", func(s *world.Snapshot) {
			fresh(s, ab, time.Second).Since = epoch
		}, "", "WaitingForInjection", "a-b", ""},
		{"measured before it was in place", func(s *world.Snapshot) {
			measures(s, "a", "b", ms)
			fresh(s, ab, rttWindow-1)
		}, "", "WaitingForInjection", "a-b: a round trip of 10ms is declared, and it is measured once", ""},
		{"in place for a moment of its own", func(s *world.Snapshot) {
			injection(s, ab).Since = s.Now.Add(-time.Second)
		}, "", "WaitingForInjection", "a-b", ""},
		{"another direction of a site changed a moment ago", func(s *world.Snapshot) {
			lost(s, ms)
			injection(s, ca).Since = s.Now.Add(-time.Second)
		}, "", "WaitingForInjection", "a-b", ""},
		{"another direction of a site is being removed", func(s *world.Snapshot) {
			lost(s, ms)
			injection(s, ca).Deleting = s.Now.Add(-time.Second)
		}, "", "WaitingForInjection", "a-b", ""},
		{"nobody measured", func(s *world.Snapshot) { measures(s, "a", "b", 0) }, "", "NotMeasured", "a-b", ""},
		{"nobody answers", func(s *world.Snapshot) {
			for i := range s.Members {
				silent(s, s.Members[i].ID)
			}
		}, "", "NotMeasured", "a-b", ""},
		{"nothing is emulated, and it is far", func(s *world.Snapshot) {
			measures(s, "b", "c", 3*ms)
		}, "", "TooLong", "b-c: a round trip of 0s", "10.1ms"},
		{"the furthest of two", func(s *world.Snapshot) {
			measures(s, "a", "b", 20*ms)
			measures(s, "a", "c", 30*ms)
		}, "", "TooLong", "a-b: ", "20ms"},
	} {
		s := wide()
		tt.change(s)
		p := Next(*s)
		is := conditionOf(p.Status.Conditions, v1alpha1.ConditionWANWithinTolerance)
		if is.Reason != tt.reason || !strings.Contains(is.Message, tt.says) {
			t.Errorf("%s: %s: %s; want %s: %s", tt.name, is.Reason, is.Message, tt.reason, tt.says)
		}
		if got := directions(s, p.Emulation.Remove); got != tt.removes || len(p.Emulation.Make) > 0 {
			t.Errorf("%s: removes %q and makes %d, want %q", tt.name, got, len(p.Emulation.Make), tt.removes)
		}
		if got := string(p.Status.Links[0].Measured); got != tt.measured {
			t.Errorf("%s: the status has %s, want %s", tt.name, got, tt.measured)
		}
	}
}

// lost is a round trip between a and b that has been out of tolerance for long enough to count.
func lost(s *world.Snapshot, rtt time.Duration) {
	measures(s, "a", "b", rtt)
	s.Cluster.Status.Links = []v1alpha1.LinkStatus{
		{Between: "a-b", Declared: "10ms", LastTransitionTime: metav1.NewTime(s.Now.Add(-lostAfter))},
	}
}

// What has no effect however often it is made again is made again half as often each time, without another memory than
// the condition.
func TestWhatIsWithoutEffectIsLeftAlone(t *testing.T) {
	s := wide()
	measures(s, "a", "b", ms)
	since(s, v1alpha1.ConditionWANWithinTolerance, metav1.ConditionTrue, "WithinTolerance", time.Hour)
	began := s.Now
	var at []string
	for s.Now.Sub(began) < time.Hour {
		p := Next(*s)
		if len(p.Emulation.Remove) > 0 {
			at = append(at, s.Now.Sub(began).String())
			for _, d := range []direction{ab, ba} { // Chaos Mesh is quick
				fresh(s, d, 0)
			}
		}
		s.Cluster.Status.Links = p.Status.Links
		was := conditionOf(s.Cluster.Status.Conditions, v1alpha1.ConditionWANWithinTolerance)
		is := conditionOf(p.Status.Conditions, v1alpha1.ConditionWANWithinTolerance)
		if was.Status != is.Status {
			since(s, is.Type, is.Status, is.Reason, 0)
		}
		s.Now = s.Now.Add(time.Second)
	}
	if got, want := strings.Join(at, " "), "32s 1m18s 2m36s 5m12s 10m24s 20m24s 30m24s 40m24s 50m24s"; got != want {
		t.Errorf("it was made again at %s, want %s", got, want)
	}
}

// The status is written when a verdict changes, not for every round trip.
func TestMeasurementsAreKeptWhileTheirVerdictIs(t *testing.T) {
	s := wide()
	var turned time.Time // when it came to be within tolerance, or ceased to be
	of := func() v1alpha1.LinkStatus {
		p := Next(*s)
		s.Cluster.Status = p.Status
		return p.Status.Links[0]
	}
	for _, step := range []struct {
		what     string
		measured time.Duration
		want     v1alpha1.LinkStatus
	}{
		{"first", 10*ms + 100*time.Microsecond, v1alpha1.LinkStatus{Measured: "10.1ms", WithinTolerance: true}},
		{"a little longer", 11 * ms, v1alpha1.LinkStatus{Measured: "10.1ms", WithinTolerance: true}},
		{"too long", 14 * ms, v1alpha1.LinkStatus{Measured: "14ms"}},
		{"longer still", 15 * ms, v1alpha1.LinkStatus{Measured: "14ms"}},
		{"too short", 9500 * time.Microsecond, v1alpha1.LinkStatus{Measured: "9.5ms"}},
		{"not measured", 0, v1alpha1.LinkStatus{}},
		{"well again", 12 * ms, v1alpha1.LinkStatus{Measured: "12ms", WithinTolerance: true}},
	} {
		measures(s, "a", "b", step.measured)
		step.want.Between, step.want.Declared = "a-b", "10ms"
		s.Now = s.Now.Add(time.Minute)
		if was := s.Cluster.Status.Links; len(was) == 0 || was[0].WithinTolerance != step.want.WithinTolerance {
			turned = s.Now
		}
		step.want.LastTransitionTime = metav1.NewTime(turned)
		if got := of(); got != step.want {
			t.Errorf("%s: %+v, want %+v", step.what, got, step.want)
		}
		if again := Next(*s); !equality.Semantic.DeepEqual(again.Status, s.Cluster.Status) {
			t.Errorf("%s: the status does not come to rest", step.what)
		}
		if got := Next(*s).Links[0]; got.Measured != step.measured || got.Declared != 10*ms {
			t.Errorf("%s: those who follow it see %+v", step.what, got)
		}
	}
	s.Cluster.Spec.WAN.TolerancePercent = new(int32) // another tolerance is another verdict
	*s.Cluster.Spec.WAN.TolerancePercent = 50
	measures(s, "a", "b", 14*ms)
	if got := of(); got.Measured != "12ms" || !got.WithinTolerance {
		t.Errorf("with more tolerance: %+v", got)
	}
	s.Cluster.Spec.WAN.Links[0].RTT = "11ms" // and so is another round trip
	*injection(s, ab), *injection(s, ba) = settledIn(s, ab), settledIn(s, ba)
	if got := of(); got.Measured != "14ms" || got.Declared != "11ms" || !got.WithinTolerance {
		t.Errorf("with another round trip: %+v", got)
	}
	s.Cluster.Spec.WAN.Links[0].RTT = "9ms" // of which nothing was measured
	if got := of(); got.Measured != "" || got.WithinTolerance {
		t.Errorf("another round trip is declared: %+v", got)
	}
}

// Events come once, when something changes.
func TestTheNetworkTellsWhatBecomesOfIt(t *testing.T) {
	s := wide()
	all := s.Emulation.Links
	s.Emulation.Links = nil
	for _, step := range []struct {
		what   string
		change func()
		want   string // reasons, in order
	}{
		{"it is made", func() {}, ""},
		{"it is in place", func() { s.Emulation.Links = all }, "WANInjected WANWithinTolerance"},
		{"nothing new", func() {}, ""},
		{"a pod was restarted", func() { restarted(s, 2) }, "WANRemade"},
		{"it is made again", func() { drop(s, ab); drop(s, ba) }, ""},
		{"it is in place again", func() {
			s.Emulation.Links = append(s.Emulation.Links, settledIn(s, ab), settledIn(s, ba))
		}, "WANInjected WANWithinTolerance"},
		{"too long", func() { measures(s, "a", "b", 20*ms) }, "WANOutOfTolerance"},
		{"longer still", func() { measures(s, "a", "b", 21*ms) }, ""},
		{"Chaos Mesh fails", func() {
			i := injection(s, ab)
			i.AllInjected, i.Injected, i.Problem = false, nil, "pod x: no sch_netem"
		}, "WANFailed"},
		{"it is not asked for", func() { s.Cluster.Spec.WAN = nil }, "WANRemoved"},
		{"it is gone", func() { s.Emulation.Links = nil }, ""},
	} {
		step.change()
		p := Next(*s)
		var got []string
		for _, e := range p.Emulation.Events {
			got = append(got, e.Reason)
			if e.Message == "" || e.Action == "" ||
				(e.Type == "Warning") != slices.Contains([]string{"WANOutOfTolerance", "WANFailed"}, e.Reason) {
				t.Errorf("%s: the event %+v", step.what, e)
			}
		}
		if strings.Join(got, " ") != step.want {
			t.Errorf("%s: told %q, want %q", step.what, got, step.want)
		}
		s.Cluster.Status = p.Status
	}
	if len(s.Cluster.Status.Links) > 0 {
		t.Errorf("without a network there are %+v", s.Cluster.Status.Links)
	}
}
