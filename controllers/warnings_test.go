package controllers

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/cache"
	clocktesting "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// withEvents has the apiserver have events, by the UID of the object that they are about, and counts how often it is
// asked.
func withEvents(r *Reconciler, events map[types.UID][]corev1.Event) (asked *[]string) {
	asked = &[]string{}
	r.live = interceptor.NewClient(r.client.(client.WithWatch), interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList,
			options ...client.ListOption) error {
			found, ok := list.(*corev1.EventList)
			if !ok {
				return c.List(ctx, list, options...)
			}
			var with client.ListOptions
			with.ApplyOptions(options)
			uid, _ := with.FieldSelector.RequiresExactMatch("involvedObject.uid")
			kind, _ := with.FieldSelector.RequiresExactMatch("type")
			*asked = append(*asked, kind+" "+uid)
			found.Items = events[types.UID(uid)]
			return nil
		},
	})
	return asked
}

// What the apiserver says of a pod that it does not let exist stands in an event of its StatefulSet alone. The status
// names it.
func TestReconcileNamesWhyAPodIsNotThere(t *testing.T) {
	first := firstMembers(shop())[0]
	d, ours := &diary{}, old().OwnerReferences
	set := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name: build.StatefulSetName("first", first), UID: "set", OwnerReferences: ours,
		Labels:            build.MemberLabels("first", first),
		CreationTimestamp: metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC))}}
	volume := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
		Name: build.VolumeName("first", first), UID: "claim", OwnerReferences: ours,
		Labels: build.MemberLabels("first", first)}}
	r := operator(t, d, shop(), set, volume)
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	r.now = func() time.Time { return now }
	clock := clocktesting.NewFakeClock(now)
	r.observer.warnings = cache.NewExpiringWithClock(clock)
	earlier, later := metav1.NewTime(now.Add(-2*time.Minute)), metav1.NewTime(now.Add(-time.Minute))
	asked := withEvents(r, map[types.UID][]corev1.Event{"set": {
		{Reason: "FailedCreate", Message: "exceeded quota: pods", LastTimestamp: later},
		{Reason: "FailedCreate", Message: "no PriorityClass", LastTimestamp: earlier},
	}})
	said := func() string {
		var c v1alpha1.GeoRegisterCluster
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Fatal(err)
		}
		if err := r.client.Get(t.Context(), request.NamespacedName, &c); err != nil {
			t.Fatal(err)
		}
		degraded := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionDegraded)
		if degraded.Status == metav1.ConditionTrue {
			return degraded.Reason + ": " + degraded.Message
		}
		return ""
	}
	got := said()
	if !strings.Contains(got, "PodRefused: Member 1 (site a) has no pod") ||
		!strings.Contains(got, "exceeded quota: pods") {
		t.Errorf("the status says %q", got)
	}
	if want := []string{"Warning set"}; !slices.Equal(*asked, want) {
		t.Errorf("it asked %q, want %q: of the one object that should have a pod by now", *asked, want)
	}
	said()
	if len(*asked) != 1 {
		t.Errorf("it asked %d times within %v", len(*asked), warnedFor)
	}
	now = now.Add(warnedFor)
	clock.SetTime(now)
	if said(); !slices.Contains((*asked)[1:], (*asked)[0]) {
		t.Errorf("it does not ask again: %q", *asked)
	}
}
