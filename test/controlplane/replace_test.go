//go:build controlplane

package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// update repeats a change until nobody else changes the object at the same time.
func (w *World) update(change func() error) {
	w.t.Helper()
	eventually(w.t, "an update", func() string {
		err := change()
		if err != nil && !apierrors.IsConflict(err) {
			w.t.Fatal(err)
		}
		if err != nil {
			return err.Error()
		}
		return ""
	})
}

// loseVolume deletes a member's volume and its pod, as an administrator may do after a disk broke.
func (w *World) loseVolume(c *v1alpha1.GeoRegisterCluster, m view.Member) {
	w.t.Helper()
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.VolumeName(c.Name, m)},
	}
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PodName(c.Name, m)}}
	for _, object := range []client.Object{claim, pod} {
		if err := client.IgnoreNotFound(w.api.Delete(w.ctx, object)); err != nil {
			w.t.Fatal(err)
		}
	}
}

// breakVolume has a member's volume be lost though its claim is there, as the volume controller finds it.
func (w *World) breakVolume(c *v1alpha1.GeoRegisterCluster, m view.Member) {
	w.t.Helper()
	w.kubelet.Hold(build.PodName(c.Name, m))
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.VolumeName(c.Name, m)},
	}
	w.update(func() error {
		w.get(claim)
		claim.Status.Phase = corev1.ClaimLost
		return w.api.Status().Update(w.ctx, claim)
	})
}

// replaced waits until a plain view of a later epoch is recorded and all of its members vote, and returns it. Every
// change of members makes two views: a joint one and a plain one.
func (w *World) replaced(c *v1alpha1.GeoRegisterCluster, epoch uint64) view.View {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("view %d is recorded", epoch), func() string {
		if v := w.record(c); v.Epoch < epoch || v.Joint() {
			w.get(c)
			return fmt.Sprintf("the record is at epoch %d: %s%s", v.Epoch, change(c), conditions(c))
		}
		return ""
	})
	v := w.record(c)
	eventually(w.t, fmt.Sprintf("all members of view %d vote", v.Epoch), func() string {
		w.get(c)
		if c.Status.View == nil || c.Status.View.Epoch != int64(v.Epoch) || len(c.Status.Members) != v.Size() {
			return fmt.Sprintf("the status tells view %+v and members %+v: %s", c.Status.View,
				c.Status.Members, conditions(c))
		}
		for _, m := range c.Status.Members {
			if m.Role != "Voter" {
				return fmt.Sprintf("member %d is %s: %s: %s", m.ID, m.Role, m.State, conditions(c))
			}
		}
		return ""
	})
	w.serving(c)
	return v
}

// change says what the status tells of a change of members.
func change(c *v1alpha1.GeoRegisterCluster) string {
	if c.Status.Change == nil {
		return "no change is under way"
	}
	return fmt.Sprintf("%+v", *c.Status.Change)
}

func conditions(c *v1alpha1.GeoRegisterCluster) string {
	text := ""
	for _, condition := range c.Status.Conditions {
		text += fmt.Sprintf("\n  %s=%s %s: %s", condition.Type, condition.Status, condition.Reason, condition.Message)
	}
	return text
}

func TestALostVolumeIsReplaced(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before := w.record(c)
	lost := before.Members[1]
	w.loseVolume(c, lost)
	after := w.replaced(c, 3)
	if after.Index(lost.ID) >= 0 || after.Index(4) < 0 || after.Size() != 3 {
		t.Errorf("after member %d was lost the view is %+v", lost.ID, after)
	}
	if after.Epoch != 3 {
		t.Errorf("one replacement led to epoch %d", after.Epoch)
	}
	w.gone(c, lost)
	load.Progress(50)
	load.Finish()
}

// gone waits until nothing runs of a member.
func (w *World) gone(c *v1alpha1.GeoRegisterCluster, m view.Member) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("what is left of member %d is removed", m.ID), func() string {
		pod := &corev1.Pod{}
		err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: build.PodName(c.Name, m)}, pod)
		if !apierrors.IsNotFound(err) {
			return fmt.Sprintf("its pod is there, or: %v", err)
		}
		return ""
	})
}

// The node comes back under its name after the member was replaced, as a machine that is made anew does.
func TestALostNodeIsReplaced(t *testing.T) {
	t.Parallel()
	const site = "attic" // no other test has members there
	w := newWorld(t)
	addNodes(t, w.api, site)
	StartOperator(t, environment.Config, settings(w.namespace))
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Sites[2].Name = site })
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)

	lost := w.record(c).Members[2]
	if err := w.api.Delete(w.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: NodeOf(site)}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member is replaced", func() string {
		if v := w.record(c); v.Epoch < 2 {
			w.get(c)
			return conditions(c)
		}
		return ""
	})
	load.Progress(50)
	addNodes(t, w.api, site)
	after := w.replaced(c, 3)
	if after.Epoch != 3 || after.Index(lost.ID) >= 0 || after.Index(4) < 0 ||
		after.Members[after.Index(4)].Site != site {
		t.Errorf("after the node of member %d was lost the view is %+v", lost.ID, after)
	}
	w.gone(c, lost)
	load.Progress(50)
	load.Finish()
}

func TestAMemberInMemoryJoinsAgainUnderItsID(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Durability = v1alpha1.Memory })
	before := w.record(c)
	w.get(c)
	was, m := c.Status.Members[1], before.Members[1]
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PodName(c.Name, m)}}
	if err := w.api.Delete(w.ctx, pod); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the member votes again, as a newcomer under its id", func() string {
		w.get(c)
		for _, is := range c.Status.Members {
			if is.ID == was.ID && is.Incarnation > was.Incarnation && is.Role == "Voter" {
				return ""
			}
		}
		return fmt.Sprintf("incarnation %d became %+v: %s", was.Incarnation, c.Status.Members, conditions(c))
	})
	w.holds(c, before)
	load.Progress(50)
	load.Finish()
}
