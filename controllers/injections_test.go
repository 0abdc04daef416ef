package controllers

import (
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/emulation"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
)

// wide is the cluster with a network that Chaos Mesh emulates.
func wide() *v1alpha1.GeoRegisterCluster {
	c := shop()
	c.Spec.WAN = &v1alpha1.WAN{Provider: v1alpha1.ChaosMesh, Links: []v1alpha1.Link{
		{Between: []string{"a", "b"}, RTT: "10ms"}, {Between: []string{"b", "c"}, RTT: "20ms"},
		{Between: []string{"a", "c"}, RTT: "30ms"},
	}}
	return c
}

// direction is an object of the network, under a name of the test's.
func direction(name, from, to string) *unstructured.Unstructured {
	u := chaosmesh.Object(wide(), chaosmesh.Site{Name: from}, chaosmesh.Site{Name: to})
	u.SetName(name)
	u.SetUID(types.UID("uid of " + name))
	return u
}

func TestOnlyTheObjectsOfTheClusterAreRead(t *testing.T) {
	other, foreign, elsewhere := direction("other", "a", "b"), direction("foreign", "a", "b"),
		direction("elsewhere", "a", "b")
	other.SetLabels(map[string]string{build.ClusterLabel: "second", chaosmesh.FromLabel: "a", chaosmesh.ToLabel: "b"})
	foreign.SetLabels(map[string]string{build.ClusterLabel: "first"}) // of somebody who injects something else
	elsewhere.SetNamespace("another")
	r := operator(t, &diary{}, direction("y", "b", "a"), direction("x", "a", "b"), other, foreign, elsewhere)
	look := func() (world.Emulation, error) {
		l := r.observer.look(t.Context(), wide())
		l.emulation()
		return l.Emulation, l.err
	}
	if got, err := look(); err != nil || !reflect.DeepEqual(got, world.Emulation{}) {
		t.Errorf("without the kind there is %+v, %v", got, err)
	}
	r.observer.optional.found.Store(chaosmesh.Kind, true)
	got, err := look()
	if err != nil || !got.Kind || !got.Known || len(got.Links) != 2 || got.Links[0].Name != "x" ||
		got.Links[1].Name != "y" || got.Links[1].From != "b" {
		t.Errorf("there is %+v, %v", got, err)
	}
}

func TestTheNetworkIsChangedByItsPlan(t *testing.T) {
	d := &diary{}
	r := operator(t, d, direction("old", "a", "b"))
	plan := decide.Plan{Emulation: emulation.Changes{
		Remove: []client.Object{direction("old", "a", "b")}, Make: []client.Object{direction("", "b", "a")},
		Events: []message.Event{message.Normal("WANRemade", "Remake", "100% of it")},
	}}
	plan.Emulation.Make[0].SetName("new")
	plan.Emulation.Make[0].SetUID("")
	if err := r.executor.applyEmulation(t.Context(), wide(), &plan); err != nil {
		t.Fatal(err)
	}
	want := []string{"delete old", "apply NetworkChaos new", "event Normal WANRemade Remake: 100% of it"}
	if !slices.Equal(d.lines, want) {
		t.Errorf("did %q, want %q", d.lines, want)
	}
	if len(plan.Status.Conditions) > 0 {
		t.Errorf("the status says %+v", plan.Status.Conditions)
	}
}

// What Chaos Mesh refuses is said, and holds up nothing else.
func TestTheStatusSaysWhyTheNetworkIsNotThere(t *testing.T) {
	running := func(id int, site string) *corev1.Pod {
		p := pod(founded().Members[id-1])
		p.UID, p.Status.Phase, p.Status.PodIP = types.UID(site), corev1.PodRunning, "10.0.0.1"
		return p
	}
	d := &diary{}
	objects := []client.Object{wide(), running(1, "a"), running(2, "b"), running(3, "c")}
	for _, m := range founded().Members { // without them the pods are what a former cluster left
		objects = append(objects,
			&appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: build.StatefulSetName("first", m), UID: "set",
				Labels: build.MemberLabels("first", m), OwnerReferences: old().OwnerReferences}},
			&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop",
				Name: build.VolumeName("first", m), UID: "claim",
				Labels: build.MemberLabels("first", m), OwnerReferences: old().OwnerReferences}})
	}
	r := operator(t, d, objects...)
	r.observer.optional.found.Store(chaosmesh.Kind, true)
	d.refuse = func(line string) error {
		if strings.HasPrefix(line, "apply NetworkChaos") {
			return apierrors.NewInternalError(errors.New("failed calling webhook"))
		}
		return nil
	}
	if _, err := r.Reconcile(t.Context(), request); err == nil {
		t.Fatal("the failure is not tried again")
	}
	var after v1alpha1.GeoRegisterCluster
	if err := r.client.Get(t.Context(), request.NamespacedName, &after); err != nil {
		t.Fatal(err)
	}
	injected := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionWANInjected)
	if injected == nil || injected.Status != metav1.ConditionFalse || injected.Reason != "Failed" ||
		!strings.Contains(injected.Message, "failed calling webhook") {
		t.Errorf("the status says %+v", injected)
	}
	c := meta.FindStatusCondition(after.Status.Conditions, v1alpha1.ConditionDegraded)
	if c == nil || strings.Contains(c.Message, "webhook") {
		t.Errorf("the cluster is degraded by it: %+v", c)
	}
	if !slices.ContainsFunc(d.lines, func(line string) bool {
		return strings.HasPrefix(line, "apply StatefulSet") || strings.HasPrefix(line, "apply PersistentVolumeClaim")
	}) {
		t.Errorf("nothing else was done:\n%s", strings.Join(d.lines, "\n"))
	}
	// A lost race is nothing to tell.
	stale := decide.Plan{Emulation: emulation.Changes{Make: []client.Object{direction("new", "a", "b")}}}
	d.refuse = func(string) error { return apierrors.NewConflict(schema.GroupResource{}, "new", errors.New("changed")) }
	if err := r.executor.applyEmulation(t.Context(), wide(), &stale); err == nil || len(stale.Status.Conditions) > 0 {
		t.Errorf("a lost race: %v, %+v", err, stale.Status.Conditions)
	}
}

func TestRoundTripsAreExported(t *testing.T) {
	registry := prometheus.NewRegistry()
	m := newMetrics(registry)
	first, second := types.NamespacedName{Namespace: "shop", Name: "first"},
		types.NamespacedName{Namespace: "shop", Name: "second"}
	m.setLinks(first, []emulation.Link{{Between: "gone", Declared: time.Second, Measured: time.Second}})
	m.setLinks(first,
		[]emulation.Link{
			{Between: "a-b", Declared: 72 * time.Millisecond, Measured: 73 * time.Millisecond},
			{Between: "a-c", Declared: time.Second},
		})
	m.setLinks(second, []emulation.Link{{Between: "a-b", Declared: time.Second}})
	m.forget(second)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, series := range f.Metric {
			got[f.GetName()+" "+valuesOf(series)] = series.GetGauge().GetValue()
		}
	}
	want := map[string]float64{
		"georegister_wan_declared_rtt_seconds first a-b shop": 0.072,
		"georegister_wan_declared_rtt_seconds first a-c shop": 1,
		"georegister_wan_measured_rtt_seconds first a-b shop": 0.073,
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("exported %v, want %v", got, want)
	}
}

// valuesOf are the values of a series, in the order of their names.
func valuesOf(series *dto.Metric) string {
	var all []string
	for _, l := range series.Label {
		all = append(all, l.GetValue())
	}
	return strings.Join(all, " ")
}
