// Package emulation keeps the emulated network between the sites as spec.wan asks for it, with objects of Chaos Mesh.
package emulation

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
)

// direction is the network from one site to another.
type direction struct{ from, to string }

func (d direction) String() string { return d.from + " to " + d.to }

// stage is how far a direction is, from good to bad.
type stage int

// reason is a stage as conditions name it.
func (s stage) reason() string {
	return [...]string{"Injected", "Removing", "Injecting", "RecreateThrottled", "WaitingForPods", "Failed",
		"RemovalStuck"}[s]
}

const (
	inPlace stage = iota
	removing
	injecting
	throttled
	waitsForPods
	failed
	stuck
)

// Times of the emulated network.
const (
	// soon is when to look again while it is not known what there is.
	soon = 2 * time.Second
	// remakeAfter is how old an object gets at least before it is made again: while pods are killed on a schedule, the
	// network would be without it for most of the time otherwise.
	remakeAfter = 30 * time.Second
	// remakeAtMost bounds how long an object is left alone that is of no use however often it is made again.
	remakeAtMost = 10 * time.Minute
	// rttWindow is for how long those round trips count that were measured before an injection: members remember them
	// for 13 s, and are asked every two.
	rttWindow = 16 * time.Second
	// lostAfter is how long round trips are too short before the network counts as lost. Chaos Mesh takes all rules out
	// of a pod for a moment whenever any of them changes, and members remember what they measured then.
	lostAfter = 2 * rttWindow
	// stuckAfter is how long Chaos Mesh may take to undo an object before it is said to be stuck.
	stuckAfter = time.Minute
	// releaseAfter is how long Chaos Mesh may wait for a pod that is gone.
	releaseAfter = 5 * time.Second
	// troubleAfter is how long Chaos Mesh may fail and try again before that is said to be a failure.
	troubleAfter = 10 * time.Second
	// podPatience is how long a pod that does not run holds up the network of the others at its site.
	podPatience = time.Minute
)

// Emulation is how far the emulated network of all directions is, and what is to be done about it. It is decided from
// the snapshot and the pods that are to be there, and from nothing else that is known of the cluster.
type Emulation struct {
	world.Snapshot
	expected []Pod

	directions int // that are to be emulated
	// placed are the objects that are in place between the pods that there are now.
	placed map[direction]world.Injection
	// leaving are directions that are not to be emulated, and still are.
	leaving map[direction]bool
	// worst is how far the directions are that are not in place, and of one of them, why.
	worst   stage
	message string

	changes  Changes  // without events
	remade   []string // what is removed to be made again, and why
	unwanted int      // what is removed for good

	// Links are all pairs of sites that are asked for, in the order of the sites.
	Links []Link
	Again time.Duration // when to look again for time's sake; 0: never
}

// Pod is a pod that a site is to have, and whether it is there.
type Pod struct {
	who, site string
	there     bool
}

// site is a site as far as it can be emulated.
type site struct {
	chaosmesh.Site
	waits string // for which pod, or empty
}

// Changes are what to do about the emulated network between the sites, in this order: remove objects, and
// annotate such as are being removed so that Chaos Mesh lets go of them, each only if it has the UID that was observed;
// make others, and tell the events.
type Changes struct {
	Remove, Release, Make []client.Object
	Events                []message.Event
}

// Of compares the emulation that there is with that of spec.wan, unless it is not clear whose the pods
// are.
func Of(s *facts.Facts) *Emulation {
	e := &Emulation{Snapshot: s.Snapshot, placed: map[direction]world.Injection{}, leaving: map[direction]bool{}}
	if s.Unclear() {
		e.note(waitsForPods, s.Doubt.Message)
		e.measure()
		return e
	}
	for _, m := range s.MembersToKeep() {
		e.expected = append(e.expected, Pod{message.Member(m), m.Site, s.Pod(m.ID) != nil})
	}
	for _, w := range s.DedicatedWitnesses() {
		e.expected = append(e.expected, Pod{message.Witness(w), w.Site, s.Dedicated(w.ID).Pod != nil})
	}
	e.compare()
	e.measure()
	return e
}

// compare notes for each direction how far it is, and what is to be done about it.
func (e *Emulation) compare() {
	if e.Emulation.Kind && !e.Emulation.Known { // a watch has begun
		e.lookAgain(soon)
	}
	there := map[direction][]world.Injection{}
	for _, i := range e.Emulation.Links {
		d := direction{i.From, i.To}
		there[d] = append(there[d], i)
	}
	if e.asked() {
		sites := e.sites()
		for _, from := range sites {
			for _, to := range sites {
				d := direction{from.Name, to.Name}
				if e.Cluster.Spec.Way(d.from, d.to) == (v1alpha1.Way{}) {
					continue
				}
				e.directions++
				if e.Emulation.Known {
					e.keepDirection(from, to, there[d])
				}
				delete(there, d)
			}
		}
	}
	for _, i := range e.Emulation.Links {
		if d := (direction{i.From, i.To}); there[d] != nil {
			e.removeUnwanted(d, i)
		}
	}
}

// asked reports whether Chaos Mesh is asked to emulate the network.
func (e *Emulation) asked() bool {
	w := e.Cluster.Spec.WAN
	return w != nil && w.Provider == v1alpha1.ChaosMesh
}

// Changes are what to do about the emulated network. Nothing is done while the cluster is paused.
func (e *Emulation) Changes(status v1alpha1.GeoRegisterClusterStatus) Changes {
	var out Changes
	if !e.Cluster.Spec.Paused {
		out = e.changes
		if len(e.remade) > 0 {
			out.Events = append(out.Events, message.Normal("WANRemade", "Remake", "Removed parts of the emulated "+
				"network to make them again: "+message.List(e.remade)))
		}
		if e.unwanted > 0 {
			out.Events = append(out.Events, message.Normal("WANRemoved", "Remove",
				fmt.Sprintf("Removed the emulated network of %d directions, which is not asked for any more",
					e.unwanted)))
		}
	}
	out.Events = append(out.Events, wanEvents(e.Cluster.Status.Conditions, status.Conditions)...)
	return out
}

// sites are the sites that are asked for, and those where pods of members are that are about to leave.
func (e *Emulation) sites() (all []site) {
	add := func(name string) {
		if !slices.ContainsFunc(all, func(o site) bool { return o.Name == name }) {
			all = append(all, e.site(name))
		}
	}
	for _, asked := range e.Cluster.Spec.Sites {
		add(asked.Name)
	}
	for _, m := range slices.Concat(e.Members, e.Witnesses) {
		if m.Pod != nil {
			add(m.Site)
		}
	}
	return all
}

// site is a site with its pods that run. It waits for those that are about to, so that it is not made for half of
// them first. A pod that has not run for long is left out: its network is made when it runs.
func (e *Emulation) site(called string) site {
	of := site{Site: chaosmesh.Site{Name: called}}
	waits := func(format string, args ...any) { of.waits = cmp.Or(of.waits, fmt.Sprintf(format, args...)) }
	for _, pod := range e.expected {
		if pod.site == called && !pod.there {
			waits("%s has no pod", pod.who)
		}
	}
	for _, m := range slices.Concat(e.Members, e.Witnesses) {
		if m.Site != called || m.Pod == nil {
			continue
		}
		since, why := m.Pod.CreationTimestamp.Time, ""
		switch {
		case m.Pod.DeletionTimestamp != nil:
			since, why = m.Pod.DeletionTimestamp.Time, "is ending"
		case m.Pod.Status.Phase != corev1.PodRunning:
			why = fmt.Sprintf("is %s", cmp.Or(m.Pod.Status.Phase, corev1.PodPending))
		case m.Pod.Status.PodIP == "":
			why = "has no address"
		}
		if why == "" {
			of.Pods = append(of.Pods, m.Pod)
			continue
		}
		if left := podPatience - e.Now.Sub(since); left > 0 {
			e.lookAgain(left)
			waits("pod %s %s", m.Pod.Name, why)
		}
	}
	if len(of.Pods) == 0 {
		waits("no pod of site %s runs", called)
	}
	return of
}

// keepDirection compares what there is of a direction with what should be: one object, of the pods that run now.
func (e *Emulation) keepDirection(from, to site, there []world.Injection) {
	d := direction{from.Name, to.Name}
	if why := cmp.Or(from.waits, to.waits); why != "" {
		e.note(waitsForPods, fmt.Sprintf("%s: %s", d, why))
		for _, i := range there {
			if !i.Deleting.IsZero() {
				e.awaitRemoval(injecting, d, i)
			}
		}
		return
	}
	want := chaosmesh.Object(e.Cluster, from.Site, to.Site)
	if len(there) == 0 { // they would not add up: chance decides which of two objects counts
		e.changes.Make = append(e.changes.Make, want)
		e.note(injecting, fmt.Sprintf("%s: Chaos Mesh is asked for it", d))
	}
	for _, i := range there {
		switch age := e.Now.Sub(i.Created); {
		case !i.Deleting.IsZero():
			e.awaitRemoval(injecting, d, i)
		case i.Name == want.GetName():
			e.checkInjection(d, i, slices.Concat(from.Pods, to.Pods), len(there) == 1)
		case age < remakeAfter:
			e.lookAgain(remakeAfter - age)
			e.note(throttled, fmt.Sprintf("%s: pods or spec.wan changed, and it is not made again sooner than %v "+
				"after the last time", d, remakeAfter))
		default:
			e.remake(d, i, "pods or spec.wan changed")
		}
	}
}

// checkInjection says how far an object is that should be.
func (e *Emulation) checkInjection(d direction, i world.Injection, pods []*corev1.Pod, alone bool) {
	age := e.Now.Sub(i.Created)
	bad := func(after time.Duration, format string, args ...any) {
		stage := injecting
		if age >= after {
			stage = failed
		} else {
			e.lookAgain(after - age)
		}
		e.note(stage, fmt.Sprintf("%s: ", d)+fmt.Sprintf(format, args...))
	}
	unchosen, uninjected := firstMissing(pods, i.Chosen), firstMissing(pods, i.Injected)
	switch patience := e.patience(v1alpha1.ConditionWANInjected, remakeAfter); {
	case i.AllInjected && uninjected == "" && alone:
		e.placed[d] = i
	case i.Looked && unchosen != "" && age >= patience:
		e.remake(d, i, "Chaos Mesh did not choose pod "+unchosen)
	case i.Looked && unchosen != "":
		e.lookAgain(patience - age)
		bad(troubleAfter, "Chaos Mesh did not choose pod %s for NetworkChaos %s; if it selects pods in annotated "+
			"namespaces alone, annotate this one", unchosen, i.Name)
	case i.Problem != "":
		bad(troubleAfter, "NetworkChaos %s: %s", i.Name, i.Problem)
	case !i.Looked:
		bad(remakeAfter, "Chaos Mesh has not begun with NetworkChaos %s: does its controller run?", i.Name)
	default:
		e.note(injecting, fmt.Sprintf("%s: Chaos Mesh injects NetworkChaos %s", d, i.Name))
	}
}

// firstMissing names the first pod that a sorted list is without, or is empty.
func firstMissing(pods []*corev1.Pod, from []string) string {
	for _, pod := range pods {
		if _, there := slices.BinarySearch(from, pod.Name); !there {
			return pod.Name
		}
	}
	return ""
}

// remakeLost has the network between two sites made again whose round trips are clearly shorter than declared: a pod
// whose sandbox was made again keeps its name and its address, and loses its rules. It reports whether it does.
func (e *Emulation) remakeLost(a, b string, l Link, since time.Time) bool {
	if l.Measured == 0 || l.Measured >= l.Declared-l.Declared/10 {
		return false
	}
	var out time.Duration // for which the status has had them out of tolerance
	if l.was.Between != "" && !l.was.WithinTolerance {
		out = e.Now.Sub(l.was.LastTransitionTime.Time)
	}
	after := e.patience(v1alpha1.ConditionWANWithinTolerance, remakeAfter+rttWindow)
	if left := max(after-e.Now.Sub(since), lostAfter-out); left > 0 {
		e.lookAgain(left)
		return false
	}
	for _, d := range []direction{{a, b}, {b, a}} {
		if i, there := e.placed[d]; there && e.Cluster.Spec.Way(d.from, d.to).Delay > 0 {
			delete(e.placed, d)
			e.remake(d, i, "it was without effect")
		}
	}
	return true
}

// patience is how old an object gets before it is made again though it is as it should be. That is at least so much,
// and half of the time for which the condition has not been true: what keeps being of no use is made again half as
// often each time. Without the former status it starts again.
func (e *Emulation) patience(kind string, least time.Duration) time.Duration {
	is := meta.FindStatusCondition(e.Cluster.Status.Conditions, kind)
	if is == nil || is.Status == metav1.ConditionTrue {
		return least
	}
	return max(least, min(e.Now.Sub(is.LastTransitionTime.Time)/2, remakeAtMost))
}

// removeUnwanted removes an object that no one asks for.
func (e *Emulation) removeUnwanted(d direction, i world.Injection) {
	e.leaving[d] = true
	if !i.Deleting.IsZero() {
		e.awaitRemoval(removing, d, i)
		return
	}
	e.remove(i)
	e.unwanted++
	e.note(removing, fmt.Sprintf("%s: NetworkChaos %s is not asked for any more", d, i.Name))
}

// awaitRemoval says that an object is on its way out, or that it can't get out.
func (e *Emulation) awaitRemoval(at stage, d direction, i world.Injection) {
	if e.waitsInVain(i) {
		if left := releaseAfter - e.Now.Sub(i.Deleting); left > 0 {
			e.lookAgain(left)
		} else if !i.Forced {
			e.changes.Release = append(e.changes.Release, chaosmesh.Release(e.Cluster.Namespace, i))
		}
	}
	if left := stuckAfter - e.Now.Sub(i.Deleting); left > 0 {
		e.lookAgain(left)
		e.note(at, fmt.Sprintf("%s: NetworkChaos %s is being removed", d, i.Name))
		return
	}
	e.note(stuck, fmt.Sprintf("%s: NetworkChaos %s is being removed, and Chaos Mesh does not let go of it: does "+
		"chaos-daemon run where its pods "+
		"are? If their rules do not matter, annotate it with %s=forced", d, i.Name, chaosmesh.ForceAnnotation))
}

// waitsInVain reports whether Chaos Mesh has taken back all rules of an object, and waits to hear so of pods that are
// gone. It counts the versions of its own record of a pod, by the pod's name, and that count begins again with the pod
// that comes after it, under the same name in a StatefulSet.
func (e *Emulation) waitsInVain(i world.Injection) bool {
	for _, u := range i.Unconfirmed {
		if !slices.ContainsFunc(e.Members, func(m world.Member) bool {
			return m.Pod != nil && m.Pod.Name == u.Pod && !m.Pod.CreationTimestamp.Time.Before(u.Applied)
		}) {
			return false
		}
	}
	return len(i.Unconfirmed) > 0 && !i.Held
}

// remake removes an object so that it is made again once it is gone.
func (e *Emulation) remake(d direction, i world.Injection, why string) {
	e.remove(i)
	e.remade = append(e.remade, fmt.Sprintf("%s, since %s", d, why))
	e.note(injecting, fmt.Sprintf("%s: it is made again, since %s", d, why))
}

func (e *Emulation) remove(i world.Injection) {
	e.changes.Remove = append(e.changes.Remove, chaosmesh.Reference(e.Cluster.Namespace, i))
}

// note says how far a direction is that is not in place. The worst one is told, and of equals the first.
func (e *Emulation) note(at stage, message string) {
	if at > e.worst {
		e.worst, e.message = at, message
	}
}

// lookAgain has the cluster looked at again after a time.
func (e *Emulation) lookAgain(in time.Duration) {
	in = max(in, time.Second)
	if e.Again == 0 || in < e.Again {
		e.Again = in
	}
}
