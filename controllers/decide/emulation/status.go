package emulation

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/message"
)

// Link is the network between two sites.
type Link struct {
	Between  string        // the sites' names
	Declared time.Duration // round trip
	Measured time.Duration // the shortest lately; zero while none was measured
	// Stated is the measured one as the status has it: while the verdict stays, that of before, since a status is not
	// written for every round trip.
	Stated  time.Duration
	verdict string              // one of the reasons of the condition WANWithinTolerance
	was     v1alpha1.LinkStatus // in the former status, or without a name
}

// measure compares the round trips between all pairs of sites with those that are declared.
func (e *Emulation) measure() {
	if !e.asked() {
		return
	}
	for i, a := range e.Cluster.Spec.Sites {
		for _, b := range e.Cluster.Spec.Sites[i+1:] {
			e.Links = append(e.Links, e.link(a.Name, b.Name))
		}
	}
}

func (e *Emulation) link(a, b string) Link {
	l := Link{Between: linkName(a, b), Declared: e.Cluster.Spec.RTT(a, b), Measured: e.measured(a, b)}
	for _, was := range e.Cluster.Status.Links {
		if was.Between == l.Between {
			l.was = was
		}
	}
	since, placed := e.placedSince(a, b)
	left := rttWindow - e.Now.Sub(since)
	switch {
	case !placed || e.remakeLost(a, b, l, since):
		l.verdict = "WaitingForInjection"
	case left > 0:
		e.lookAgain(left)
		l.verdict = "WaitingForInjection"
	case l.Measured == 0:
		l.verdict = "NotMeasured"
	default:
		l.verdict = e.judgeRTT(l.Declared, l.Measured)
	}
	l.Stated = l.Measured
	was, err := time.ParseDuration(string(l.was.Measured))
	if err == nil && l.was.Declared == duration(l.Declared) && e.judgeRTT(l.Declared, was) == l.verdict {
		l.Stated = was
	}
	return l
}

func (e *Emulation) judgeRTT(declared, measured time.Duration) string {
	switch {
	case e.Cluster.Spec.WAN.Tolerates(declared, measured):
		return "WithinTolerance"
	case measured < declared:
		return "TooShort"
	}
	return "TooLong"
}

// linkName names a pair of sites. A site's name may have hyphens, and pairs must not share one.
func linkName(a, b string) string {
	if strings.Contains(a+b, "-") {
		return a + "/" + b
	}
	return a + "-" + b
}

// measured is the shortest round trip that members of two sites measured of each other lately; zero if none did.
func (e *Emulation) measured(a, b string) (least time.Duration) {
	for _, m := range e.Members {
		if m.Report == nil || m.Site != a && m.Site != b {
			continue
		}
		for _, p := range m.Report.Peers {
			peer := e.Member(p.ID)
			across := peer != nil && peer.Site != m.Site && (peer.Site == a || peer.Site == b)
			if across && p.MinRTT > 0 && (least == 0 || p.MinRTT < least) {
				least = p.MinRTT
			}
		}
	}
	return least
}

// placedSince is since when what is to be emulated between two sites is in place, if it is and nothing else is. It
// counts from the last time that anything changed at either site: Chaos Mesh takes all rules out of a pod, and puts the
// new ones in, and for that moment nothing is delayed.
func (e *Emulation) placedSince(a, b string) (since time.Time, placed bool) {
	for _, d := range []direction{{a, b}, {b, a}} {
		if e.leaving[d] {
			return time.Time{}, false
		}
		if e.Cluster.Spec.Way(d.from, d.to) == (v1alpha1.Way{}) {
			continue
		}
		if _, there := e.placed[d]; !there {
			return time.Time{}, false
		}
	}
	for _, i := range e.Emulation.Links {
		if i.From != a && i.To != a && i.From != b && i.To != b {
			continue
		}
		for _, t := range []time.Time{i.Created, i.Since, i.Deleting} {
			if t.After(since) {
				since = t
			}
		}
	}
	return since, true
}

// LinkStatuses are the pairs as they were when their verdict became what it is.
func (e *Emulation) LinkStatuses() (all []v1alpha1.LinkStatus) {
	for _, l := range e.Links {
		link := v1alpha1.LinkStatus{Between: l.Between, Declared: duration(l.Declared),
			WithinTolerance: l.verdict == "WithinTolerance", LastTransitionTime: metav1.NewTime(e.Now)}
		if l.verdict != "WaitingForInjection" && l.Measured > 0 {
			link.Measured = duration(l.Stated)
		}
		if l.was.WithinTolerance == link.WithinTolerance && !l.was.LastTransitionTime.IsZero() {
			link.LastTransitionTime = l.was.LastTransitionTime
		}
		all = append(all, link)
	}
	return all
}

func duration(d time.Duration) v1alpha1.Duration { return v1alpha1.Duration(d.String()) }

// Conditions are there while the network is emulated; the first also until the last of it is removed.
func (e *Emulation) Conditions() (all []metav1.Condition) {
	if e.asked() || e.worst != inPlace {
		all = append(all, e.injected())
	}
	if e.asked() {
		all = append(all, e.withinTolerance())
	}
	return all
}

func (e *Emulation) injected() metav1.Condition {
	no := func(reason, format string, args ...any) metav1.Condition {
		return message.Condition(v1alpha1.ConditionWANInjected, metav1.ConditionFalse, reason, format, args...)
	}
	switch {
	case e.asked() && !e.Emulation.Kind:
		return no("ChaosMeshMissing", "The apiserver has no NetworkChaos; install Chaos Mesh, which is looked for "+
			"every few minutes, or set "+
			"spec.wan.provider to None")
	case e.asked() && !e.Emulation.Known:
		return no("ChaosMeshNotReadable", "The operator can't list NetworkChaos yet; does its Role allow that?")
	case e.Cluster.Spec.Paused && len(e.changes.Make)+len(e.changes.Remove) > 0:
		return no("Paused", "%s. Nothing is changed while spec.paused is set", e.message)
	case e.worst != inPlace && e.directions == 0:
		return no(e.worst.reason(), "%s", e.message)
	case e.worst != inPlace:
		return no(e.worst.reason(), "%d of %d directions are in place; %s", len(e.placed), e.directions, e.message)
	}
	return message.Condition(v1alpha1.ConditionWANInjected, metav1.ConditionTrue, inPlace.reason(),
		"All %d directions are in place between the pods that run", e.directions)
}

// verdicts say what is wrong with the round trips of a pair of sites: its name, the round trip that is declared, the
// one that was measured, and how long none is measured at first.
var verdicts = map[string]string{
	"TooShort": "%[1]s: a round trip of %[2]v is declared, and one of %[3]v was measured: some messages are not " +
		"delayed",
	"TooLong": "%[1]s: a round trip of %[2]v is declared, and the shortest measured is %[3]v: the network below, or " +
		"busy nodes, add to it",
	"NotMeasured": "%[1]s: a round trip of %[2]v is declared, and members measured none",
	"WaitingForInjection": "%[1]s: a round trip of %[2]v is declared, and it is measured once its network has been " +
		"in place for %[4]v",
}

// withinTolerance is never Unknown, so that its time tells since when not all has been well.
func (e *Emulation) withinTolerance() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
		return message.Condition(v1alpha1.ConditionWANWithinTolerance, status, reason, format, args...)
	}
	worst := Link{verdict: "WithinTolerance"}
	for _, l := range e.Links {
		if l.badness() > worst.badness() {
			worst = l
		}
	}
	if worst.verdict == "WithinTolerance" {
		return say(metav1.ConditionTrue, "WithinTolerance", "The shortest round trips of all %d pairs of sites are "+
			"as declared", len(e.Links))
	}
	return say(metav1.ConditionFalse, worst.verdict, verdicts[worst.verdict], worst.Between, worst.Declared,
		worst.Stated, rttWindow)
}

// badness orders what is wrong with pairs of sites: how far off the round trips of one are, as a share of what is
// declared, counts more than that they are not known.
func (l Link) badness() float64 {
	switch l.verdict {
	case "WithinTolerance":
		return -3
	case "NotMeasured":
		return -2
	case "WaitingForInjection":
		return -1
	}
	return float64((l.Stated - l.Declared).Abs()) / float64(max(l.Declared, time.Millisecond))
}

// wanEvents tell of conditions that changed.
func wanEvents(before, after []metav1.Condition) (events []message.Event) {
	was, is := conditionOf(before, v1alpha1.ConditionWANInjected), conditionOf(after, v1alpha1.ConditionWANInjected)
	if is.Status == metav1.ConditionTrue && was.Status != metav1.ConditionTrue {
		events = append(events, message.Normal("WANInjected", "Inject", is.Message))
	}
	if was.Status == metav1.ConditionTrue && is.Reason == failed.reason() {
		events = append(events, message.Warning("WANFailed", "Inject", is.Message))
	}
	was = conditionOf(before, v1alpha1.ConditionWANWithinTolerance)
	is = conditionOf(after, v1alpha1.ConditionWANWithinTolerance)
	switch crossed := was.Reason != is.Reason; {
	case crossed && is.Status == metav1.ConditionTrue:
		events = append(events, message.Normal("WANWithinTolerance", "Measure", is.Message))
	case crossed && (is.Reason == "TooShort" || is.Reason == "TooLong"):
		events = append(events, message.Warning("WANOutOfTolerance", "Measure", is.Message))
	}
	return events
}

// conditionOf is a condition, or an empty one where it is not there.
func conditionOf(all []metav1.Condition, kind string) metav1.Condition {
	if c := meta.FindStatusCondition(all, kind); c != nil {
		return *c
	}
	return metav1.Condition{}
}
