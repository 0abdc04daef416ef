package facts

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Lost says why a member will not come back with its disk, to be read after its name, or is empty. A member
// that is down with its disk intact is not lost; nor is one whose node is gone, if its volume can move to another.
func (s *Seen) Lost(m view.Member) string {
	seen := s.Of(m.ID)
	if seen.StatefulSet == nil || seen.Report != nil ||
		!build.OnDisk(s.Cluster) {
		return ""
	}
	if Runs(seen.Pod) && !s.nodeGone(seen.Pod) || s.DownFor(seen.Pod) < s.Settings.LostAfter {
		return ""
	}
	return volumeLost(seen, build.VolumeName(s.Cluster.Name, m))
}

// volumeLost says what became of the volume of a member or a dedicated witness, to be read after its name, or is empty.
func volumeLost(seen *world.Member, volume string) string {
	switch {
	case seen.Volume == nil:
		return fmt.Sprintf("lost its volume %s", volume)
	case seen.Volume.DeletionTimestamp != nil:
		return fmt.Sprintf("loses its volume %s, which is being deleted", volume)
	case seen.Volume.Status.Phase == corev1.ClaimLost:
		return fmt.Sprintf("lost what its volume %s was bound to", volume)
	case seen.NodeGone:
		return fmt.Sprintf("lost node %s, which its volume %s is tied to", seen.VolumeNode, volume)
	}
	return ""
}

// Runs reports whether a pod, which may be nil, runs.
func Runs(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodRunning }

// nodeGone reports whether the node of a pod was deleted.
func (s *Seen) nodeGone(pod *corev1.Pod) bool {
	if pod == nil || pod.Spec.NodeName == "" || !s.ZonesKnown {
		return false
	}
	_, there := s.Zones[pod.Spec.NodeName]
	return !there
}

// DownFor is how long a pod has been without a running container, as the apiserver tells; zero without a pod:
// its StatefulSet makes one.
func (s *Seen) DownFor(pod *corev1.Pod) time.Duration {
	if pod == nil {
		return 0
	}
	since := pod.CreationTimestamp
	for _, kind := range []corev1.PodConditionType{corev1.PodReady, corev1.PodScheduled} {
		if c := podCondition(pod, kind); c != nil && c.Status == corev1.ConditionFalse {
			since = c.LastTransitionTime
			break
		}
	}
	return s.Now.Sub(since.Time)
}

// Unsuspected says why too few others miss a member for it to be replaced, or is empty: the operator may be the only
// one that can't reach it.
func (s *Seen) Unsuspected(m view.Member) string {
	by := IDs(s.UnreachedBy(m.ID))
	if s.View.Quorum(func(id view.MemberID) bool { return slices.Contains(by, id) }) {
		return ""
	}
	return fmt.Sprintf("%d members can't reach it, and %s must say so", len(by), s.Quorum())
}

// Remains reports whether a member has what it voted on, or may come back with it: only then it can vote again by
// itself.
func (s *Seen) Remains(m view.Member) bool {
	r := s.Report(m.ID)
	switch {
	case r == nil:
		return s.Lost(m) == ""
	case r.Role == world.Waiting: // for the view that names its disk
		return r.Disk != "" && r.Disk == m.Disk
	}
	// One that takes on a view says Learner too, and tells no incarnation of its disk meanwhile.
	return r.Role == world.Voter || r.Role == world.Learner && r.Incarnation == 0
}

// QuorumGone reports whether so many members lost their disks that no quorum can come back. Members with new disks
// learn from a majority that did not, so they do not count.
func (s *Facts) QuorumGone() bool {
	before := s.View.Before() // those after the change can be done without
	return s.Doubt == nil && s.View.Epoch > 0 && !before.Quorum(func(id view.MemberID) bool {
		return s.Remains(before.Members[before.Index(id)])
	})
}
