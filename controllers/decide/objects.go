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
		objects = append(objects, kept(s, s.Of(m.ID), build.Member(in, m), false)...)
	}
	if s.HasDedicated() {
		for _, w := range s.WitnessesToKeep() {
			objects = append(objects, kept(s, s.Dedicated(w.ID), build.Dedicated(in, w), true)...)
		}
	}
	return objects
}

// kept are those objects of a member or of a dedicated witness that are to be there now, with what must stay of them.
func kept(s *views.Views, seen *world.Member, objects []client.Object, dedicated bool) (all []client.Object) {
	for _, object := range objects {
		if wants(s, seen, object) {
			all = append(all, pinned(s, seen, object, dedicated))
		}
	}
	return all
}

// wants reports whether an object of a member or a witness is to be there now. The StatefulSet is made once the volume
// was seen, so a StatefulSet without one means that the volume is gone. It is not made again then: it would be an empty
// disk under the member's name, and the member gets a new id with its new volume instead.
func wants(s *views.Views, seen *world.Member, object client.Object) bool {
	hasSet, hasVolume := seen.StatefulSet != nil, seen.Volume != nil
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
// shrink, and one of another class too; that of a dedicated witness keeps its size in any case. None is given an owner
// that it does not have, unless its user says so: it may hold more than is known. A member or a witness stays where it
// is until another one has taken its place: its disk may be tied to there.
func pinned(s *views.Views, seen *world.Member, object client.Object, dedicated bool) client.Object {
	switch object := object.(type) {
	case *corev1.PersistentVolumeClaim:
		if seen.Volume == nil {
			break
		}
		object.SetUID(seen.Volume.UID)
		asked := object.Spec.Resources.Requests
		has, known := seen.Volume.Spec.Resources.Requests[corev1.ResourceStorage]
		if known && (dedicated || has.Cmp(asked[corev1.ResourceStorage]) > 0) {
			asked[corev1.ResourceStorage] = has
		}
		if !dedicated && build.Retained(s.Cluster) && !metav1.IsControlledBy(seen.Volume, s.Cluster) {
			object.SetOwnerReferences(nil)
		}
		class := seen.Volume.Spec.StorageClassName
		if !dedicated && class != nil && object.Spec.StorageClassName != nil {
			object.Spec.StorageClassName = class
		}
	case *appsv1.StatefulSet:
		if seen.StatefulSet != nil && (s.SiteOf(view.Member{Site: seen.Site}) == nil || s.OffPool(seen) != "") {
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

// input is what objects are built from.
func input(s *views.Views, founding bool) build.Input {
	in := build.Input{
		Cluster: s.Cluster, View: s.View, ClusterID: s.ClusterID, Shards: s.Shards, Settings: s.Settings,
		Monitoring: s.Monitoring, Image: build.Image(s.Cluster, runningImage(s), s.Settings),
		Unfounded: !s.Unclear() && s.MayBeNew() && !founding,
	}
	for _, id := range s.LeftRunning() {
		if m := s.Of(id); m.StatefulSet != nil || m.Pod.DeletionTimestamp == nil { // a pod that ends is in no budget
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
