package decide

import (
	"fmt"
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// wants reports whether an object of a member is to be there now. The StatefulSet is made once the volume was
// seen, so a StatefulSet without one means that the volume is gone. It is not made again then: it would be an
// empty disk under the member's name, and the member gets a new id with its new volume instead.
func (s *situation) wants(m view.Member, object client.Object) bool {
	return s.wantsOf(s.Member(m.ID), object)
}

func (s *situation) wantsOf(seen *world.Member, object client.Object) bool {
	hasSet, hasVolume := seen != nil && seen.StatefulSet != nil, seen != nil && seen.Volume != nil
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		if hasVolume {
			return seen.Volume.DeletionTimestamp == nil
		}
		return !hasSet || s.view.Epoch == 0
	case *appsv1.StatefulSet:
		if hasVolume && !hasSet && s.mayBeNew() && seen.Volume.DeletionTimestamp != nil {
			return false // its pod would hold the volume that is to be made again
		}
		return hasVolume || hasSet || !build.OnDisk(s.Cluster)
	}
	return true
}

// pinned keeps of an object that was seen what must stay. A volume gets the UID that it had: it is changed, or nothing
// is. It may be gone by the time that it is applied, and an apply would make an empty one under the member's name. A
// volume that is larger than asked for, as one that a former resource left may be, stays as it is: volumes can't
// shrink, and one of another class too. None is given an owner that it does not have, unless its user says so: it may
// hold more than is known. A member stays where it is until another one has taken its place: its disk may be tied to
// there.
func (s *situation) pinned(m view.Member, object client.Object) client.Object {
	seen := s.Member(m.ID)
	if seen == nil {
		return object
	}
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if seen.Volume == nil {
			break
		}
		object.SetUID(seen.Volume.UID)
		if build.Retained(s.Cluster) && !metav1.IsControlledBy(seen.Volume, s.Cluster) {
			object.SetOwnerReferences(nil)
		}
		if class := seen.Volume.Spec.StorageClassName; class != nil && object.Spec.StorageClassName != nil {
			object.Spec.StorageClassName = class
		}
		asked := object.Spec.Resources.Requests
		if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known && has.Cmp(asked[corev1.ResourceStorage]) > 0 {
			asked[corev1.ResourceStorage] = has
		}
	case *appsv1.StatefulSet:
		if seen.StatefulSet != nil && (s.siteOf(m) == nil || s.elsewhere(m) != "") {
			object.Spec.Template.Spec.NodeSelector = maps.Clone(seen.StatefulSet.Spec.Template.Spec.NodeSelector)
		}
	}
	return object
}

// leftover are the members of whom something is there to remove: no view names them any more, or they wait for one and
// are not asked for now.
func (s *situation) leftover() (all []*world.Member) {
	for i := range s.Members {
		m := &s.Members[i]
		if s.view.Index(m.ID) < 0 && !slices.ContainsFunc(slices.Concat(s.asked.join, s.first), func(o view.Member) bool { return o.ID == m.ID }) {
			all = append(all, m)
		}
	}
	return all
}

// discardMember removes what is left of a member that no view names. The view is settled, so the member has no quorum,
// and its id is given to nobody else.
func discardMember(s *situation) *outcome {
	if !s.settled() {
		return nil
	}
	return s.discardMember()
}

func (s *situation) discardMember() *outcome {
	for _, m := range s.leftover() {
		var objects []client.Object
		if set := m.StatefulSet; set != nil && set.DeletionTimestamp == nil {
			objects = append(objects, set)
		}
		// What no view ever named holds nothing.
		unused := m.ID > s.view.LastIssued() && (m.Report == nil || m.Report.View.Epoch == 0)
		goes := unused || s.Cluster.Spec.Storage.Retention == v1alpha1.Delete && !s.wasGivenUp(m)
		if v := m.Volume; v != nil && v.DeletionTimestamp == nil && goes {
			objects = append(objects, v)
		}
		if len(objects) > 0 {
			return act(Discard{Member: m.ID, Objects: objects}, Normal("MemberDiscarded", "Discard", discarded(m, objects)))
		}
	}
	return nil
}

// wasGivenUp reports whether a recovery gave a member up. Its volume may hold what the trusted one did not, so people
// decide on it. The status alone remembers that, once the view has changed again.
func (s *situation) wasGivenUp(m *world.Member) bool {
	last := s.Cluster.Status.Recovered
	return s.recovered() || last != nil && slices.Contains(last.GivenUp, int32(m.ID))
}

func discarded(m *world.Member, objects []client.Object) string {
	text := fmt.Sprintf("Removed what was left of member %d (site %s)", m.ID, m.Site)
	if m.Volume != nil && objects[len(objects)-1] != client.Object(m.Volume) {
		text += fmt.Sprintf("; its volume %s is retained: delete it when nobody wants its data", m.Volume.Name)
	}
	return text
}

// unwanted are the objects to remove: also the Services of sites where no member is, and none is to be.
func (s *situation) unwanted(in build.Input) []client.Object {
	objects := build.Unwanted(in)
	for _, site := range s.Sites {
		asked := slices.ContainsFunc(s.Cluster.Spec.Sites, func(o v1alpha1.Site) bool { return o.Name == site })
		used := slices.ContainsFunc(s.Members, func(m world.Member) bool {
			return m.Site == site && (m.StatefulSet != nil || m.Pod != nil || s.view.Index(m.ID) >= 0)
		})
		if !asked && !used && s.doubt == nil {
			objects = append(objects, build.SiteService(in, site))
		}
	}
	return objects
}
