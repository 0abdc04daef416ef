package apply

import (
	"context"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mounting is a StatefulSet whose pods mount a ConfigMap.
func mounting(name string) *appsv1.StatefulSet {
	s := &appsv1.StatefulSet{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apps/v1", Kind: "StatefulSet"},
		ObjectMeta: metav1.ObjectMeta{Namespace: first.Namespace, Name: "member", OwnerReferences: owned()},
	}
	s.Spec.Template.Spec.Volumes = []corev1.Volume{{Name: "boot", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: name}},
	}}}
	return s
}

// away does not answer questions for ConfigMaps.
type away struct{ client.Reader }

func (a away) Get(ctx context.Context, key types.NamespacedName, o client.Object, options ...client.GetOption) error {
	if o.GetObjectKind().GroupVersionKind().Kind == "ConfigMap" {
		return apierrors.NewTimeoutError("away", 1)
	}
	return a.Reader.Get(ctx, key, o, options...)
}

// No pod starts on what is somebody else's, nor while nobody knows whose it is.
func TestNoPodStartsOnWhatIsNotTheClusters(t *testing.T) {
	foreign := func() *corev1.ConfigMap {
		theirs := config("boot", "theirs")
		theirs.OwnerReferences = nil
		return theirs
	}
	for name, begin := range map[string]func() (*server, client.Reader){
		"it was there": func() (*server, client.Reader) { s := newServer(t, foreign()); return s, s },
		"it comes between the look and the apply": func() (*server, client.Reader) {
			s, came := newServer(t), false
			s.before = func() error {
				if came {
					return nil
				}
				came = true
				return s.Create(t.Context(), foreign())
			}
			return s, s
		},
		"nobody knows": func() (*server, client.Reader) { s := newServer(t); return s, away{s} },
	} {
		s, direct := begin()
		_, err := New(s, direct).Apply(t.Context(), owner(), []client.Object{config("boot", "1"), mounting("boot")})
		for _, u := range s.applied {
			if u.GetKind() == "StatefulSet" {
				t.Errorf("%s: the StatefulSet is applied (%v)", name, err)
			}
		}
	}
}
