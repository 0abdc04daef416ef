package apply

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestStampCovers(t *testing.T) {
	tests := []struct {
		name        string
		after, live stamp
		want        bool
	}{
		{"the same", stamp{"u", "7", 0, ""}, stamp{"u", "7", 0, ""}, true},
		{"a cache that is behind", stamp{"u", "10", 0, ""}, stamp{"u", "9", 0, ""}, true},
		{"changed, without a generation", stamp{"u", "9", 0, ""}, stamp{"u", "10", 0, ""}, false},
		{"another object of the name", stamp{"u", "9", 0, ""}, stamp{"v", "9", 0, ""}, false},
		{"another object of the name, older", stamp{"u", "9", 2, "m"}, stamp{"v", "8", 2, "m"}, false},
		{"only the status changed", stamp{"u", "9", 2, "m"}, stamp{"u", "30", 2, "m"}, true},
		{"the spec changed", stamp{"u", "9", 2, "m"}, stamp{"u", "30", 3, "m"}, false},
		{"labels changed", stamp{"u", "9", 2, "m"}, stamp{"u", "30", 2, "n"}, false},
		{"labels as before, a cache that is behind", stamp{"u", "9", 2, "m"}, stamp{"u", "8", 1, "l"}, true},
		{"never applied", stamp{}, stamp{"u", "1", 1, "m"}, false},
		{"versions that can't be compared", stamp{"u", "x", 0, ""}, stamp{"u", "y", 0, ""}, false},
		{"no version", stamp{"u", "", 0, ""}, stamp{"u", "3", 0, ""}, false},
	}
	for _, tt := range tests {
		if got := tt.after.covers(tt.live); got != tt.want {
			t.Errorf("%s: covers is %t, want %t", tt.name, got, tt.want)
		}
	}
}

func TestStampOf(t *testing.T) {
	o := func(change func(*corev1.Service)) stamp {
		s := &corev1.Service{
			ObjectMeta: metav1.ObjectMeta{
				UID: "u", ResourceVersion: "5", Generation: 1, Labels: map[string]string{"a": "b"},
			},
		}
		change(s)
		return stampOf(s)
	}
	same := o(func(*corev1.Service) {})
	// order is irrelevant: each is looked at for itself
	for what, other := range map[string]stamp{
		"a label":       o(func(s *corev1.Service) { s.Labels["a"] = "c" }),
		"an annotation": o(func(s *corev1.Service) { s.Annotations = map[string]string{"a": "b"} }),
		"an owner":      o(func(s *corev1.Service) { s.OwnerReferences = []metav1.OwnerReference{{UID: "o"}} }),
	} {
		other.revision = "6"
		if same.covers(other) {
			t.Errorf("%s was changed, and it goes unnoticed", what)
		}
	}
	status := o(func(s *corev1.Service) {
		s.ResourceVersion, s.Status.LoadBalancer.Ingress = "6", []corev1.LoadBalancerIngress{{IP: "::1"}}
	})
	if !same.covers(status) {
		t.Error("a change of the status alone is taken for more")
	}
}

func TestIntent(t *testing.T) {
	o := &corev1.Service{
		Spec: corev1.ServiceSpec{ClusterIP: "None"}, Status: corev1.ServiceStatus{Conditions: []metav1.Condition{{}}},
	}
	if _, err := intent(o); err == nil {
		t.Error("an object without a kind is accepted")
	}
	o.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Service"))
	u, err := intent(o)
	if err != nil {
		t.Fatal(err)
	}
	metadata, _ := u.Object["metadata"].(map[string]any)
	if _, there := metadata["creationTimestamp"]; there || u.Object["status"] != nil {
		t.Errorf("what the apiserver fills in is asked for: %v", u.Object)
	}
}
