package status

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/world"
)

// volumeGrowth says what the volume of a member waits for while it grows, to be read after the member's name, or is
// empty. Growth is asked for by applying the volume with its new size.
func volumeGrowth(seen *world.Member) string {
	c := volumeCondition(seen, corev1.PersistentVolumeClaimResizing,
		corev1.PersistentVolumeClaimFileSystemResizePending)
	if c == nil {
		return ""
	}
	asked := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]
	text := fmt.Sprintf("grows its volume %s to %s", seen.Volume.Name, asked.String())
	if c.Type == corev1.PersistentVolumeClaimFileSystemResizePending {
		text += ": the node is to grow the file system"
	}
	return text
}

// volumeObstacle says why the volume of a member can't grow, or is empty.
func volumeObstacle(seen *world.Member) string {
	if seen.Volume != nil && seen.Refused != "" {
		return fmt.Sprintf("can't be given its volume %s as asked: %s; if its provisioner can grow volumes, set "+
			"allowVolumeExpansion in its storage class", seen.Volume.Name, seen.Refused)
	}
	c := volumeCondition(seen, corev1.PersistentVolumeClaimControllerResizeError,
		corev1.PersistentVolumeClaimNodeResizeError)
	if c == nil {
		return ""
	}
	return fmt.Sprintf("can't grow its volume %s: %s", seen.Volume.Name, c.Message)
}

// volumeCondition is the first condition of some types that is true of the volume of a member, or nil.
func volumeCondition(
	seen *world.Member, types ...corev1.PersistentVolumeClaimConditionType,
) *corev1.PersistentVolumeClaimCondition {
	if seen.Volume == nil {
		return nil
	}
	i := slices.IndexFunc(seen.Volume.Status.Conditions, func(c corev1.PersistentVolumeClaimCondition) bool {
		return c.Status == corev1.ConditionTrue && slices.Contains(types, c.Type)
	})
	if i < 0 {
		return nil
	}
	return &seen.Volume.Status.Conditions[i]
}
