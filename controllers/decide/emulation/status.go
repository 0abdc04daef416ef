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
	Measured time.Duration // the shortest lately; zero while nobody measured one
}

// pair is the network between two sites as it was measured.
type pair struct {
	name               string
	declared, measured time.Duration
	verdict            string // one of the reasons of the condition WANWithinTolerance
}

// pairs are all pairs of sites that are asked for, in the order of the sites.
func (e *Emulation) pairs() (all []pair) {
	if !e.asked() {
		return nil
	}
	for i, a := range e.Cluster.Spec.Sites {
		for _, b := range e.Cluster.Spec.Sites[i+1:] {
			p := pair{name: linkName(a.Name, b.Name), declared: e.Cluster.Spec.RTT(a.Name, b.Name),
				measured: e.measured(a.Name, b.Name)}
			since, placed := e.placedSince(a.Name, b.Name)
			left := rttWindow - e.Now.Sub(since)
			if placed && left > 0 {
				e.lookAgain(left)
			}
			switch {
			case !placed || left > 0:
				p.verdict = "WaitingForInjection"
			case p.measured == 0:
				p.verdict = "NotMeasured"
			default:
				p.verdict = e.judgeRTT(p.declared, p.measured)
			}
			all = append(all, p)
		}
	}
	return all
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

// Links are the pairs as they are now, for those who follow them.
func (e *Emulation) Links() (all []Link) {
	for _, p := range e.pairs() {
		all = append(all, Link{Between: p.name, Declared: p.declared, Measured: p.measured})
	}
	return all
}

// LinkStatuses are the pairs as they were when their verdict became what it is: a status is not written for every
// round trip.
func (e *Emulation) LinkStatuses() (all []v1alpha1.LinkStatus) {
	for _, p := range e.pairs() {
		link := v1alpha1.LinkStatus{Between: p.name, Declared: duration(p.declared),
			WithinTolerance: p.verdict == "WithinTolerance"}
		if p.verdict != "WaitingForInjection" && p.measured > 0 {
			link.Measured = duration(p.measured)
			if was, known := e.wasMeasured(p); known {
				link.Measured = duration(was)
			}
		}
		link.LastTransitionTime = metav1.NewTime(e.Now)
		for _, was := range e.Cluster.Status.Links {
			if was.Between == link.Between && was.WithinTolerance == link.WithinTolerance &&
				!was.LastTransitionTime.IsZero() {
				link.LastTransitionTime = was.LastTransitionTime
			}
		}
		all = append(all, link)
	}
	return all
}

// wasMeasured is the round trip in the former status, if it stands for the same verdict.
func (e *Emulation) wasMeasured(p pair) (time.Duration, bool) {
	for _, l := range e.Cluster.Status.Links {
		if l.Between != p.name || l.Declared != duration(p.declared) || l.Measured == "" {
			continue
		}
		was, err := time.ParseDuration(string(l.Measured))
		return was, err == nil && e.judgeRTT(p.declared, was) == p.verdict
	}
	return 0, false
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
	case e.Cluster.Spec.Paused && len(e.make)+len(e.remove) > 0:
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
	all := e.pairs()
	var worst *pair
	var most float64
	for i := range all {
		p := &all[i]
		if p.verdict != "TooShort" && p.verdict != "TooLong" {
			continue
		}
		if was, known := e.wasMeasured(*p); known {
			p.measured = was
		}
		if off := float64((p.measured - p.declared).Abs()) / float64(max(p.declared, time.Millisecond)); worst == nil ||
			off > most {
			worst, most = p, off
		}
	}
	for _, verdict := range []string{"WaitingForInjection", "NotMeasured"} {
		for i := range all {
			if worst == nil && all[i].verdict == verdict {
				worst = &all[i]
			}
		}
	}
	if worst == nil {
		return say(metav1.ConditionTrue, "WithinTolerance", "The shortest round trips of all %d pairs of sites are "+
			"as declared", len(all))
	}
	return say(metav1.ConditionFalse, worst.verdict, verdicts[worst.verdict], worst.name, worst.declared,
		worst.measured, rttWindow)
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
