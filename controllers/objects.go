package controllers

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// kin are the members of a cluster, or its dedicated witnesses: whom the view names, and how objects of theirs are
// found.
type kin struct {
	selector client.MatchingLabels
	label    string                   // has the ID
	sites    map[view.MemberID]string // of those of the view
	set      func(id view.MemberID, site string) string
}

// membersOf are the members by a view.
func membersOf(cluster *v1alpha1.GeoRegisterCluster, v view.View) kin {
	k := kin{
		selector: client.MatchingLabels{build.ClusterLabel: cluster.Name},
		label:    build.MemberLabel,
		sites:    map[view.MemberID]string{},
		set: func(id view.MemberID, site string) string {
			return build.StatefulSetName(cluster.Name, view.Member{ID: id, Site: site})
		},
	}
	for _, m := range v.Members {
		k.sites[m.ID] = m.Site
	}
	return k
}

// dedicatedOf are the witnesses with pods of their own by a view.
func dedicatedOf(cluster *v1alpha1.GeoRegisterCluster, v view.View) kin {
	k := kin{
		selector: client.MatchingLabels{
			build.ClusterLabel: cluster.Name, build.ComponentLabel: build.WitnessComponent,
		},
		label: build.WitnessLabel,
		sites: map[view.MemberID]string{},
		set: func(id view.MemberID, site string) string {
			return build.DedicatedName(cluster.Name, view.Witness{ID: id, Site: site})
		},
	}
	for _, w := range v.Witnesses {
		if w.Beside == 0 {
			k.sites[w.ID] = w.Site
		}
	}
	return k
}

// whose says whose an object is. Its labels say so, and its name must agree: a copy of a volume, a second pod of a
// StatefulSet that was scaled, or what else has a member's labels, is no member's.
func (k kin) whose(object client.Object, named func(set string) string) (id view.MemberID, site string, ok bool) {
	number, err := strconv.ParseUint(object.GetLabels()[k.label], 10, 32)
	id = view.MemberID(number)
	site, known := k.sites[id]
	if !known {
		site = object.GetLabels()[build.SiteLabel]
	}
	ok = err == nil && number >= 1 && number <= view.MaxMemberID && object.GetName() == named(k.set(id, site))
	return id, site, ok
}

// gather collects what there is of each of the kin, by the labels, and names those of the view of whom nothing is.
func (l *look) gather(k kin) []world.Member {
	cluster, found := l.Cluster, map[view.MemberID]*world.Member{}
	for id, site := range k.sites { // the order is irrelevant: into another map
		found[id] = &world.Member{ID: id, Site: site}
	}
	// owner is the one that an object belongs to, if it is this cluster's, or nil.
	owner := func(object client.Object, named func(set string) string, ours bool) *world.Member {
		id, site, ok := k.whose(object, named)
		if ok && ours && found[id] == nil {
			found[id] = &world.Member{ID: id, Site: site}
		}
		if !ok || !ours {
			return nil
		}
		return found[id]
	}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var volumes corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &volumes} {
		l.list(l.client, fmt.Sprintf("%T", list), list, client.InNamespace(cluster.Namespace), k.selector)
	}
	for i := range sets.Items {
		set := &sets.Items[i]
		if m := owner(set, strings.Clone, build.Claims(cluster, set)); m != nil {
			m.StatefulSet = set
		}
	}
	for i := range pods.Items {
		pod := &pods.Items[i]
		if m := owner(pod, build.OnlyPod, runs(cluster, pod, sets.Items)); m != nil {
			m.Pod = pod
		}
	}
	for i := range volumes.Items {
		volume := &volumes.Items[i]
		if m := owner(volume, build.OnlyVolume, build.Claims(cluster, volume)); m != nil {
			m.Volume = volume
			m.Refused = l.applier.Refused(client.ObjectKeyFromObject(cluster),
				corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), volume.Name)
		}
	}
	var all []world.Member
	for _, m := range found { // sorted below
		l.findVolume(m, build.OnlyVolume(k.set(m.ID, m.Site)))
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b world.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all
}

// runs reports whether a pod is of the StatefulSet that its name says, which may be gone, and is none of another owner.
func runs(cluster *v1alpha1.GeoRegisterCluster, pod *corev1.Pod, sets []appsv1.StatefulSet) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || controller.Kind != "StatefulSet" || build.OnlyPod(controller.Name) != pod.Name {
		return false
	}
	return !slices.ContainsFunc(sets, func(s appsv1.StatefulSet) bool {
		return s.UID == controller.UID && !build.Claims(cluster, &s)
	})
}

// findVolume asks the apiserver itself for a volume that seems to be missing: one that lost its labels is in no cache,
// and its member is not to be replaced.
func (l *look) findVolume(m *world.Member, name string) {
	if !build.OnDisk(l.Cluster) || m.Volume != nil || m.StatefulSet == nil { // without a set there may be no volume yet
		return
	}
	var volumes corev1.PersistentVolumeClaimList
	l.list(l.live, "volume "+name, &volumes, client.InNamespace(l.Cluster.Namespace),
		client.MatchingFields{metav1.ObjectNameField: name})
	if len(volumes.Items) > 0 && build.Claims(l.Cluster, &volumes.Items[0]) {
		m.Volume = &volumes.Items[0]
	}
}

// sites are those that have a Service: one may not be asked for any more.
func (l *look) sites() (names []string) {
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	l.list(l.client, "Services", services, client.InNamespace(l.Cluster.Namespace),
		client.MatchingLabels{build.ClusterLabel: l.Cluster.Name}, client.HasLabels{build.SiteLabel})
	for i := range services.Items {
		names = append(names, services.Items[i].Labels[build.SiteLabel])
	}
	slices.Sort(names)
	return names
}
