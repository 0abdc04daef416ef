package decide

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

const ms = time.Millisecond

// wide is a cluster at rest whose network Chaos Mesh emulates: a to b in 10ms and a to c in 20ms, there and back, and
// nothing between b and c. All of it is in place for an hour, and members measure it.
func wide() *world.Snapshot {
	s := healthy(3)
	s.Cluster.Spec.WAN = &v1alpha1.WAN{Provider: v1alpha1.ChaosMesh, Links: []v1alpha1.Link{
		{Between: []string{"a", "b"}, RTT: "10ms"}, {Between: []string{"c", "a"}, RTT: "20ms"},
		{Between: []string{"b", "c"}, RTT: "0s"},
	}}
	for i := range s.Members {
		m := &s.Members[i]
		m.Pod.UID, m.Pod.Status.PodIP = types.UID(fmt.Sprintf("pod-%d", m.ID)), fmt.Sprintf("10.0.0.%d", m.ID)
	}
	measures(s, "a", "b", 10*ms+100*time.Microsecond)
	measures(s, "a", "c", 20*ms+100*time.Microsecond)
	measures(s, "b", "c", 200*time.Microsecond)
	s.Emulation = world.Emulation{Kind: true, Known: true}
	for _, d := range []direction{
		{from: "a", to: "b"}, {from: "a", to: "c"}, {from: "b", to: "a"}, {from: "c", to: "a"},
	} {
		s.Emulation.Links = append(s.Emulation.Links, settledIn(s, d))
	}
	return s
}

// settledIn is a direction's object as it should be.
func settledIn(s *world.Snapshot, d direction) world.Injection {
	of := func(name string) chaosmesh.Site {
		site := chaosmesh.Site{Name: name}
		for _, m := range s.Members {
			if m.Site == name {
				site.Pods = append(site.Pods, m.Pod)
			}
		}
		return site
	}
	from, to := of(d.from), of(d.to)
	i := world.Injection{Name: chaosmesh.Object(s.Cluster, from, to).GetName(), UID: types.UID(d.String()),
		From: d.from, To: d.to, Created: epoch, Looked: true, AllInjected: true, Since: epoch}
	for _, pod := range slices.Concat(from.Pods, to.Pods) {
		i.Chosen = append(i.Chosen, pod.Name)
	}
	slices.Sort(i.Chosen)
	i.Injected = i.Chosen
	return i
}

// injection is the object of a direction.
func injection(s *world.Snapshot, d direction) *world.Injection {
	for n := range s.Emulation.Links {
		if s.Emulation.Links[n].From == d.from && s.Emulation.Links[n].To == d.to {
			return &s.Emulation.Links[n]
		}
	}
	panic("no " + d.String()) // of a test's own
}

func drop(s *world.Snapshot, d direction) {
	s.Emulation.Links = slices.DeleteFunc(s.Emulation.Links, func(i world.Injection) bool {
		return i.From == d.from && i.To == d.to
	})
}

// measures has the members of two sites report a round trip.
func measures(s *world.Snapshot, a, b string, rtt time.Duration) {
	for _, m := range s.Members {
		for n := range m.Report.Peers {
			p := &m.Report.Peers[n]
			if site := s.Member(p.ID).Site; m.Site == a && site == b || m.Site == b && site == a {
				p.MinRTT = rtt
			}
		}
	}
}

// since sets a condition as the status has it since a while before now.
func since(s *world.Snapshot, kind string, status metav1.ConditionStatus, reason string, before time.Duration) {
	meta.RemoveStatusCondition(&s.Cluster.Status.Conditions, kind)
	s.Cluster.Status.Conditions = append(s.Cluster.Status.Conditions,
		metav1.Condition{
			Type: kind, Status: status, Reason: reason, LastTransitionTime: metav1.NewTime(s.Now.Add(-before)),
		})
}

// fresh is an object that was made so long ago, and is in place for as long.
func fresh(s *world.Snapshot, d direction, age time.Duration) *world.Injection {
	i := injection(s, d)
	i.Created, i.Since = s.Now.Add(-age), s.Now.Add(-age)
	return i
}

// restarted gives a member another pod of the same name.
func restarted(s *world.Snapshot, id view.MemberID) { s.Member(id).Pod.UID = "another" }

// The times of the emulated network, as its users see them (package emulation).
const (
	remakeAfter  = 30 * time.Second
	rttWindow    = 16 * time.Second
	lostAfter    = 2 * rttWindow
	stuckAfter   = time.Minute
	releaseAfter = 5 * time.Second
	troubleAfter = 10 * time.Second
)

// direction is the network from one site to another.
type direction struct{ from, to string }

func (d direction) String() string { return d.from + " to " + d.to }

// conditionOf is a condition, or an empty one where it is not there.
func conditionOf(conditions []metav1.Condition, kind string) (is metav1.Condition) {
	if c := meta.FindStatusCondition(conditions, kind); c != nil {
		is = *c
	}
	return is
}

var (
	ab, ba = direction{from: "a", to: "b"}, direction{from: "b", to: "a"}
	ca     = direction{from: "c", to: "a"}
)

// undone is an object that is being removed for long enough: Chaos Mesh waits for member 2's pod, in which it had
// injected it as soon as the pod was there.
func undone(s *world.Snapshot, d direction) *world.Injection {
	i := injection(s, d)
	i.Deleting = s.Now.Add(-releaseAfter)
	i.Unconfirmed = []world.Undoing{{Pod: s.Member(2).Pod.Name, Applied: s.Member(2).Pod.CreationTimestamp.Time}}
	return i
}

// directions are those of objects.
func directions(s *world.Snapshot, objects []client.Object) string {
	var all []string
	for _, o := range objects {
		for _, i := range s.Emulation.Links {
			if i.UID == o.GetUID() {
				all = append(all, i.From+i.To)
			}
		}
		if o.GetUID() == "" {
			all = append(all, o.GetLabels()[chaosmesh.FromLabel]+o.GetLabels()[chaosmesh.ToLabel])
		}
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

func TestTheNetworkIsKeptAsAsked(t *testing.T) {
	for _, tt := range []struct {
		name           string
		change         func(s *world.Snapshot)
		removes, makes string
		injected       string // reason, or empty without the condition
		says           string // part of its message
		tolerance      string // reason
	}{
		{"at rest", func(*world.Snapshot) {}, "", "", "Injected", "All 4 directions", "WithinTolerance"},
		{"no provider", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN.Provider, s.Emulation.Links = "", nil
		}, "", "", "", "", ""},
		{"nothing was made yet", func(s *world.Snapshot) {
			s.Emulation.Links = nil
		}, "", "ab ac ba ca", "Injecting", "0 of 4 directions are in place; a to b", "WaitingForInjection"},
		{"Chaos Mesh is not there", func(s *world.Snapshot) {
			s.Emulation = world.Emulation{}
		}, "", "", "ChaosMeshMissing", "install Chaos Mesh", "WaitingForInjection"},
		{"what is there is not known", func(s *world.Snapshot) {
			s.Emulation = world.Emulation{Kind: true}
		}, "", "", "ChaosMeshNotReadable", "Role", "WaitingForInjection"},
		{"one is not there", func(s *world.Snapshot) {
			drop(s, ba)
		}, "", "ba", "Injecting", "3 of 4 directions are in place; b to a", "WaitingForInjection"},

		{"a pod was restarted", func(s *world.Snapshot) {
			restarted(s, 2)
		}, "ab ba", "", "Injecting", "a to b: it is made again, since pods", "WaitingForInjection"},
		{"a pod has another address", func(s *world.Snapshot) {
			s.Member(3).Pod.Status.PodIP = "10.0.0.9"
		}, "ac ca", "", "Injecting", "a to c", "WaitingForInjection"},
		{"a pod was restarted soon after the last time", func(s *world.Snapshot) {
			restarted(s, 2)
			fresh(s, ab, remakeAfter-1)
			fresh(s, ba, remakeAfter)
		}, "ba", "", "RecreateThrottled", "a to b: pods or spec.wan changed, and it is not made again sooner than 30s",
			"WaitingForInjection"},
		{"another delay is asked for", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN.Links[0].RTT = "11ms"
		}, "ab ba", "", "Injecting", "a to b", "WaitingForInjection"},
		{"one direction is asked for otherwise", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN.Links[1].Directions = []v1alpha1.Direction{{From: "c", Loss: "1%"}}
		}, "ca", "", "Injecting", "c to a", "WaitingForInjection"},
		{"a pair is not delayed any more", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN.Links[0].RTT = "0s"
		}, "ab ba", "", "Removing", "is not asked for", "WaitingForInjection"},
		{"the former one is about to go", func(s *world.Snapshot) {
			restarted(s, 2)
			injection(s, ab).Deleting, injection(s, ba).Deleting = s.Now.Add(-time.Second), s.Now.Add(-time.Second)
		}, "", "", "Injecting", "is being removed", "WaitingForInjection"},
		{"the former one has gone", func(s *world.Snapshot) {
			restarted(s, 2)
			drop(s, ab)
			drop(s, ba)
		}, "", "ab ba", "Injecting", "", "WaitingForInjection"},
		{"the same one is about to go", func(s *world.Snapshot) {
			injection(s, ab).Deleting = s.Now.Add(-time.Second)
		}, "", "", "Injecting", "is being removed", "WaitingForInjection"},
		{"it can't go", func(s *world.Snapshot) {
			injection(s, ab).Deleting = s.Now.Add(-stuckAfter)
		}, "", "", "RemovalStuck", chaosmesh.ForceAnnotation + "=forced", "WaitingForInjection"},
		{"Chaos Mesh waits for a pod that is gone", func(s *world.Snapshot) {
			restarted(s, 2)
			undone(s, ab)
			undone(s, ba).Forced = true
		}, "", "", "Injecting", "is being removed", "WaitingForInjection"},
		{"two of a direction", func(s *world.Snapshot) {
			other := *injection(s, ab)
			other.Name, other.UID = "other", "other"
			s.Emulation.Links = append(s.Emulation.Links, other)
		}, "ab", "", "Injecting", "a to b", "WaitingForInjection"},

		{"a pod is about to start", func(s *world.Snapshot) {
			s.Member(2).Pod.Status.Phase, s.Member(2).
				Pod.CreationTimestamp = corev1.PodPending, metav1.NewTime(s.Now.Add(-time.Second))
		}, "", "", "WaitingForPods", "a to b: pod demo--b--2-0 is Pending", "WaitingForInjection"},
		{"the only pod does not start", func(s *world.Snapshot) {
			s.Member(2).Pod.Status.Phase = corev1.PodPending
		}, "", "", "WaitingForPods", "no pod of site b runs", "WaitingForInjection"},
		{"a pod is about to end", func(s *world.Snapshot) {
			at := metav1.NewTime(s.Now)
			s.Member(2).Pod.DeletionTimestamp = &at
		}, "", "", "WaitingForPods", "pod demo--b--2-0 is ending", "WaitingForInjection"},
		{"a pod has no address yet", func(s *world.Snapshot) {
			s.Member(2).Pod.Status.PodIP, s.Member(2).Pod.CreationTimestamp = "", metav1.NewTime(s.Now)
		}, "", "", "WaitingForPods", "has no address", "WaitingForInjection"},
		{"a pod is not there", func(s *world.Snapshot) {
			s.Member(2).Pod = nil
		}, "", "", "WaitingForPods", "member 2 (site b) has no pod", "WaitingForInjection"},
		{"a member is about to join", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[0].Members = new(int32)
			*s.Cluster.Spec.Sites[0].Members = 3
			newcomer(s, 4, "a")
			newcomer(s, 5, "a")
			s.Member(4).Pod.Status.PodIP, s.Member(5).Pod.Status.Phase = "10.0.0.4", corev1.PodPending
			s.Member(5).Pod.CreationTimestamp = metav1.NewTime(s.Now)
		}, "", "", "WaitingForPods", "pod demo--a--5-0 is Pending", "WaitingForInjection"},
		{"a member that joins does not start", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites[0].Members = new(int32)
			*s.Cluster.Spec.Sites[0].Members = 3
			newcomer(s, 4, "a")
			newcomer(s, 5, "a")
			s.Member(4).Pod.Status.PodIP, s.Member(5).Pod.Status.Phase = "10.0.0.4", corev1.PodPending
		}, "ab ac ba ca", "", "Injecting", "", "WaitingForInjection"},
		{"a site is about to go", func(s *world.Snapshot) {
			s.Cluster.Spec.Sites = s.Cluster.Spec.Sites[:2]
			s.Cluster.Spec.WAN.Links = s.Cluster.Spec.WAN.Links[:1]
		}, "ac ca", "", "Removing", "", "WithinTolerance"},

		{"Chaos Mesh is at it", func(s *world.Snapshot) {
			i := fresh(s, ab, time.Second)
			i.AllInjected, i.Injected = false, i.Injected[:1]
		}, "", "", "Injecting", "a to b: Chaos Mesh injects", "WaitingForInjection"},
		{"Chaos Mesh is at it with a pod that is nobody's", func(s *world.Snapshot) {
			injection(s, ab).AllInjected = false
		}, "", "", "Injecting", "a to b", "WaitingForInjection"},
		{"Chaos Mesh has not begun", func(s *world.Snapshot) {
			*injection(s, ab) = world.Injection{
				Name: injection(s, ab).Name, UID: "u", From: "a", To: "b", Created: s.Now.Add(-time.Second),
			}
		}, "", "", "Injecting", "does its controller run?", "WaitingForInjection"},
		{"Chaos Mesh does not begin", func(s *world.Snapshot) {
			*injection(s, ab) = world.Injection{
				Name: injection(s, ab).Name, UID: "u", From: "a", To: "b", Created: s.Now.Add(-remakeAfter),
			}
		}, "", "", "Failed", "does its controller run?", "WaitingForInjection"},
		{"Chaos Mesh fails", func(s *world.Snapshot) {
			i := injection(s, ab)
			i.AllInjected, i.Injected, i.Problem = false, nil, "pod x: no sch_netem"
		}, "", "", "Failed", "no sch_netem", "WaitingForInjection"},
		{"Chaos Mesh fails at first", func(s *world.Snapshot) {
			i := fresh(s, ab, time.Second)
			i.AllInjected, i.Injected, i.Problem = false, nil, "pod x: conflict"
		}, "", "", "Injecting", "conflict", "WaitingForInjection"},
		{"Chaos Mesh chose no pod", func(s *world.Snapshot) {
			i := fresh(s, ab, troubleAfter)
			i.AllInjected, i.Injected, i.Chosen = false, nil, nil
		}, "", "", "Failed", "did not choose pod demo--a--1-0", "WaitingForInjection"},
		{"Chaos Mesh has chosen other pods for long", func(s *world.Snapshot) {
			i := fresh(s, ab, remakeAfter)
			i.Chosen, i.Injected = i.Chosen[:1], i.Chosen[:1] // which are all of those that it chose
		}, "ab", "", "Injecting", "Chaos Mesh did not choose pod demo--b--2-0", "WaitingForInjection"},
		{"Chaos Mesh has chosen other pods again", func(s *world.Snapshot) {
			i := fresh(s, ab, time.Minute)
			i.Chosen, i.Injected = nil, nil
			since(s, v1alpha1.ConditionWANInjected, metav1.ConditionFalse, "Failed", 4*time.Minute)
		}, "", "", "Failed", "did not choose pod", "WaitingForInjection"},

		{"the emulation ends", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN.Provider = v1alpha1.NoProvider
		}, "ab ac ba ca", "", "Removing", "is not asked for any more", ""},
		{"the network is not described any more", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN = nil
		}, "ab ac ba ca", "", "Removing", "is not asked for any more", ""},
		{"the end of the emulation is stuck", func(s *world.Snapshot) {
			s.Cluster.Spec.WAN = nil
			injection(s, ca).Deleting = epoch
		}, "ab ac ba", "", "RemovalStuck", "c to a", ""},
		{"paused", func(s *world.Snapshot) {
			s.Cluster.Spec.Paused = true
			restarted(s, 2)
		}, "", "", "Paused", "spec.paused", "WaitingForInjection"},
		{"paused at rest", func(s *world.Snapshot) {
			s.Cluster.Spec.Paused = true
		}, "", "", "Injected", "", "WithinTolerance"},
		{"what is there goes with a former resource", func(s *world.Snapshot) {
			s.Former = []string{"StatefulSet x"}
		}, "", "", "WaitingForPods", "", "WaitingForInjection"},
	} {
		s := wide()
		tt.change(s)
		p := Next(*s)
		if got := directions(s, p.Emulation.Remove); got != tt.removes {
			t.Errorf("%s: removes %q, want %q", tt.name, got, tt.removes)
		}
		if got := directions(s, p.Emulation.Make); got != tt.makes {
			t.Errorf("%s: makes %q, want %q", tt.name, got, tt.makes)
		}
		var injected, tolerance metav1.Condition
		injected = conditionOf(p.Status.Conditions, v1alpha1.ConditionWANInjected)
		tolerance = conditionOf(p.Status.Conditions, v1alpha1.ConditionWANWithinTolerance)
		if injected.Reason != tt.injected || !strings.Contains(injected.Message, tt.says) ||
			tolerance.Reason != tt.tolerance {
			t.Errorf("%s: %s: %s; %s: %s; want %s (%s), %s", tt.name, injected.Reason, injected.Message,
				tolerance.Reason, tolerance.Message, tt.injected, tt.says, tt.tolerance)
		}
		if (injected.Status == metav1.ConditionTrue) != (injected.Reason == "Injected") ||
			(tolerance.Status == metav1.ConditionTrue) != (tolerance.Reason == "WithinTolerance") {
			t.Errorf("%s: %+v, %+v", tt.name, injected, tolerance)
		}
		for _, object := range slices.Concat(p.Apply, p.Prune) {
			if object.GetObjectKind().GroupVersionKind() == chaosmesh.Kind {
				t.Errorf("%s: %s is applied beside the others", tt.name, object.GetName())
			}
		}
	}
}

// What is waited for in time is looked at in time, and nothing is looked at more often.
func TestTheNetworkIsLookedAtInTime(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(s *world.Snapshot)
		again  time.Duration
	}{
		"at rest":       {func(*world.Snapshot) {}, late},
		"just in place": {func(s *world.Snapshot) { fresh(s, ab, 4*time.Second) }, rttWindow - 4*time.Second},
		"throttled": {func(s *world.Snapshot) {
			restarted(s, 2)
			fresh(s, ab, 25*time.Second)
		}, 5 * time.Second},
		"about to be due":   {func(s *world.Snapshot) { restarted(s, 2); fresh(s, ab, remakeAfter-ms) }, time.Second},
		"a watch has begun": {func(s *world.Snapshot) { s.Emulation = world.Emulation{Kind: true} }, soon},
		"Chaos Mesh is at it": {func(s *world.Snapshot) {
			i := injection(s, ab)
			i.AllInjected, i.Injected = false, nil
		}, late},
	} {
		s := wide()
		tt.change(s)
		if got := Next(*s).Again; got != tt.again {
			t.Errorf("%s: it is looked at again in %v, want %v", name, got, tt.again)
		}
	}
}

func TestTheNetworkReachesNoPod(t *testing.T) {
	s := wide()
	before := build.SpecHash(s.Cluster)
	s.Cluster.Spec.WAN.Links[0].RTT, s.Cluster.Spec.WAN.Provider = "1s", v1alpha1.NoProvider
	if build.SpecHash(s.Cluster) != before {
		t.Error("spec.wan restarts members")
	}
	if p := Next(*s); p.Step != nil {
		t.Errorf("spec.wan leads to %+v", p.Step)
	}
}

// Chaos Mesh is told to let go where it waits in vain, and nowhere else.
func TestWhatWaitsInVainIsReleased(t *testing.T) {
	for name, tt := range map[string]struct {
		change   func(s *world.Snapshot, i *world.Injection)
		releases string
	}{
		"the pod is another one": {func(*world.Snapshot, *world.Injection) {}, "ab"},
		"it was removed a moment ago": {func(s *world.Snapshot, i *world.Injection) {
			i.Deleting = s.Now.Add(1 - releaseAfter)
		}, ""},
		"it is not being removed": {func(s *world.Snapshot, i *world.Injection) {
			i.Deleting = time.Time{}
		}, ""},
		"it was released":                   {func(s *world.Snapshot, i *world.Injection) { i.Forced = true }, ""},
		"it may be in force in another pod": {func(s *world.Snapshot, i *world.Injection) { i.Held = true }, ""},
		"the pod is the one that it was injected in": {func(s *world.Snapshot, i *world.Injection) {
			i.Unconfirmed[0].Applied = s.Member(2).Pod.CreationTimestamp.Add(time.Second)
		}, ""},
		"one of two pods is": {func(s *world.Snapshot, i *world.Injection) {
			i.Unconfirmed = append(i.Unconfirmed, world.Undoing{Pod: s.Member(1).Pod.Name, Applied: s.Now})
		}, ""},
		"nobody's pod":        {func(s *world.Snapshot, i *world.Injection) { i.Unconfirmed[0].Pod = "x" }, ""},
		"it waits for no pod": {func(s *world.Snapshot, i *world.Injection) { i.Unconfirmed = nil }, ""},
		"nobody asks for it":  {func(s *world.Snapshot, i *world.Injection) { s.Cluster.Spec.WAN = nil }, "ab"},
		"paused":              {func(s *world.Snapshot, i *world.Injection) { s.Cluster.Spec.Paused = true }, ""},
	} {
		s := wide()
		tt.change(s, undone(s, ab))
		if got := directions(s, Next(*s).Emulation.Release); got != tt.releases {
			t.Errorf("%s: releases %q, want %q", name, got, tt.releases)
		}
	}
}
