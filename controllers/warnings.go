package controllers

import (
	"context"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/controllers/world"
)

const (
	// startsWithin is how long a pod may take to start before anybody asks why it does not.
	startsWithin = 3 * time.Second
	// warnedFor is how long what the events of an object said is used again: a cluster in trouble is looked at every
	// two seconds, and to list events is work for the apiserver.
	warnedFor = 20 * time.Second
)

// warn has those whose pods are missing or do not start say what the events of their objects warn of. The events are
// asked for one object at a time, since the apiserver has many and none is watched; without them nothing is held up.
func (o *observer) warn(ctx context.Context, s *world.Snapshot) {
	for _, all := range [][]world.Member{s.Members, s.Witnesses} {
		for i := range all {
			for _, about := range suspects(&all[i], s.Now) {
				if warning := o.warningOf(ctx, about); warning != nil {
					all[i].Warnings = append(all[i].Warnings, *warning)
				}
			}
		}
	}
}

// suspect is an object that may keep a pod from running.
type suspect struct {
	kind   string
	object client.Object
}

// suspects are the objects of a member or a witness that may say why its pod does not run, if it should by now.
func suspects(m *world.Member, now time.Time) (all []suspect) {
	late := func(o client.Object) bool { return now.Sub(o.GetCreationTimestamp().Time) >= startsWithin }
	switch {
	case m.Pod == nil && (m.StatefulSet == nil || m.StatefulSet.DeletionTimestamp != nil || !late(m.StatefulSet)):
		return nil
	case m.Pod == nil:
		all = append(all, suspect{"StatefulSet", m.StatefulSet})
	case m.Pod.DeletionTimestamp != nil || m.Pod.Status.Phase != corev1.PodPending || !late(m.Pod):
		return nil
	default:
		all = append(all, suspect{"Pod", m.Pod})
	}
	if m.Volume != nil && m.Volume.Status.Phase == corev1.ClaimPending {
		all = append(all, suspect{"PersistentVolumeClaim", m.Volume})
	}
	return all
}

// warningOf is the latest warning of an object, or nil.
func (o *observer) warningOf(ctx context.Context, about suspect) *world.Warning {
	uid := about.object.GetUID()
	if known, lately := o.warnings.Get(uid); lately {
		return known.(*world.Warning)
	}
	var events corev1.EventList
	err := o.live.List(ctx, &events, client.InNamespace(about.object.GetNamespace()),
		client.MatchingFields{"involvedObject.uid": string(uid), "type": corev1.EventTypeWarning})
	if err != nil {
		log.FromContext(ctx).V(1).Info("Could not read events", "of", about.object.GetName(), "reason", err.Error())
	}
	var warning *world.Warning
	if len(events.Items) > 0 {
		latest := slices.MaxFunc(events.Items, func(a, b corev1.Event) int {
			return eventTime(&a).Compare(eventTime(&b))
		})
		warning = &world.Warning{Kind: about.kind, Reason: latest.Reason, Message: latest.Message}
	}
	o.warnings.Set(uid, warning, warnedFor)
	return warning
}

// eventTime is when an event happened last.
func eventTime(e *corev1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp.Time
	case !e.EventTime.IsZero():
		return e.EventTime.Time
	}
	return e.CreationTimestamp.Time
}
