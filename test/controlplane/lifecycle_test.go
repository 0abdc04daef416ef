//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
)

// statefulSets are the revisions of a cluster's StatefulSets by UID.
func (w *World) statefulSets() map[types.UID]int64 {
	w.t.Helper()
	var sets appsv1.StatefulSetList
	if err := w.api.List(w.ctx, &sets, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	generations := map[types.UID]int64{}
	for _, set := range sets.Items {
		generations[set.UID] = set.Generation
	}
	return generations
}

// volumes are the claims of a cluster, in no order.
func (w *World) volumes() []corev1.PersistentVolumeClaim {
	w.t.Helper()
	var claims corev1.PersistentVolumeClaimList
	if err := w.api.List(w.ctx, &claims, client.InNamespace(w.namespace)); err != nil {
		w.t.Fatal(err)
	}
	return claims.Items
}

func TestAPausedClusterIsLeftAlone(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	before, sets, pods := w.record(c), w.statefulSets(), w.pods()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Paused = true })
	w.condition(c, v1alpha1.ConditionPaused, metav1.ConditionTrue)

	lost := before.Members[0]
	budget := &policyv1.PodDisruptionBudget{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.MembersName(c.Name)},
	}
	if err := w.api.Delete(w.ctx, budget); err != nil {
		t.Fatal(err)
	}
	w.breakVolume(c, lost)
	eventually(t, "the condition tells of the lost member", func() string {
		degraded := w.condition(c, v1alpha1.ConditionDegraded, metav1.ConditionTrue)
		if degraded.Reason != "MemberLost" {
			return degraded.Reason + ": " + degraded.Message
		}
		return ""
	})
	for i := range 3 { // looks of the operator, each at something new
		w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = fmt.Sprintf("georegister:%d", i) })
		w.condition(c, v1alpha1.ConditionPaused, metav1.ConditionTrue)
	}
	load.Progress(50)
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(budget), budget); !apierrors.IsNotFound(err) {
		t.Errorf("a paused cluster's disruption budget was made again, or: %v", err)
	}
	if now := w.record(c); now.Epoch != before.Epoch {
		t.Errorf("a paused cluster's view became %+v", now)
	}
	if now := w.statefulSets(); fmt.Sprint(now) != fmt.Sprint(sets) {
		t.Errorf("a paused cluster's StatefulSets %v became %v", sets, now)
	}
	if now := w.pods(); fmt.Sprint(now) != fmt.Sprint(pods) {
		t.Errorf("a paused cluster's pods %v became %v", pods, now)
	}

	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Paused = false })
	w.replaced(c, 3)
	w.updated(c, "georegister:2")
	w.serving(c)
	w.get(budget)
	load.Progress(50)
	load.Finish()
}

// grown waits until all volumes have a size.
func (w *World) grown(size resource.Quantity) {
	w.t.Helper()
	eventually(w.t, "all volumes have "+size.String(), func() string {
		for _, claim := range w.volumes() {
			if has := claim.Status.Capacity[corev1.ResourceStorage]; has.Cmp(size) != 0 {
				return fmt.Sprintf("%s has %s", claim.Name, has.String())
			}
		}
		return ""
	})
}

func TestVolumesGrow(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	sets, pods := w.statefulSets(), w.pods()
	size := resource.MustParse("20Gi")
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Size = &size })
	w.grown(size)
	w.serving(c)
	if now := w.statefulSets(); fmt.Sprint(now) != fmt.Sprint(sets) {
		t.Errorf("growth touched the StatefulSets: %v became %v", sets, now)
	}
	if now := w.pods(); fmt.Sprint(now) != fmt.Sprint(pods) {
		t.Errorf("growth touched the pods: %v became %v", pods, now)
	}
	load.Finish()
}

func TestAClassThatForbidsGrowthIsNamed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	no := false
	class := &storagev1.StorageClass{
		ObjectMeta:  metav1.ObjectMeta{Name: "fixed-" + w.namespace},
		Provisioner: "kubernetes.io/no-provisioner", AllowVolumeExpansion: &no,
	}
	if err := w.api.Create(w.ctx, class); err != nil {
		t.Fatal(err)
	}
	StartOperator(t, environment.Config, settings(w.namespace))
	size := resource.MustParse("10Gi")
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Storage.Class, s.Storage.Size = class.Name, &size
	})
	w.serving(c)

	larger := resource.MustParse("20Gi")
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Size = &larger })
	eventually(t, "the condition names the volume and what to do", func() string {
		degraded := w.condition(c, v1alpha1.ConditionDegraded, metav1.ConditionTrue)
		volume := build.VolumeName(c.Name, w.record(c).Members[0])
		for _, part := range []string{volume, "must support resize", "set allowVolumeExpansion"} {
			if degraded.Reason != "VolumeCannotGrow" || !strings.Contains(degraded.Message, part) {
				return degraded.Reason + ": " + degraded.Message
			}
		}
		return ""
	})
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	yes := true
	class.AllowVolumeExpansion = &yes
	if err := w.api.Update(w.ctx, class); err != nil {
		t.Fatal(err)
	}
	w.grown(larger)
	w.serving(c)
}

// remove deletes the resource and waits until its pods have ended.
func (w *World) remove(c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	if err := w.api.Delete(w.ctx, c); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "the members end", func() string {
		if pods := w.pods(); len(pods) > 0 {
			return fmt.Sprintf("there are the pods %v", pods)
		}
		return ""
	})
}

func TestDeletedDataGoesWithTheResource(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete })
	load.Finish()
	record := w.recordObject(c)
	w.remove(c)
	eventually(t, "the volumes and the record go", func() string {
		err := w.api.Get(w.ctx, client.ObjectKeyFromObject(record), record)
		if claims := w.volumes(); len(claims) > 0 || !apierrors.IsNotFound(err) {
			return fmt.Sprintf("there are %d volumes, and of the record: %v", len(claims), err)
		}
		return ""
	})
	again := w.create(c.Name, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete })
	w.serving(again)
	if again.Status.View.ClusterID == c.Status.View.ClusterID {
		t.Errorf("a cluster whose data was deleted is founded again as %s", again.Status.View.ClusterID)
	}
}

// What is retained has no owner, whether it was asked for at first or later.
func TestRetainedDataHasNoOwner(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Delete })
	load.Finish()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Retention = v1alpha1.Retain })
	eventually(t, "nothing that is retained has an owner", func() string {
		for _, claim := range w.volumes() {
			if len(claim.OwnerReferences) > 0 {
				return fmt.Sprintf("%s has the owners %v", claim.Name, claim.OwnerReferences)
			}
		}
		if record := w.recordObject(c); len(record.OwnerReferences) > 0 {
			return fmt.Sprintf("the record has the owners %v", record.OwnerReferences)
		}
		return ""
	})
	before := w.record(c)
	w.remove(c)
	if n := len(w.volumes()); n != 3 {
		t.Errorf("%d of 3 volumes were retained", n)
	}
	if now := w.record(c); now.Digest() != before.Digest() {
		t.Errorf("the retained record is %+v, want %+v", now, before)
	}
}
