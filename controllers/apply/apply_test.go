package apply

import (
	"context"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/georegister/georegister/api/v1alpha1"
)

var first = types.NamespacedName{Namespace: "shop", Name: "first"}

// owner is the cluster of that name.
func owner() *v1alpha1.GeoRegisterCluster {
	return &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name, UID: "first-uid"},
	}
}

// owned are the owner references of the cluster's objects.
func owned() []metav1.OwnerReference {
	yes := true
	return []metav1.OwnerReference{
		{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: first.Name, UID: "first-uid", Controller: &yes},
	}
}

// absent does what an apiserver does with Absent, which the fake refuses where nothing is.
func absent(ctx context.Context, c client.Client, o runtime.ApplyConfiguration) error {
	u := o.(interface {
		GetNamespace() string
		GetName() string
		GetResourceVersion() string
		SetResourceVersion(string)
		GroupVersionKind() schema.GroupVersionKind
	})
	if u.GetResourceVersion() != Absent {
		return nil
	}
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(u.GroupVersionKind())
	if err := c.Get(ctx, types.NamespacedName{Namespace: u.GetNamespace(), Name: u.GetName()}, there); err == nil {
		return apierrors.NewConflict(schema.GroupResource{}, u.GetName(), errors.New("the object has been modified"))
	}
	u.SetResourceVersion("")
	return nil
}

// server is an apiserver without a network that counts what it is asked to do.
type server struct {
	client.WithWatch
	applied []*unstructured.Unstructured // as they were sent
	deleted []client.DeleteOptions
	updates int // of statuses
	evicted []*policyv1.Eviction
	// before is called ahead of every write, and may refuse it.
	before func() error
}

func newServer(t *testing.T, objects ...client.Object) *server {
	t.Helper()
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, policyv1.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(scheme); err != nil {
			t.Fatal(err)
		}
	}
	s := &server{before: func() error { return nil }}
	s.WithWatch = fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...).
		WithStatusSubresource(&v1alpha1.GeoRegisterCluster{}).WithInterceptorFuncs(interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			options ...client.ApplyOption) error {
			if err := s.before(); err != nil {
				return err
			}
			content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
			if err != nil {
				return err
			}
			s.applied = append(s.applied, (&unstructured.Unstructured{Object: content}).DeepCopy())
			if err := absent(ctx, c, o); err != nil {
				return err
			}
			return c.Apply(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			var with client.DeleteOptions
			with.ApplyOptions(options)
			s.deleted = append(s.deleted, with)
			return c.Delete(ctx, o, options...)
		},
		SubResourceCreate: func(_ context.Context, _ client.Client, name string, o, sub client.Object,
			_ ...client.SubResourceCreateOption) error {
			if name != "eviction" {
				t.Errorf("unexpected: create %s of %s", name, o.GetName())
			}
			s.evicted = append(s.evicted, sub.(*policyv1.Eviction))
			return s.before()
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object,
			options ...client.SubResourceUpdateOption) error {
			s.updates++
			if err := s.before(); err != nil {
				return err
			}
			return c.SubResource(name).Update(ctx, o, options...)
		},
	}).Build()
	return s
}

// config is a ConfigMap as it is desired.
func config(name, value string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: name, OwnerReferences: owned()},
		Data:       map[string]string{"k": value},
	}
}

func (s *server) config(t *testing.T, name string) *corev1.ConfigMap {
	t.Helper()
	live := &corev1.ConfigMap{}
	if err := s.Get(t.Context(), types.NamespacedName{Namespace: first.Namespace, Name: name}, live); err != nil {
		t.Fatal(err)
	}
	return live
}

// apply applies, and says how many requests that took.
func (s *server) apply(t *testing.T, a *Applier, objects ...client.Object) int {
	t.Helper()
	before := len(s.applied)
	if _, err := a.Apply(t.Context(), owner(), objects); err != nil {
		t.Fatal(err)
	}
	return len(s.applied) - before
}

func TestApplyAsksOnlyForChanges(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	requests := func(when string, want int, objects ...client.Object) {
		t.Helper()
		if got := s.apply(t, a, objects...); got != want {
			t.Errorf("%s: %d requests, want %d", when, got, want)
		}
	}
	requests("new", 2, config("a", "1"), config("b", "1"))
	requests("at rest", 0, config("a", "1"), config("b", "1"))
	requests("one is desired otherwise", 1, config("a", "2"), config("b", "1"))

	foreign := s.config(t, "a")
	foreign.Data["k"] = "foreign"
	if err := s.Update(t.Context(), foreign); err != nil {
		t.Fatal(err)
	}
	requests("somebody changed it", 1, config("a", "2"), config("b", "1"))
	if got := s.config(t, "a").Data["k"]; got != "2" {
		t.Errorf("a foreign change is left: %q", got)
	}
	if err := s.WithWatch.Delete(t.Context(), s.config(t, "b")); err != nil {
		t.Fatal(err)
	}
	requests("somebody deleted it", 1, config("a", "2"), config("b", "1"))

	requests("not desired any more", 0, config("a", "2"))
	requests("desired again", 1, config("a", "2"), config("b", "1"))
	a.Forget(first)
	requests("forgotten", 2, config("a", "2"), config("b", "1"))
	remembered := 0
	a.last.Range(func(any, any) bool { remembered++; return true })
	if remembered != 1 {
		t.Errorf("%d clusters are remembered, want 1", remembered)
	}
}

// The object that was seen is changed or none; one that was not seen is made.
func TestApplyNamesTheObjectThatWasSeen(t *testing.T) {
	old := config("a", "0")
	old.UID = "seen"
	s := newServer(t, old)
	s.apply(t, New(s, s), config("a", "1"), config("b", "1"))
	if got := []types.UID{s.applied[0].GetUID(), s.applied[1].GetUID()}; got[0] != "seen" || got[1] != "" {
		t.Errorf("applied to %q, want the one that was seen, and a new one", got)
	}
	if got := s.applied[0].GetResourceVersion(); got != "" {
		t.Errorf("a is applied to version %s alone: every change of a status would refuse it", got)
	}
	if got := s.applied[1].GetResourceVersion(); got != Absent {
		t.Errorf("b is applied to version %q, want %q: one that somebody else makes meanwhile would be taken",
			got, Absent)
	}
}

func TestApplyLeavesWhatIsBeingDeleted(t *testing.T) {
	leaving := config("a", "0")
	leaving.Finalizers = []string{"example.com/wait"}
	s := newServer(t, leaving)
	if err := s.WithWatch.Delete(t.Context(), leaving.DeepCopy()); err != nil {
		t.Fatal(err)
	}
	if got := s.apply(t, New(s, s), config("a", "1")); got != 0 {
		t.Errorf("%d requests for an object that is being deleted", got)
	}
}

// Kinds of which the operator reads metadata alone are skipped by what their metadata tells.
func TestApplySkipsByMetadata(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	budget := func() client.Object {
		return &policyv1.PodDisruptionBudget{
			TypeMeta: metav1.TypeMeta{APIVersion: "policy/v1", Kind: "PodDisruptionBudget"},
			ObjectMeta: metav1.ObjectMeta{
				Namespace: first.Namespace, Name: "first", Labels: map[string]string{"l": "1"},
				OwnerReferences: owned(),
			},
		}
	}
	if got := s.apply(t, a, budget()) + s.apply(t, a, budget()); got != 1 {
		t.Fatalf("%d requests, want 1", got)
	}
	changed := &policyv1.PodDisruptionBudget{}
	if err := s.Get(t.Context(), first, changed); err != nil {
		t.Fatal(err)
	}
	changed.Labels["l"] = "foreign"
	if err := s.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if got := s.apply(t, a, budget()); got != 1 {
		t.Errorf("%d requests after a foreign change of a label, want 1", got)
	}
}

// One that fails keeps nobody back, and is tried again.
func TestApplyTriesAll(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	calls := 0
	s.before = func() error {
		if calls++; calls == 1 {
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil)
		}
		return nil
	}
	_, err := a.Apply(t.Context(), owner(), []client.Object{config("a", "1"), config("b", "1")})
	if err == nil || !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "apply ConfigMap a: ") ||
		errors.Is(err, ErrStale) {
		t.Errorf("got %v", err)
	}
	if got := s.apply(t, a, config("a", "1"), config("b", "1")); got != 1 {
		t.Errorf("%d requests after one of two failed, want 1", got)
	}
	s.before = func() error {
		return apierrors.NewConflict(schema.GroupResource{Resource: "configmaps"}, "a", errors.New("uid mismatch"))
	}
	if _, err := a.Apply(t.Context(), owner(), []client.Object{config("a", "2")}); !errors.Is(err, ErrStale) {
		t.Errorf("a conflict is %v, want ErrStale", err)
	}
}
