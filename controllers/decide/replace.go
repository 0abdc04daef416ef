package decide

import (
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/replica/view/manager"
)

// beforeReplacement is what must hold before a lost member leaves the view. A change begins only from a view
// that everybody who is not lost acts on, so one change is in flight at most.
var beforeReplacement = []predicate{
	nobodyJoins,
	everyoneElseVotesOrIsLost,
	majorityRemains,
	majoritySuspectsIt,
}

// replace gives a lost member's place to a newcomer with the next id.
func replace(s *situation) *outcome {
	var blocked *outcome
	for _, m := range s.view.Members {
		why := s.lost(m)
		if why == "" {
			continue
		}
		if c := first(beforeReplacement, s, m); c != nil {
			if blocked == nil {
				blocked = waitFor(c.reason, "%s %s; it is not replaced yet: %s", sentence(name(m)), why, c.message)
			}
			continue
		}
		next, err := manager.Replace(s.view, m.ID, m.Site, func(id view.MemberID) string {
			return build.Address(s.Cluster, s.Settings, view.Member{ID: id, Site: m.Site})
		})
		if err != nil {
			return waitFor("CannotReplace", "%s", err)
		}
		reason := fmt.Sprintf("Replaced %s by member %d in view %d: it %s", name(m), next.Issued, next.Epoch, why)
		return act(ChangeView{View: next, UID: s.Record.UID, ResourceVersion: s.Record.ResourceVersion, Reason: reason},
			Warning("MemberReplaced", "ChangeView", reason))
	}
	return blocked
}

// lost says why a member will not come back with its disk, to be read after its name, or is empty. A member
// that is down with its disk intact is not lost; nor is one whose node is gone, if its volume can move to another.
func (s *situation) lost(m view.Member) string {
	seen := s.Member(m.ID)
	if seen == nil || seen.StatefulSet == nil || seen.Report != nil ||
		!build.OnDisk(s.Cluster) {
		return ""
	}
	if runs(seen.Pod) && !s.nodeGone(seen.Pod) || s.downFor(seen.Pod) < s.Settings.LostAfter {
		return ""
	}
	volume := build.VolumeName(s.Cluster.Name, m)
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

func runs(pod *corev1.Pod) bool { return pod != nil && pod.Status.Phase == corev1.PodRunning }

// nodeGone reports whether the node of a pod was deleted.
func (s *situation) nodeGone(pod *corev1.Pod) bool {
	if pod == nil || pod.Spec.NodeName == "" || !s.ZonesKnown {
		return false
	}
	_, there := s.Zones[pod.Spec.NodeName]
	return !there
}

// downFor is how long a pod has been without a running container, as the apiserver tells; zero without a pod:
// its StatefulSet makes one.
func (s *situation) downFor(pod *corev1.Pod) time.Duration {
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

// wants reports whether an object of a member is to be there now. The StatefulSet is made once the volume was
// seen, so a StatefulSet without one means that the volume is gone. It is not made again then: it would be an
// empty disk under the member's name, and the member gets a new id with its new volume instead.
func (s *situation) wants(m view.Member, object client.Object) bool {
	seen := s.Member(m.ID)
	hasSet, hasVolume := seen != nil && seen.StatefulSet != nil, seen != nil && seen.Volume != nil
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		if hasVolume {
			return seen.Volume.DeletionTimestamp == nil
		}
		return !hasSet || s.view.Epoch == 0
	case *appsv1.StatefulSet:
		return hasVolume || hasSet || !build.OnDisk(s.Cluster)
	}
	return true
}

// pinned gives a volume that was seen its UID: it is changed, or nothing is. It may be gone by the time that it is
// applied, and an apply would make an empty one under the member's name. A volume that is larger than asked for, as
// one that a former resource left may be, stays as it is: volumes can't shrink.
func (s *situation) pinned(m view.Member, object client.Object) client.Object {
	volume, ok := object.(*corev1.PersistentVolumeClaim)
	seen := s.Member(m.ID)
	if !ok || seen == nil || seen.Volume == nil {
		return object
	}
	volume.SetUID(seen.Volume.UID)
	asked := volume.Spec.Resources.Requests
	if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known && has.Cmp(asked[corev1.ResourceStorage]) > 0 {
		asked[corev1.ResourceStorage] = has
	}
	return volume
}

// discard removes what is left of a member that no view names any more. The view is settled, so the member has
// no quorum, and its id is given to nobody else.
func discard(s *situation) *outcome {
	for i := range s.Members {
		m := &s.Members[i]
		if s.view.Index(m.ID) >= 0 {
			continue
		}
		var objects []client.Object
		if set := m.StatefulSet; set != nil && set.DeletionTimestamp == nil {
			objects = append(objects, set)
		}
		if v := m.Volume; v != nil && v.DeletionTimestamp == nil && s.Cluster.Spec.Storage.Retention == v1alpha1.Delete {
			objects = append(objects, v)
		}
		if len(objects) > 0 {
			return act(Discard{Member: m.ID, Objects: objects}, Normal("MemberDiscarded", "Discard", discarded(m, objects)))
		}
	}
	return nil
}

func discarded(m *world.Member, objects []client.Object) string {
	text := fmt.Sprintf("Removed what was left of member %d (site %s)", m.ID, m.Site)
	if m.Volume != nil && objects[len(objects)-1] != client.Object(m.Volume) {
		text += fmt.Sprintf("; its volume %s is retained: delete it when nobody wants its data", m.Volume.Name)
	}
	return text
}
