//go:build controlplane

package controlplane

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// A resource that is made again while its former members still end is a new cluster, not one that waits for disks
// that went with the former one.
func TestAResourceMadeAgainAtOnceIsFounded(t *testing.T) {
	for name, change := range map[string]func(*v1alpha1.GeoRegisterClusterSpec){
		"in memory":      func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Durability = v1alpha1.Memory },
		"with no retain": func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w, c, _, load := foundedAs(t, change)
			load.Finish()
			if err := w.api.Delete(w.ctx, c); err != nil {
				t.Fatal(err)
			}
			again := w.create(c.Name, change)
			w.servingAnew(again, c)
		})
	}
}

// Data that is to go with the resource goes although it was to be retained at first, and is not missed later.
func TestRetentionMayBeTakenBack(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	load.Finish()
	deleted := func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete }
	w.change(c, deleted)
	eventually(t, "what is to go has an owner", func() string {
		record := w.recordObject(c)
		if !metav1.IsControlledBy(record, c) {
			return fmt.Sprintf("%s has the owners %v", record.Name, record.OwnerReferences)
		}
		for _, claim := range w.volumes() {
			if !metav1.IsControlledBy(&claim, c) {
				return fmt.Sprintf("%s has the owners %v", claim.Name, claim.OwnerReferences)
			}
		}
		return ""
	})
	w.remove(c)
	w.servingAnew(w.create(c.Name, deleted), c)
}

// A copy of a member's volume or pod, with its labels, changes nothing.
func TestCopiesAreNobodys(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before := w.record(c)
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.VolumeName(c.Name, before.Members[0])},
	}
	w.get(claim)
	copied := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "copy", Labels: claim.Labels}, Spec: claim.Spec,
	}
	copied.Spec.VolumeName = ""
	beyond := copied.DeepCopy()
	beyond.Name, beyond.Labels[build.MemberLabel] = "of-no-member", "9"
	for _, object := range []*corev1.PersistentVolumeClaim{copied, beyond} {
		if err := w.api.Create(w.ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	w.loseVolume(c, before.Members[0]) // the copy does not stand in for it
	w.replaced(c, 3)
	load.Progress(50)
	load.Finish()
}

// servingAnew waits until a cluster serves under another identity than a former one.
func (w *World) servingAnew(again, former *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	w.get(again)
	w.serving(again)
	if again.Status.View.ClusterID == former.Status.View.ClusterID || again.Status.View.Epoch != 1 {
		w.t.Errorf("the new cluster has the view %+v, the former one had %+v", again.Status.View, former.Status.View)
	}
}

// A volume that lost its labels is no lost volume: it gets them back, and its member is not replaced.
func TestAVolumeWithoutLabelsIsNotLost(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	m := w.record(c).Members[0]
	claim := &corev1.PersistentVolumeClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.VolumeName(c.Name, m)},
	}
	w.kubelet.Hold(build.PodName(c.Name, m)) // so that it is down for as long as a lost one would be
	w.update(func() error {
		w.get(claim)
		claim.Labels = nil
		return w.api.Update(w.ctx, claim)
	})
	eventually(t, "the volume has its labels again", func() string {
		w.get(claim)
		if claim.Labels[build.MemberLabel] != "1" || claim.Labels[build.ManagedByLabel] != build.Application {
			return fmt.Sprintf("it has %v", claim.Labels)
		}
		return ""
	})
	w.kubelet.Release(build.PodName(c.Name, m))
	w.serving(c)
	if epoch := w.record(c).Epoch; epoch != 1 {
		t.Errorf("the member was replaced in view %d", epoch)
	}
	load.Finish()
}
