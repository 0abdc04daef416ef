//go:build controlplane

package controlplane

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// World is a namespace with a kubelet, and as many operators as a test starts.
type World struct {
	t         *testing.T
	ctx       context.Context
	config    *rest.Config // how the apiserver is reached
	api       client.Client
	namespace string
	kubelet   *Kubelet
}

func newWorld(t *testing.T) *World {
	t.Helper()
	return newWorldIn(t, environment.Config)
}

// newWorldIn is one in another control plane than that of all tests.
func newWorldIn(t *testing.T, config *rest.Config) *World {
	t.Helper()
	api := newClient(t, config)
	addNodes(t, api, sites...)
	w := &World{t: t, ctx: context.Background(), config: config, api: api, namespace: newNamespace(t, api)}
	w.kubelet = StartKubelet(t, config, w.namespace)
	return w
}

// create makes a cluster of three sites, changed as the test likes.
func (w *World) create(name string, change func(*v1alpha1.GeoRegisterClusterSpec)) *v1alpha1.GeoRegisterCluster {
	w.t.Helper()
	shards := int32(2)
	c := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name},
		Spec: v1alpha1.GeoRegisterClusterSpec{
			Protocol: "Gryff", Shards: &shards,
			Sites: []v1alpha1.Site{{Name: "ca"}, {Name: "va"}, {Name: "ir"}},
		},
	}
	if change != nil {
		change(&c.Spec)
	}
	if err := w.api.Create(w.ctx, c); err != nil {
		w.t.Fatal(err)
	}
	return c
}

// get reads the object again.
func (w *World) get(object client.Object) {
	w.t.Helper()
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil {
		w.t.Fatal(err)
	}
}

// record is the recorded view; epoch 0 if there is none.
func (w *World) record(c *v1alpha1.GeoRegisterCluster) view.View {
	w.t.Helper()
	record := &corev1.ConfigMap{}
	err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: build.RecordName(c.Name)}, record)
	if client.IgnoreNotFound(err) != nil {
		w.t.Fatal(err)
	}
	v, err := build.ParseRecord(record)
	if err != nil {
		return view.View{}
	}
	return v
}

// condition waits until a condition has a status, and returns it.
func (w *World) condition(c *v1alpha1.GeoRegisterCluster, kind string, status metav1.ConditionStatus) metav1.Condition {
	w.t.Helper()
	var found metav1.Condition
	eventually(w.t, fmt.Sprintf("condition %s=%s", kind, status), func() string {
		w.get(c)
		is := meta.FindStatusCondition(c.Status.Conditions, kind)
		switch {
		case is == nil:
			return "there is no condition yet"
		case is.Status != status || is.ObservedGeneration != c.Generation:
			return fmt.Sprintf("it is %s of generation %d: %s: %s", is.Status, is.ObservedGeneration,
				is.Reason, is.Message)
		}
		found = *is
		return ""
	})
	return found
}

// serving waits until all members of a cluster vote and nothing is wrong or under way, all at the same time: between
// two looks a member that has just come may be missed.
func (w *World) serving(c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	w.servingIn(within, c)
}

// servingIn is serving with another bound, for what takes many steps.
func (w *World) servingIn(within time.Duration, c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	eventuallyIn(w.t, within, "the cluster serves, and rests", func() string {
		w.get(c)
		for kind, status := range map[string]metav1.ConditionStatus{ // order is irrelevant: all must hold
			v1alpha1.ConditionAvailable:   metav1.ConditionTrue,
			v1alpha1.ConditionDegraded:    metav1.ConditionFalse,
			v1alpha1.ConditionProgressing: metav1.ConditionFalse,
		} {
			is := meta.FindStatusCondition(c.Status.Conditions, kind)
			if is == nil || is.Status != status || is.ObservedGeneration != c.Generation {
				return "the conditions are " + conditions(c) // of which there may be none yet
			}
		}
		return ""
	})
}

func TestACreatedClusterIsFoundedAndServes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, environment.Config, settings(w.namespace))
	c := w.create("store", nil)
	asked := c.Spec.DeepCopy()
	w.serving(c)

	v := w.record(c)
	if v.Epoch != 1 || v.Size() != 3 {
		t.Errorf("the recorded view is %+v", v)
	}
	for _, m := range v.Members {
		if m.Disk == "" {
			t.Errorf("member %d of the first view has no disk", m.ID)
		}
	}
	if c.Generation != 1 {
		t.Errorf("the spec was written: generation %d", c.Generation)
	}
	if !equality.Semantic.DeepEqual(c.Spec, *asked) {
		t.Errorf("the spec was written: %+v became %+v", *asked, c.Spec)
	}
	for _, kind := range []string{
		v1alpha1.ConditionQuorumHealthy, v1alpha1.ConditionViewKnown, v1alpha1.ConditionToleratesZoneLoss,
	} {
		w.condition(c, kind, metav1.ConditionTrue)
	}
}
