package decide

import (
	"maps"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// wanted are the objects of the cluster that are to be there now.
func wanted(s *views.Views, in build.Input) []client.Object {
	objects := build.Objects(in)
	for _, m := range s.MembersToKeep() {
		for _, object := range build.Member(in, m) {
			if wants(s, m, object) {
				objects = append(objects, pinned(s, m, object))
			}
		}
	}
	return append(objects, dedicatedWanted(s, in)...)
}

// wants reports whether an object of a member is to be there now. The StatefulSet is made once the volume was
// seen, so a StatefulSet without one means that the volume is gone. It is not made again then: it would be an
// empty disk under the member's name, and the member gets a new id with its new volume instead.
func wants(s *views.Views, m view.Member, object client.Object) bool {
	return wantsOf(s, s.Member(m.ID), object)
}

func wantsOf(s *views.Views, seen *world.Member, object client.Object) bool {
	hasSet, hasVolume := seen != nil && seen.StatefulSet != nil, seen != nil && seen.Volume != nil
	switch object.(type) {
	case *corev1.PersistentVolumeClaim:
		if hasVolume {
			return seen.Volume.DeletionTimestamp == nil
		}
		return !hasSet || s.View.Epoch == 0
	case *appsv1.StatefulSet:
		if hasVolume && !hasSet && s.MayBeNew() && seen.Volume.DeletionTimestamp != nil {
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
func pinned(s *views.Views, m view.Member, object client.Object) client.Object {
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
		if seen.StatefulSet != nil && (s.SiteOf(m) == nil || s.Misplaced(m) != "") {
			object.Spec.Template.Spec.NodeSelector = maps.Clone(seen.StatefulSet.Spec.Template.Spec.NodeSelector)
		}
	}
	return object
}

// unwanted are the objects to remove: also the Services of sites where no member is, and none is to be.
func unwanted(s *views.Views, in build.Input) []client.Object {
	objects := build.Unwanted(in)
	for _, site := range s.Sites {
		asked := slices.ContainsFunc(s.Cluster.Spec.Sites, func(o v1alpha1.Site) bool { return o.Name == site })
		used := slices.ContainsFunc(s.Members, func(m world.Member) bool {
			return m.Site == site && (m.StatefulSet != nil || m.Pod != nil || s.View.Index(m.ID) >= 0)
		})
		if !asked && !used && s.Doubt == nil {
			objects = append(objects, build.SiteService(in, site))
		}
	}
	return objects
}

// dedicatedWanted are the objects of the dedicated witnesses that are to be there now, with what must stay of those
// that were seen, as for members: a volume that is lost is not made again, and none grows; a witness stays in its node
// pool until another one has taken its place.
func dedicatedWanted(s *views.Views, in build.Input) (objects []client.Object) {
	if !s.HasDedicated() {
		return nil
	}
	for _, w := range s.WitnessesToKeep() {
		seen := s.Dedicated(w.ID)
		for _, object := range build.Dedicated(in, w) {
			if !wantsOf(s, seen, object) {
				continue
			}
			switch object := object.(type) {
			case *corev1.PersistentVolumeClaim:
				if seen != nil && seen.Volume != nil {
					object.SetUID(seen.Volume.UID)
					if has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]; known {
						object.Spec.Resources.Requests[corev1.ResourceStorage] = has
					}
				}
			case *appsv1.StatefulSet:
				if seen != nil && seen.StatefulSet != nil && (s.SiteOf(view.Member{Site: w.Site}) == nil || s.OffPool(seen) != "") {
					object.Spec.Template.Spec.NodeSelector = maps.Clone(seen.StatefulSet.Spec.Template.Spec.NodeSelector)
				}
			}
			objects = append(objects, object)
		}
	}
	return objects
}

// input is what objects are built from.
func input(s *views.Views, founding bool) build.Input {
	in := build.Input{
		Cluster: s.Cluster, View: s.View, ClusterID: s.ClusterID, Shards: s.Shards, Settings: s.Settings, Monitoring: s.Monitoring,
		Image:     build.Image(s.Cluster, runningImage(s), s.Settings),
		Unfounded: !s.Unclear() && s.MayBeNew() && !founding,
	}
	for _, id := range s.LeftRunning() {
		if m := s.Member(id); m.StatefulSet != nil || m.Pod.DeletionTimestamp == nil { // a pod that ends is in no budget
			in.Beside++
		}
	}
	if in.View.Epoch == 0 {
		in.View = view.View{Cluster: s.ClusterID, Members: s.MembersToKeep()}
	}
	return in
}

// runningImage is what the cluster's StatefulSets run already, or empty.
func runningImage(s *views.Views) string {
	for _, m := range s.Members {
		if m.StatefulSet == nil {
			continue
		}
		for _, c := range m.StatefulSet.Spec.Template.Spec.Containers {
			if c.Name == build.Container {
				return c.Image
			}
		}
	}
	return ""
}
