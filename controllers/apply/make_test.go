package apply

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/world"
)

// What is deleted by its UID alone may have changed since; another object of its name is left alone.
func TestRemoveHasThePreconditionOfTheUID(t *testing.T) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u"}}
	s := newServer(t, pod)
	a := New(s, s)
	seen := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "p", UID: "u", ResourceVersion: "of before"},
	}
	if err := a.Remove(t.Context(), seen); err != nil {
		t.Error(err)
	}
	if err := a.Remove(t.Context(), seen); err != nil {
		t.Errorf("a pod that is gone: %v", err)
	}
	with := s.deleted[0].Preconditions
	if with == nil || with.UID == nil || *with.UID != "u" || with.ResourceVersion != nil {
		t.Errorf("the preconditions are %+v", with)
	}
	asked := len(s.deleted)
	if err := a.Remove(t.Context(), &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}}); err == nil ||
		len(s.deleted) != asked {
		t.Errorf("an object that was never looked at: %v", err)
	}
}

// All are tried, each without what the apiserver and others fill in.
func TestMakeStatesWhatIsMeant(t *testing.T) {
	s := newServer(t)
	a := New(s, s)
	pod := &corev1.Pod{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"},
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "p"},
	}
	refused := false
	s.before = func() error {
		if refused = !refused; refused {
			return errors.New("no webhook answers")
		}
		return nil
	}
	_, err := a.Make(t.Context(), config("one", "1"), pod)
	if err == nil || !strings.Contains(err.Error(), "make ConfigMap one: no webhook answers") ||
		errors.Is(err, ErrStale) {
		t.Errorf("got %v", err)
	}
	if len(s.applied) != 1 || s.applied[0].GetName() != "p" || s.applied[0].Object["status"] != nil {
		t.Errorf("applied %+v", s.applied)
	}
	if err := s.Get(t.Context(), client.ObjectKeyFromObject(pod), pod); err != nil {
		t.Error(err)
	}
}

// What has the name already is left as it is; what is somebody else's is returned.
func TestMakeTakesNothingOver(t *testing.T) {
	theirs, ours := config("one", "theirs"), config("two", "made before")
	theirs.OwnerReferences = nil
	s := newServer(t, theirs, ours)
	taken, err := New(s, s).Make(t.Context(), config("one", "1"), config("two", "2"))
	want := []world.Taken{{Kind: "ConfigMap", Name: "one", Whose: "no cluster controls it"}}
	if err != nil || !slices.Equal(taken, want) {
		t.Errorf("got %v, %v", taken, err)
	}
	if s.config(t, "one").Data["k"] != "theirs" || s.config(t, "two").Data["k"] != "made before" || len(s.applied) > 0 {
		t.Errorf("applied %+v", s.applied)
	}
}
