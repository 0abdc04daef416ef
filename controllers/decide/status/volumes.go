package status

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/world"
)

// volumeGrowth says what the volume of a member waits for while it grows, to be read after the member's name, or is
// empty. Growth is asked for by applying the volume with its new size.
func volumeGrowth(seen *world.Member) string {
	if seen.Volume == nil {
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
	if seen.Volume == nil {
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
