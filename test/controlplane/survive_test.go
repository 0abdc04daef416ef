//go:build controlplane

package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/apiserver"
)

// founded is a cluster that serves clients, with an operator.
func founded(t *testing.T) (*World, *v1alpha1.GeoRegisterCluster, *Operator, *Load) {
	t.Helper()
	return foundedAs(t, nil)
}

// foundedAs is one that asks for something else than others.
func foundedAs(
	t *testing.T, change func(*v1alpha1.GeoRegisterClusterSpec),
) (*World, *v1alpha1.GeoRegisterCluster, *Operator, *Load) {
	t.Helper()
	return foundedIn(newWorld(t), change)
}

func foundedIn(
	w *World, change func(*v1alpha1.GeoRegisterClusterSpec),
) (*World, *v1alpha1.GeoRegisterCluster, *Operator, *Load) {
	w.t.Helper()
	operator := StartOperator(w.t, w.config, settings(w.namespace))
	c := w.create("store", change)
	w.serving(c)
	load := StartLoad(w.t, w.kubelet, c)
	load.Progress(50)
	return w, c, operator, load
}

// holds waits until the record and every member hold a view.
func (w *World) holds(c *v1alpha1.GeoRegisterCluster, want view.View) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("view %d is recorded and held", want.Epoch), func() string {
		if got := w.record(c); got.Epoch != want.Epoch || got.Digest() != want.Digest() {
			return fmt.Sprintf("the record holds %+v", got)
		}
		return ""
	})
	w.serving(c)
	if c.Status.View == nil || c.Status.View.Digest != want.Digest() {
		w.t.Errorf("the status tells the view %+v, want %s", c.Status.View, want.Digest())
	}
}

// noticed has an operator that was just started tell of the cluster: the status that its predecessor left may say the
// same. The change reaches no pod.
func (w *World) noticed(c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.DeletionProtection = !s.DeletionProtection })
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
}

func (w *World) recordObject(c *v1alpha1.GeoRegisterCluster) *corev1.ConfigMap {
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.RecordName(c.Name)}}
	w.get(record)
	return record
}

func TestTheViewSurvivesAWipedStatus(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before := w.record(c)
	c.Status = v1alpha1.GeoRegisterClusterStatus{}
	w.update(func() error {
		w.get(c)
		c.Status = v1alpha1.GeoRegisterClusterStatus{}
		return w.api.Status().Update(w.ctx, c)
	})
	w.holds(c, before)
	load.Progress(50)
	load.Finish()
}

func TestTheViewSurvivesADeletedRecord(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before, object := w.record(c), w.recordObject(c)
	if err := w.api.Delete(w.ctx, object); err != nil {
		t.Fatal(err)
	}
	w.holds(c, before)
	if w.recordObject(c).UID == object.UID {
		t.Error("the record was not deleted")
	}
	load.Progress(50)
	load.Finish()
}

func TestTheViewSurvivesARecordOfThePast(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	past := w.recordObject(c)
	w.loseVolume(c, w.record(c).Members[0])
	now := w.replaced(c, 3)
	w.update(func() error {
		object := w.recordObject(c)
		object.Data = past.Data
		return w.api.Update(w.ctx, object)
	})
	w.holds(c, now)
	load.Progress(50)
	load.Finish()
}

// ended deletes a resource and waits until its members have ended. Their volumes stay.
func (w *World) ended(c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	if err := w.api.Delete(w.ctx, c); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the members end", func() string {
		var pods corev1.PodList
		if err := w.api.List(w.ctx, &pods, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		if len(pods.Items) > 0 {
			return fmt.Sprintf("there are %d pods", len(pods.Items))
		}
		return ""
	})
}

func TestARecreatedResourceAdoptsRetainedVolumes(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before := w.record(c)
	w.ended(c)
	again := w.create(c.Name, nil)
	w.holds(again, before)
	load.Progress(50)
	load.Finish()
}

// The resource goes while members catch up, and comes back with yet another site: the former change is abandoned, and
// one to what is asked for now begins.
func TestAResourceRecreatedWithOtherSitesChangesItsMembers(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, slowly)
	check := w.fill(c, 30, 100_000)
	w.change(c, five)
	w.joint(c)
	w.ended(c)
	again := w.create(c.Name, at("ca", "va", "jp"))
	after := w.replaced(again, 5)
	w.consists(after, "1@ca", "2@va", "6@jp")
	check()
	load.Progress(50)
	load.Finish()
}

// restart ends all members at the same time and starts them again.
func (w *World) restart(c *v1alpha1.GeoRegisterCluster, of view.View) {
	w.t.Helper()
	for _, m := range of.Members {
		w.kubelet.Hold(build.PodName(c.Name, m))
	}
	for _, m := range of.Members {
		w.kubelet.Release(build.PodName(c.Name, m))
	}
}

func TestMembersRestartWithoutAnOperator(t *testing.T) {
	t.Parallel()
	w, c, operator, load := founded(t)
	before := w.record(c)
	operator.Stop()
	w.restart(c, before)
	load.Progress(50)
	StartOperator(t, w.config, settings(w.namespace))
	w.noticed(c)
	w.holds(c, before)
	load.Finish()
}

// The apiserver's process is gone meanwhile, and so is the operator's: members have their disks and each other.
func TestMembersRestartWithoutAControlPlane(t *testing.T) {
	t.Parallel()
	control, _, err := apiserver.Start(root, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Stop() }) // an error says that the apiserver had to be killed
	w, c, operator, load := foundedIn(newWorldIn(t, control.Config), nil)
	before := w.record(c)
	operator.Stop()
	server := control.ControlPlane.GetAPIServer()
	_ = server.Stop() // an error says that it had to be killed
	eventually(t, "the apiserver is gone", func() string {
		if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(c), c); err == nil {
			return "it answers"
		}
		return ""
	})
	w.restart(c, before)
	load.Progress(100)
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	load.Progress(50)
	StartOperator(t, w.config, settings(w.namespace))
	w.noticed(c)
	w.holds(c, before)
	load.Progress(50)
	load.Finish()
}

func TestAStoppedOperatorDoesNoHarmWhenItGoesOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	gate := NewGate("/configmaps/" + build.RecordName("store"))
	StartValvedOperator(t, environment.Config, settings(w.namespace), gate)
	t.Cleanup(gate.Open) // before the operator is ended
	c := w.create("store", nil)
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)

	gate.Close()
	w.loseVolume(c, w.record(c).Members[2])
	gate.holds(t)
	StartOperator(t, environment.Config, settings(w.namespace))
	w.replaced(c, 3)
	w.loseVolume(c, w.record(c).Members[0]) // so that there is more than one view between them
	after := w.replaced(c, 5)
	gate.release(t)
	load.Progress(200)
	w.holds(c, after)
	if got := w.record(c); got.Epoch != 5 {
		t.Errorf("the record is at epoch %d: the stopped operator replaced somebody", got.Epoch)
	}
	load.Finish()
}
