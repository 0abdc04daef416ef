package controllers

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/cache"
	"k8s.io/apimachinery/pkg/util/managedfields"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/recorder"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

var settings = world.Settings{
	DefaultImage: "georegister:v1", ClusterDomain: "cluster.local", Namespace: "georegister-system",
	LostAfter: time.Minute,
}

// shop is a cluster of a member at each of three sites.
func shop() *v1alpha1.GeoRegisterCluster {
	c := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: "first", UID: "01234567-89ab-cdef-0123-456789abcdef", Generation: 1,
		},
		Spec: v1alpha1.GeoRegisterClusterSpec{Protocol: "Gryff"},
	}
	for _, site := range []string{"a", "b", "c"} {
		c.Spec.Sites = append(c.Spec.Sites, v1alpha1.Site{Name: site})
	}
	return c
}

// founded is the first view of the cluster.
func founded() view.View {
	return view.View{Cluster: "first.x", Epoch: 1, Issued: 3, Members: firstMembers(shop())}
}

func input() build.Input {
	return build.Input{
		Cluster: shop(), View: founded(), ClusterID: "first.x", Image: "georegister:v1", Settings: settings,
	}
}

// pod is a pod of a member, with an address.
func pod(m view.Member) *corev1.Pod {
	controls := true
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: build.PodName("first", m), UID: "pod", Labels: build.MemberLabels("first", m),
			OwnerReferences: []metav1.OwnerReference{
				{Kind: "StatefulSet", Name: build.StatefulSetName("first", m), UID: "set", Controller: &controls},
			},
		},
		Status: corev1.PodStatus{PodIP: "127.0.0.1"},
	}
}

// diary is everything that an operator does to the world, in order: apiserver, members, events.
type diary struct {
	recorder.EventRecorder // of which one method is used
	lines                  []string
	answer                 func(members.Target) members.Answer // nil: nobody answers
	refuse                 func(line string) error             // of what is about to be done; nil: nothing is refused
}

func (d *diary) do(format string, arguments ...any) error {
	line := fmt.Sprintf(format, arguments...)
	d.lines = append(d.lines, line)
	if d.refuse != nil {
		return d.refuse(line)
	}
	return nil
}

// Ask implements members.Members. Looking is not worth a line.
func (d *diary) Ask(_ context.Context, _ string, targets []members.Target) []members.Answer {
	answers := make([]members.Answer, len(targets))
	for i, target := range targets {
		if answers[i].Err = context.DeadlineExceeded; d.answer != nil {
			answers[i] = d.answer(target)
		}
	}
	return answers
}

// Configure implements members.Members.
func (d *diary) Configure(_ context.Context, cluster string, targets []members.Target, v view.View) error {
	for _, target := range targets {
		err := d.do("tell %s member %d of %s at %s epoch %d", cluster, target.ID, target.ClusterID,
			target.Address, v.Epoch)
		if err != nil {
			return err
		}
	}
	return nil
}

// Forget implements members.Members.
func (d *diary) Forget(cluster string) { _ = d.do("forget %s", cluster) }

// Eventf implements recorder.EventRecorder.
func (d *diary) Eventf(_, _ runtime.Object, kind, reason, action, note string, arguments ...any) {
	_ = d.do("event %s %s %s: %s", kind, reason, action, fmt.Sprintf(note, arguments...))
}

// operator is a reconciler over an apiserver without a network that has the objects.
func operator(t *testing.T, d *diary, objects ...client.Object) *Reconciler {
	t.Helper()
	scheme, err := newScheme()
	if err != nil {
		t.Fatal(err)
	}
	// The fake's own schemas do not know all that is applied; how lists are merged does not matter here.
	store := fake.NewClientBuilder().WithScheme(scheme).WithTypeConverters(managedfields.NewDeducedTypeConverter()).
		WithObjects(objects...).
		WithIndex(&corev1.PersistentVolumeClaim{}, metav1.ObjectNameField, func(o client.Object) []string {
			return []string{o.GetName()}
		}).
		WithStatusSubresource(&v1alpha1.GeoRegisterCluster{}).WithInterceptorFuncs(writes(d)).Build()
	to := &access{
		options: Options{Settings: settings, Members: d}, client: store, live: store, applier: apply.New(store, store),
		now: func() time.Time { return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC) },
	}
	return &Reconciler{
		access: to,
		observer: observer{
			access: to, optional: &optional{}, warnings: cache.NewExpiring(),
			injections: store, watched: func(context.Context) (bool, error) { return true, nil },
		},
		executor: executor{access: to, events: events{d}},
		metrics:  newMetrics(prometheus.NewRegistry()),
	}
}

// writes notes what is written to the apiserver before it is.
func writes(d *diary) interceptor.Funcs {
	return interceptor.Funcs{
		Apply: func(ctx context.Context, c client.WithWatch, o runtime.ApplyConfiguration,
			options ...client.ApplyOption) error {
			u := o.(interface {
				GetKind() string
				GetName() string
			})
			if err := d.do("apply %s %s", u.GetKind(), u.GetName()); err != nil {
				return err
			}
			if v := o.(interface {
				GetResourceVersion() string
				SetResourceVersion(string)
			}); v.GetResourceVersion() == apply.Absent { // the fake refuses a version where nothing is
				v.SetResourceVersion("")
			}
			return c.Apply(ctx, o, options...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.CreateOption) error {
			if err := d.do("create %s", o.GetName()); err != nil {
				return err
			}
			return c.Create(ctx, o, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.UpdateOption) error {
			if err := d.do("update %s", o.GetName()); err != nil {
				return err
			}
			return c.Update(ctx, o, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if err := d.do("delete %s", o.GetName()); err != nil {
				return err
			}
			return c.Delete(ctx, o, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, o client.Object,
			options ...client.SubResourceUpdateOption) error {
			if err := d.do("%s of %s", name, o.GetName()); err != nil {
				return err
			}
			return c.SubResource(name).Update(ctx, o, options...)
		},
	}
}

// firstMembers are the members that a cluster of which nothing is there is founded with.
func firstMembers(c *v1alpha1.GeoRegisterCluster) []view.Member {
	return facts.Of(world.Snapshot{Cluster: c, Settings: settings}).First
}
