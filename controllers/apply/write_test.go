package apply

import (
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
)

func TestRecordIsSwapped(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	if err := a.Record(t.Context(), config("first--view", "1"), "", ""); err != nil {
		t.Fatal(err)
	}
	if err := a.Record(t.Context(), config("first--view", "other"), "", ""); !errors.Is(err, ErrStale) {
		t.Errorf("founded twice: %v, want ErrStale", err)
	}
	// The fake gives no UIDs.
	seen := s.config(t, "first--view")
	seen.UID = "u"
	if err := s.Update(t.Context(), seen); err != nil {
		t.Fatal(err)
	}
	if err := a.Record(t.Context(), config("first--view", "2"), seen.UID, seen.ResourceVersion); err != nil {
		t.Fatal(err)
	}
	err := a.Record(t.Context(), config("first--view", "other"), seen.UID, seen.ResourceVersion)
	if !errors.Is(err, ErrStale) || !strings.Contains(err.Error(), "write record first--view: ") {
		t.Errorf("two changes of one version: %v, want ErrStale", err)
	}
	last := s.config(t, "first--view")
	if last.Data["k"] != "2" {
		t.Errorf("the record is %q, want the one that won", last.Data["k"])
	}
	if err := s.WithWatch.Delete(t.Context(), last); err != nil {
		t.Fatal(err)
	}
	if err := a.Record(t.Context(), config("first--view", "3"), last.UID,
		last.ResourceVersion); !errors.Is(err, ErrStale) {
		t.Errorf("a change of a record that is gone: %v, want ErrStale", err)
	}
}

func TestDeleteHasPreconditions(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u"}}
	s := newServer(t, pod)
	a := New(s, s)
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Fatal(err)
	}
	old := pod.DeepCopy()
	pod.Labels = map[string]string{"changed": "since"}
	if err := s.Update(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if err := a.Delete(t.Context(), old); !errors.Is(err, ErrStale) {
		t.Errorf("a pod that was changed since: %v, want ErrStale", err)
	}
	if err := a.Delete(t.Context(), pod); err != nil {
		t.Error(err)
	}
	if err := a.Delete(t.Context(), pod); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	for i, with := range s.deleted {
		want := []string{old.ResourceVersion, pod.ResourceVersion, pod.ResourceVersion}[i]
		if with.Preconditions == nil || with.Preconditions.UID == nil || *with.Preconditions.UID != "u" ||
			with.Preconditions.ResourceVersion == nil || *with.Preconditions.ResourceVersion != want {
			t.Errorf("deletion %d has the preconditions %v", i, with.Preconditions)
		}
	}
	asked := len(s.deleted)
	if err := a.Delete(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p", UID: "u"}}); err == nil ||
		len(s.deleted) != asked {
		t.Errorf("an object that was never looked at: %v", err)
	}
}

func TestEvictAsksTheBudget(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	pods := schema.GroupResource{Resource: "pods"}
	budget := apierrors.NewTooManyRequests("no", 0)
	budget.ErrStatus.Details.Causes = []metav1.StatusCause{
		{Type: policyv1.DisruptionBudgetCause, Message: "needs 2 healthy pods and has 2"},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u", ResourceVersion: "7"}}
	for name, tt := range map[string]struct {
		answer error
		fails  bool
		is     error // what came is, among others
		not    []error
	}{
		"evicted":           {nil, false, nil, nil},
		"gone already":      {apierrors.NewNotFound(pods, "p"), false, nil, nil},
		"the budget":        {budget, true, ErrBudget, []error{ErrStale}},
		"too many requests": {apierrors.NewTooManyRequests("slow down", 0), true, nil, []error{ErrBudget, ErrStale}},
		"changed since":     {apierrors.NewConflict(pods, "p", errors.New("uid")), true, ErrStale, []error{ErrBudget}},
	} {
		s.before = func() error { return tt.answer }
		err := a.Evict(t.Context(), pod)
		if (err != nil) != tt.fails || tt.is != nil && !errors.Is(err, tt.is) {
			t.Errorf("%s: got %v, want %v", name, err, tt.is)
		}
		for _, not := range tt.not {
			if errors.Is(err, not) {
				t.Errorf("%s: got %v, which is %v", name, err, not)
			}
		}
	}
	for _, e := range s.evicted {
		with := e.DeleteOptions.Preconditions
		if e.Name != "p" || with == nil || *with.UID != "u" || *with.ResourceVersion != "7" {
			t.Errorf("evicts %s under the preconditions %v", e.Name, with)
		}
	}
	asked := len(s.evicted)
	if err := a.Evict(t.Context(), &corev1.Pod{}); err == nil || len(s.evicted) != asked {
		t.Errorf("a pod that was never looked at: %v", err)
	}
}

func TestPruneLeavesOthersAlone(t *testing.T) {
	controls := true
	owned := config("owned", "1")
	owned.UID, owned.OwnerReferences = "a", []metav1.OwnerReference{{UID: "me", Name: "first", Controller: &controls}}
	foreign := config("foreign", "1")
	foreign.UID, foreign.OwnerReferences = "b",
		[]metav1.OwnerReference{{UID: "other", Name: "first", Controller: &controls}}
	nobodys := config("nobodys", "1")
	nobodys.UID = "c"
	s := newServer(t, owned, foreign, nobodys)
	wanted := []client.Object{config("owned", ""), config("foreign", ""), config("nobodys", ""), config("missing", "")}
	if err := New(s, s).Prune(t.Context(), "me", wanted); err != nil {
		t.Fatal(err)
	}
	var left corev1.ConfigMapList
	if err := s.List(t.Context(), &left); err != nil || len(left.Items) != 2 || left.Items[0].Name != "foreign" ||
		left.Items[1].Name != "nobodys" {
		t.Errorf("left are %v, %v", left.Items, err)
	}
}

func TestStatusKeepsTimesAndRests(t *testing.T) {
	s := newServer(t,
		&v1alpha1.GeoRegisterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name}})
	a := New(s, s)
	began := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	seen := func() *v1alpha1.GeoRegisterCluster {
		c := &v1alpha1.GeoRegisterCluster{}
		if err := s.Get(t.Context(), first, c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	status := func(available, degraded metav1.ConditionStatus, message string) v1alpha1.GeoRegisterClusterStatus {
		return v1alpha1.GeoRegisterClusterStatus{Conditions: []metav1.Condition{
			{Type: v1alpha1.ConditionAvailable, Status: available, Reason: "R", Message: message},
			{Type: v1alpha1.ConditionDegraded, Status: degraded, Reason: "R"},
		}}
	}
	for _, step := range []struct {
		what                string
		status              v1alpha1.GeoRegisterClusterStatus
		writes              int
		available, degraded time.Duration // after the beginning: when they are said to have changed
	}{
		{"the first", status("True", "False", "3 of 3"), 1, 0, 0},
		{"the same", status("True", "False", "3 of 3"), 1, 0, 0},
		{"another message", status("True", "False", "2 of 3"), 2, 0, 0},
		{"another status", status("True", "True", "2 of 3"), 3, 0, 2 * time.Minute},
		{"and back", status("True", "False", "2 of 3"), 4, 0, 3 * time.Minute},
	} {
		now := began.Add(time.Duration(s.updates) * time.Minute)
		if step.writes == s.updates { // nothing is to be written: a time must not be what is new
			now = now.Add(time.Hour)
		}
		if err := a.Status(t.Context(), seen(), step.status, now); err != nil {
			t.Fatalf("%s: %v", step.what, err)
		}
		conditions := seen().Status.Conditions
		if s.updates != step.writes ||
			!conditions[0].LastTransitionTime.Equal(&metav1.Time{Time: began.Add(step.available)}) ||
			!conditions[1].LastTransitionTime.Equal(&metav1.Time{Time: began.Add(step.degraded)}) {
			t.Errorf("%s: %d writes, want %d; conditions %+v", step.what, s.updates, step.writes, conditions)
		}
	}
}

func TestStatusOfAnOlderResource(t *testing.T) {
	s := newServer(t,
		&v1alpha1.GeoRegisterCluster{ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: first.Name}})
	var seen v1alpha1.GeoRegisterCluster
	if err := s.Get(t.Context(), first, &seen); err != nil {
		t.Fatal(err)
	}
	changed := seen.DeepCopy()
	changed.Annotations = map[string]string{"a": "b"}
	if err := s.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	err := New(s, s).Status(t.Context(), &seen, v1alpha1.GeoRegisterClusterStatus{Ready: "3/3"}, time.Now())
	if !errors.Is(err, ErrStale) || !apierrors.IsConflict(err) {
		t.Errorf("got %v, want ErrStale", err)
	}
	if seen.Status.Ready != "" {
		t.Error("the resource that was observed was changed")
	}
}
