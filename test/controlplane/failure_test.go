//go:build controlplane

package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	schedulingv1 "k8s.io/api/scheduling/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/replica/view"
)

// absent is an apiserver that can be away.
type absent struct {
	away atomic.Bool
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (a *absent) RoundTrip(r *http.Request) (*http.Response, error) {
	if a.away.Load() {
		return nil, errors.New("the apiserver is away")
	}
	return a.next.RoundTrip(r)
}

// An operator that loses its lease since the apiserver is away goes on when that is back; startOperator fails the test
// if it ends.
func TestALostLeaseIsNotTheEnd(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var server *absent
	config := rest.CopyConfig(w.config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		if server == nil { // the lease and the rest have a client each, of one apiserver
			server = &absent{next: next}
		}
		return server
	})
	o := StartElectedOperator(t, config, settings(w.namespace))
	<-o.elected
	c := w.create("store", nil)
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionFalse)
	server.away.Store(true)
	select {
	case <-o.lost:
	case <-time.After(within):
		t.Fatal("it keeps a lease that it can't renew")
	}
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.DeletionProtection = true })
	server.away.Store(false)
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// deaf are members of whom those of some clusters never answer.
type deaf struct {
	members.Members
	asked chan string
	until chan struct{}
}

// Ask implements members.Members.
func (d deaf) Ask(ctx context.Context, cluster string, targets []members.Target) []members.Answer {
	if strings.Contains(cluster, "/mute-") {
		select {
		case d.asked <- cluster:
		default:
		}
		<-d.until
	}
	return d.Members.Ask(ctx, cluster, targets)
}

// Clusters whose members never answer keep nobody else's from being looked at, however many they are.
func TestTheMuteKeepNobodyElseFromWork(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	talk := members.NewClient()
	d := deaf{talk, make(chan string, 64), make(chan struct{})}
	startOperator(t, w.config, controllers.Options{Settings: settings(w.namespace), Members: d}, nil)
	t.Cleanup(func() { close(d.until) }) // before the operator is stopped
	waiting := map[string]bool{}
	for _, name := range []string{"mute-a", "mute-b", "mute-c"} { // one more than are worked on at the same time
		w.create(name, nil)
	}
	c := w.create("store", nil)
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionFalse)
	eventually(t, "all of the others are waited for", func() string {
		for {
			select {
			case name := <-d.asked:
				waiting[name] = true
				continue
			default:
			}
			break
		}
		if len(waiting) < 3 {
			return "too few are"
		}
		return ""
	})
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.DeletionProtection = true })
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// What no operator has looked at is not ready, whoever asks: the status says so from the first moment.
func TestWhatNobodyHasLookedAtIsNotReady(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.create("store", nil)
	w.get(c)
	ready := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionReady)
	if ready == nil || ready.Status != metav1.ConditionUnknown || c.Status.State != v1alpha1.StateUnknown ||
		c.Status.ObservedGeneration >= c.Generation {
		t.Errorf("the status of a resource that was just made is %+v", c.Status)
	}
}

// A pod that admission does not let exist is named with the cause, and that ends when the cause does.
func TestPodsThatMayNotExistAreNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, w.config, settings(w.namespace))
	class := "class-of-" + w.namespace
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) { s.PodTemplate.PriorityClassName = class })
	said := w.condition(c, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	for _, want := range []string{"member 1 (site ca)", "no PriorityClass with name " + class} {
		if !strings.Contains(strings.ToLower(said.Message), strings.ToLower(want)) {
			t.Errorf("Stalled says %q, want %q", said.Message, want)
		}
	}
	if said := w.condition(c, v1alpha1.ConditionDegraded, metav1.ConditionTrue); said.Reason != "PodRefused" {
		t.Errorf("Degraded is %s: %s", said.Reason, said.Message)
	}
	if w.get(c); c.Status.State != v1alpha1.StateStalled {
		t.Errorf("the state is %s", c.Status.State)
	}
	created, err := kubernetes.NewForConfig(w.config)
	if err != nil {
		t.Fatal(err)
	}
	priority := &schedulingv1.PriorityClass{ObjectMeta: metav1.ObjectMeta{Name: class}, Value: 1}
	if _, err := created.SchedulingV1().PriorityClasses().
		Create(t.Context(), priority, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// What the apiserver does not take is told in the conditions and in one event, however often it is tried again.
func TestWhatIsRefusedIsAnEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	limit := &corev1.LimitRange{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "small"},
		Spec: corev1.LimitRangeSpec{
			Limits: []corev1.LimitRangeItem{{Type: corev1.LimitTypePersistentVolumeClaim,
				Max: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")}}},
		}}
	if err := w.api.Create(w.ctx, limit); err != nil {
		t.Fatal(err)
	}
	gate := &tally{}
	StartValvedOperator(t, w.config, settings(w.namespace), gate)
	c := w.create("store", nil)
	said := w.condition(c, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	if !strings.Contains(said.Message, "maximum storage usage per PersistentVolumeClaim is 1Gi") {
		t.Errorf("Stalled says %q", said.Message)
	}
	eventually(t, "it is tried again and again", func() string {
		if gate.volumes.Load() < 9 {
			return "too few tries"
		}
		return ""
	})
	var told []string
	eventually(t, "an event says so", func() string {
		var events eventsv1.EventList
		if err := w.api.List(w.ctx, &events, client.InNamespace(w.namespace)); err != nil {
			t.Fatal(err)
		}
		told = nil
		for _, e := range events.Items {
			if e.Regarding.Name == c.Name && e.Reason == status.OperatorFailed && strings.Contains(e.Note, "is 1Gi") {
				told = append(told, fmt.Sprintf("%s: %s, %+v", e.Action, e.Note, e.Series))
			}
		}
		if len(told) == 0 {
			return "none does"
		}
		return ""
	})
	if len(told) > 1 {
		t.Errorf("%d events say so:\n%s", len(told), strings.Join(told, "\n"))
	}
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete })
	if err := w.api.Delete(w.ctx, limit); err != nil {
		t.Fatal(err)
	}
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// tally counts the writes of volumes.
type tally struct {
	open
	volumes atomic.Int64
}

func (c *tally) write(path, what string, send func() error) error {
	if strings.Contains(path, "/persistentvolumeclaims/") {
		c.volumes.Add(1)
	}
	return send()
}

// A typo in the class of the volumes is corrected while nobody has used them, and what was never founded leaves nothing
// behind.
func TestAnUnfoundedClusterIsCorrectedOrLeavesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, w.config, settings(w.namespace))
	held := func(name string) { // no volume of a cluster is provided
		for i, site := range sites {
			w.kubelet.Hold(build.PodName(name, view.Member{ID: view.MemberID(i + 1), Site: site}))
		}
	}
	held("gone")
	classes := func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Class = "fsat" }
	corrected, gone := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) {
		classes(s)
		s.Sites[0].NodePool = &v1alpha1.NodePool{Value: "nowhere"}
	}), w.create("gone", classes)
	claims := func(of *v1alpha1.GeoRegisterCluster) (all []corev1.PersistentVolumeClaim) {
		var list corev1.PersistentVolumeClaimList
		if err := w.api.List(w.ctx, &list, client.InNamespace(w.namespace),
			client.MatchingLabels{build.ClusterLabel: of.Name}); err != nil {
			t.Fatal(err)
		}
		return list.Items
	}
	for _, c := range []*v1alpha1.GeoRegisterCluster{corrected, gone} {
		eventually(t, "volumes are asked for", func() string {
			return map[bool]string{false: "not yet"}[len(claims(c)) == 3]
		})
	}
	w.change(corrected, func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Storage.Class, s.Sites[0].NodePool = "local", nil
	})
	w.condition(corrected, v1alpha1.ConditionReady, metav1.ConditionTrue)
	for _, claim := range claims(corrected) {
		if *claim.Spec.StorageClassName != "local" || len(claim.OwnerReferences) != 0 {
			t.Errorf("volume %s is of class %s, with the owners %v", claim.Name, *claim.Spec.StorageClassName,
				claim.OwnerReferences)
		}
	}
	if err := w.api.Delete(w.ctx, gone); err != nil {
		t.Fatal(err)
	}
	eventually(t, "nothing is left of what was never founded", func() string {
		return map[bool]string{false: "volumes are"}[len(claims(gone)) == 0]
	})
	if err := w.api.Delete(w.ctx, corrected); err != nil {
		t.Fatal(err)
	}
	eventually(t, "its pods go", func() string { return map[bool]string{false: "they are there"}[len(w.pods()) == 0] })
	if left := claims(corrected); len(left) != 3 {
		t.Errorf("%d volumes of the founded one are left, want 3", len(left))
	}
}
