package decide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// unfounded is a cluster whose first members wait, on volumes of a class, each of 10Gi, that go with the resource.
func unfounded(class string) *world.Snapshot {
	s := healthy(3)
	empty(s)
	s.Cluster.Spec.Storage.Class = class
	for i := range s.Members {
		volume, controls := s.Members[i].Volume, true
		volume.Spec.StorageClassName, volume.Status.Phase = &class, corev1.ClaimBound
		volume.Spec.Resources.Requests = corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("10Gi")}
		volume.OwnerReferences = []metav1.OwnerReference{{UID: s.Cluster.UID, Controller: &controls}}
	}
	return s
}

// pending has a member's volume be one that was never there.
func pending(s *world.Snapshot, id view.MemberID) {
	silent(s, id)
	s.Member(id).Volume.Status.Phase = corev1.ClaimPending
}

// ownersOf are how many of the volumes that a plan applies go with the resource.
func ownersOf(p Plan) (owned, all int) {
	for _, o := range p.Apply {
		if claim, ok := o.(*corev1.PersistentVolumeClaim); ok {
			all++
			owned += len(claim.OwnerReferences)
		}
	}
	return owned, all
}

// Before a cluster is founded its volumes go with the resource, and it is founded only once they do not.
func TestVolumesOutliveTheResourceFromTheFoundingOn(t *testing.T) {
	waiting := unfounded("fast")
	waiting.Members[2].Report = nil
	p := Next(*waiting)
	if owned, all := ownersOf(p); p.Step != nil || owned != 3 || all != 3 {
		t.Errorf("while a member is missing: step %T, and %d of %d volumes go with the resource", p.Step, owned, all)
	}
	ready := unfounded("fast")
	p = Next(*ready)
	if owned, all := ownersOf(p); p.Step != nil || owned != 0 || all != 3 {
		t.Errorf("once all are there: step %T, and %d of %d volumes go with the resource", p.Step, owned, all)
	}
	for i := range ready.Members {
		ready.Members[i].Volume.OwnerReferences = nil
	}
	p = Next(*ready)
	if _, founds := written(p.Step, "Founding"); !founds {
		t.Errorf("once they outlive it: step %T", p.Step)
	}
	ready.Members[2].Report = nil // it went away, and what it has is not known
	if owned, all := ownersOf(Next(*ready)); owned != 0 || all != 3 {
		t.Errorf("%d of %d volumes are given an owner that they did not have", owned, all)
	}
	founded := healthy(3)
	if owned, all := ownersOf(Next(*founded)); owned != 0 || all != 3 {
		t.Errorf("of a founded cluster %d of %d volumes go with the resource", owned, all)
	}
	kept := unfounded("fast")
	kept.Cluster.Spec.Storage.Retention = v1alpha1.Delete
	p = Next(*kept)
	if owned, _ := ownersOf(p); owned != 3 {
		t.Errorf("with retention Delete %d volumes go with the resource", owned)
	}
	if _, founds := written(p.Step, "Founding"); !founds {
		t.Errorf("with retention Delete: step %T", p.Step)
	}
}

// Before a cluster is founded, a volume that is not as asked for is made again if surely nothing is on it, and no
// other.
func TestUnusedVolumesAreMadeAgain(t *testing.T) {
	small := resource.MustParse("1Gi")
	for name, tt := range map[string]struct {
		change func(*world.Snapshot)
		why    string // that it is removed, or empty: it stays
	}{
		"as asked for": {func(*world.Snapshot) {}, ""},
		"a class that is not there": {func(s *world.Snapshot) {
			pending(s, 1)
			s.Cluster.Spec.Storage.Class = "slow"
		}, "is of class fast, not slow"},
		"another class": {func(s *world.Snapshot) {
			s.Cluster.Spec.Storage.Class = "slow"
		}, "is of class fast, not slow"},
		"too large": {func(s *world.Snapshot) {
			s.Cluster.Spec.Storage.Size = &small
		}, "asks for 10Gi, not 1Gi"},
		"one that is being deleted": {func(s *world.Snapshot) {
			s.Members[0].Volume.DeletionTimestamp = &metav1.Time{Time: epoch}
		}, "is being deleted"},
		"a member that is silent": {func(s *world.Snapshot) {
			s.Cluster.Spec.Storage.Class, s.Members[0].Report = "slow", nil
		}, ""},
		"another member that is silent": {func(s *world.Snapshot) {
			s.Cluster.Spec.Storage.Class, s.Members[1].Report = "slow", nil
		}, ""},
		"a founded cluster": {func(s *world.Snapshot) {
			*s = *healthy(3)
			s.Cluster.Spec.Storage.Class = "slow"
			fast := "fast"
			s.Members[0].Volume.Spec.StorageClassName = &fast
		}, ""},
	} {
		s := unfounded("fast")
		tt.change(s)
		p := Next(*s)
		discard, removes := p.Step.(rules.Discard)
		if removes != (tt.why != "") ||
			removes && (discard.Member != 1 || discard.Why != tt.why || len(discard.Objects) == 0) {
			t.Errorf("%s: step %T %+v", name, p.Step, p.Step)
		}
		for _, o := range p.Apply {
			claim, ok := o.(*corev1.PersistentVolumeClaim)
			seen := s.Members[0].Volume
			if ok &&
				claim.Name == build.VolumeName("demo", view.Member{ID: s.Members[0].ID, Site: s.Members[0].Site}) &&
				claim.Spec.StorageClassName != nil && *claim.Spec.StorageClassName != *seen.Spec.StorageClassName {
				t.Errorf("%s: a volume of class %s is asked to be of class %s", name, *seen.Spec.StorageClassName,
					*claim.Spec.StorageClassName)
			}
		}
		if tt.why != "" && !strings.Contains(strings.Join(summary(p), "\n"), "RemakingVolume") {
			t.Errorf("%s: the status does not say so: %v", name, summary(p))
		}
	}
}
