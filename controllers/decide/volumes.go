package decide

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// volumeGrowth says what the volume of a member waits for while it grows, to be read after the member's name, or is
// empty. Growth is asked for by applying the volume with its new size.
func volumeGrowth(seen *world.Member) string {
	if seen == nil || seen.Volume == nil {
		return ""
	}
	asked := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]
	for _, c := range seen.Volume.Status.Conditions {
		if c.Status != corev1.ConditionTrue {
			continue
		}
		switch c.Type {
		case corev1.PersistentVolumeClaimResizing:
			return fmt.Sprintf("grows its volume %s to %s", seen.Volume.Name, asked.String())
		case corev1.PersistentVolumeClaimFileSystemResizePending:
			return fmt.Sprintf("grows its volume %s to %s: the node is to grow the file system", seen.Volume.Name, asked.String())
		}
	}
	return ""
}

// volumeObstacle says why the volume of a member can't grow, or is empty.
func volumeObstacle(seen *world.Member) string {
	if seen == nil || seen.Volume == nil {
		return ""
	}
	if seen.Refused != "" {
		return fmt.Sprintf("can't be given its volume %s as asked: %s; if its provisioner can grow volumes, set "+
			"allowVolumeExpansion in its storage class", seen.Volume.Name, seen.Refused)
	}
	for _, c := range seen.Volume.Status.Conditions {
		failed := c.Type == corev1.PersistentVolumeClaimControllerResizeError || c.Type == corev1.PersistentVolumeClaimNodeResizeError
		if failed && c.Status == corev1.ConditionTrue {
			return fmt.Sprintf("can't grow its volume %s: %s", seen.Volume.Name, c.Message)
		}
	}
	return ""
}

// owned names the volumes that would go with the resource though they are to outlive it. Before the founding they do:
// nothing is on them.
func (s *situation) owned() (all []string) {
	for _, m := range s.first {
		if seen := s.Member(m.ID); seen != nil && seen.Volume != nil && build.Retained(s.Cluster) && metav1.IsControlledBy(seen.Volume, s.Cluster) {
			all = append(all, seen.Volume.Name)
		}
	}
	return all
}

// remake removes, before the cluster is founded, a volume of another class than spec.storage asks for, or a larger one,
// if surely nothing is on it. It is made again as it is asked for.
func (s *situation) remake() *outcome {
	for _, m := range s.first {
		seen := s.Member(m.ID)
		if seen == nil || seen.Volume == nil || !s.unused(seen) ||
			// Who is silent may hold a view that names its disk.
			seen.Volume.Status.Phase != corev1.ClaimPending && !s.allWait() {
			continue
		}
		var objects []client.Object
		if set := seen.StatefulSet; set != nil && set.DeletionTimestamp == nil {
			objects = append(objects, set) // its pod holds the volume
		}
		why := volumeMisfit(seen.Volume, s.Cluster.Spec.Storage)
		if seen.Volume.DeletionTimestamp != nil {
			why = "is being deleted"
		} else {
			objects = append(objects, seen.Volume)
		}
		if why == "" || len(objects) == 0 {
			continue
		}
		return act(Discard{Member: m.ID, Volume: seen.Volume.Name, Why: why, Objects: objects},
			Normal("VolumeRemade", "Discard", fmt.Sprintf("Removed the unused volume %s of %s, which %s", seen.Volume.Name, name(m), why)))
	}
	return nil
}

// volumeMisfit says how a volume differs from what is asked for in what no volume can change, or is empty.
func volumeMisfit(volume *corev1.PersistentVolumeClaim, asked v1alpha1.Storage) string {
	if class := volume.Spec.StorageClassName; asked.Class != "" && class != nil && *class != asked.Class {
		return fmt.Sprintf("is of class %s, not %s", *class, asked.Class)
	}
	if has, want := volume.Spec.Resources.Requests[corev1.ResourceStorage], asked.StorageSize(); has.Cmp(want) > 0 {
		return fmt.Sprintf("asks for %s, not %s", has.String(), want.String())
	}
	return ""
}
