//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// pods are the UIDs of a cluster's pods by name.
func (w *World) pods() map[string]types.UID {
	w.t.Helper()
	var pods corev1.PodList
	if err := w.api.List(w.ctx, &pods, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	uids := map[string]types.UID{}
	for _, pod := range pods.Items {
		uids[pod.Name] = pod.UID
	}
	return uids
}

// change edits the spec.
func (w *World) change(c *v1alpha1.GeoRegisterCluster, edit func(*v1alpha1.GeoRegisterClusterSpec)) {
	w.t.Helper()
	w.update(func() error {
		w.get(c)
		edit(&c.Spec)
		return w.api.Update(w.ctx, c)
	})
}

// updated waits until every pod runs an image.
func (w *World) updated(c *v1alpha1.GeoRegisterCluster, image string) {
	w.t.Helper()
	eventually(w.t, "all members run "+image, func() string {
		var pods corev1.PodList
		if err := w.api.List(w.ctx, &pods, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if got := pod.Spec.Containers[0].Image; got != image {
				w.get(c)
				return fmt.Sprintf("%s runs %s: %s", pod.Name, got, conditions(c))
			}
		}
		return ""
	})
}

func TestMembersAreUpdatedOneAtATime(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before := w.record(c)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	w.updated(c, "georegister:next")
	w.holds(c, before)
	load.Progress(50)
	load.Finish()
	if least := w.kubelet.LeastRunning(); least < 2 {
		t.Errorf("%d members ran at a moment of the update", least)
	}
}

// Each of two operators may decide on a member of its own at the same time: the disruption budget lets one go.
func TestTwoOperatorsUpdateOneMemberAtATime(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	StartOperator(t, environment.Config, settings(w.namespace))
	before := w.record(c)
	for _, image := range []string{"georegister:next", "georegister:last"} {
		w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = image })
		w.updated(c, image)
		w.holds(c, before)
	}
	load.Progress(50)
	load.Finish()
	if least := w.kubelet.LeastRunning(); least < 2 {
		t.Errorf("%d members ran at a moment of the updates", least)
	}
}

// Somebody else's eviction was let through, and its pod has not ended yet.
func TestAnUpdateWaitsForTheDisruptionBudget(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	evicted := build.PodName(c.Name, w.record(c).Members[2])
	disrupted := func(pods map[string]metav1.Time, allowed int32) {
		budget := &policyv1.PodDisruptionBudget{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.MembersName(c.Name)},
		}
		w.update(func() error {
			w.get(budget)
			budget.Status.DisruptedPods = pods
			return w.api.Status().Update(w.ctx, budget)
		})
		eventually(t, fmt.Sprintf("%d pods may be evicted", allowed), func() string {
			if w.get(budget); budget.Status.DisruptionsAllowed != allowed {
				return fmt.Sprintf("%+v", budget.Status)
			}
			return ""
		})
	}
	// Times have seconds, and this one must be later than the pod was made.
	disrupted(map[string]metav1.Time{evicted: metav1.NewTime(time.Now().Add(time.Minute))}, 0)
	before := w.pods()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	eventually(t, "the condition tells of the refusal", func() string {
		progressing := w.condition(c, v1alpha1.ConditionProgressing, metav1.ConditionTrue)
		if progressing.Reason != "EvictionRefused" || !strings.Contains(progressing.Message, "healthy pods") {
			return progressing.Reason + ": " + progressing.Message
		}
		return ""
	})
	load.Progress(200)
	if now := w.pods(); fmt.Sprint(now) != fmt.Sprint(before) {
		t.Errorf("pods %v became %v though the budget allowed no eviction", before, now)
	}
	disrupted(nil, 1)
	w.updated(c, "georegister:next")
	w.serving(c)
	load.Finish()
}

func TestTheNextLeaderFinishesAnUpdate(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	first := StartElectedOperator(t, w.config, settings(w.namespace))
	c := w.create("store", nil)
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)
	second := StartElectedOperator(t, w.config, settings(w.namespace))
	select {
	case <-second.elected:
		t.Fatal("two operators lead")
	default:
	}

	before, pods := w.record(c), w.pods()
	last := build.PodName(c.Name, before.Members[2])
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	eventually(t, "the update is under way", func() string {
		if now := w.pods(); fmt.Sprint(now) == fmt.Sprint(pods) {
			return "no pod was restarted yet"
		}
		return ""
	})
	first.Stop()
	if w.pods()[last] != pods[last] {
		t.Fatal("the first leader finished the update")
	}
	w.updated(c, "georegister:next")
	w.holds(c, before)
	<-second.elected
	load.Progress(50)
	load.Finish()
	if least := w.kubelet.LeastRunning(); least < 2 {
		t.Errorf("%d members ran at a moment of the update", least)
	}
}

func TestAnUpdateWaitsForAMemberThatIsDown(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	down := build.PodName(c.Name, w.record(c).Members[2])
	w.kubelet.Hold(down)
	w.condition(c, v1alpha1.ConditionDegraded, metav1.ConditionTrue)
	before := w.pods()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	name := fmt.Sprintf("member %d (site ir)", w.record(c).Members[2].ID)
	eventually(t, "the condition names the member that the update waits for", func() string {
		progressing := w.condition(c, v1alpha1.ConditionProgressing, metav1.ConditionTrue)
		_, waitsFor, _ := strings.Cut(progressing.Message, "and waits: ")
		if !strings.HasPrefix(waitsFor, name) {
			return progressing.Reason + ": " + progressing.Message
		}
		return ""
	})
	load.Progress(200)
	for name, uid := range w.pods() {
		if name != down && before[name] != uid {
			t.Errorf("%s was restarted while another member was down", name)
		}
	}
	w.kubelet.Release(down)
	w.updated(c, "georegister:next")
	w.serving(c)
	load.Finish()
}

func TestAnOperatorUpgradeRestartsNothing(t *testing.T) {
	t.Parallel()
	w, c, operator, load := founded(t)
	before := w.pods()
	operator.Stop()
	next := settings(w.namespace)
	next.DefaultImage, next.Version = "georegister:next", "next"
	StartOperator(t, environment.Config, next)
	w.noticed(c)
	w.serving(c)
	if after := w.pods(); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("pods %v became %v", before, after)
	}
	load.Finish()
}

func TestDriftIsCorrected(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, environment.Config, settings(w.namespace))
	c := w.create("store", nil)
	w.serving(c)

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PeersName(c.Name)}}
	w.update(func() error {
		w.get(service)
		service.Spec.PublishNotReadyAddresses = false
		return w.api.Update(w.ctx, service)
	})
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.MembersName(c.Name)},
	}
	w.get(budget)
	uid := budget.UID
	if err := w.api.Delete(w.ctx, budget); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the Service is as it was", func() string {
		w.get(service)
		if !service.Spec.PublishNotReadyAddresses {
			return "it does not publish addresses that are not ready"
		}
		return ""
	})
	eventually(t, "the disruption budget is back", func() string {
		err := w.api.Get(w.ctx, client.ObjectKeyFromObject(budget), budget)
		if apierrors.IsNotFound(err) || budget.UID == uid {
			return "it is not there"
		}
		return ""
	})
	owned := false
	for _, m := range service.ManagedFields {
		owned = owned || m.Manager == "georegister" && m.Operation == metav1.ManagedFieldsOperationApply
	}
	if !owned {
		t.Errorf("nobody called georegister applied the Service: %+v", service.ManagedFields)
	}
}
