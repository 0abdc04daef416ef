package controllers

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"
	"sync"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// observe looks at everything of a cluster once: its objects as the cache has them, and what its members say now.
func (r *Reconciler) observe(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (world.Snapshot, error) {
	s := world.Snapshot{
		Cluster: cluster, Now: r.now(), Settings: r.options.Settings, Monitoring: r.optional.monitoring(),
	}
	record, err := r.record(ctx, cluster)
	if err != nil {
		return s, err
	}
	s.Taken = r.applier.Taken(client.ObjectKeyFromObject(cluster))
	if record != nil && !claimsRecord(cluster, record) {
		s.Record.Taken, record = build.Whose(record), nil
	} else {
		s.Record = recordOf(record, cluster)
	}
	if s.Members, err = r.parts(ctx, cluster, s.Record.View); err != nil {
		return s, err
	}
	if err := r.unlabelled(ctx, cluster, s.Members); err != nil {
		return s, err
	}
	if s.Witnesses, err = r.dedicated(ctx, cluster, s.Record.View); err != nil {
		return s, err
	}
	if s.Sites, err = r.sites(ctx, cluster); err != nil {
		return s, err
	}
	boot, err := r.boot(ctx, cluster)
	if err != nil {
		return s, err
	}
	s.Former = former(cluster, record, slices.Concat(s.Members, s.Witnesses))
	s.ClusterID, s.Stored = clusterID(cluster, record, slices.Concat(s.Members, s.Witnesses), boot)
	dropOthers(cluster, s.Members, s.ClusterID)
	dropOthers(cluster, s.Witnesses, s.ClusterID)
	if boot != nil && metav1.IsControlledBy(boot, cluster) { // a former resource's says nothing of disks that come now
		s.Shards = build.BootShards(boot)
	}
	if err := r.place(ctx, &s); err != nil {
		return s, err
	}
	if s.Emulation, err = r.observeEmulation(ctx, cluster); err != nil {
		return s, err
	}
	r.warn(ctx, &s)
	r.slots.without(func() {
		var asking sync.WaitGroup
		asking.Go(func() { r.askWitnesses(ctx, &s) })
		r.ask(ctx, &s)
		asking.Wait()
	})
	return s, nil
}

// record is the object that holds the view, or nil. That it is missing is asked of the apiserver itself: a record
// that lost its labels is in no cache.
func (r *Reconciler) record(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (*corev1.ConfigMap, error) {
	record := &corev1.ConfigMap{}
	key := client.ObjectKey{Namespace: cluster.Namespace, Name: build.RecordName(cluster.Name)}
	err := r.client.Get(ctx, key, record)
	if apierrors.IsNotFound(err) {
		err = r.live.Get(ctx, key, record)
	}
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read record %s: %w", key.Name, err)
	}
	return record, nil
}

// claimsRecord reports whether the object of the record's name is the record of a cluster of this name, by its owner or
// its annotation or, where both are lost, its content.
func claimsRecord(cluster *v1alpha1.GeoRegisterCluster, record *corev1.ConfigMap) bool {
	if build.Claims(cluster, record) {
		return true
	}
	v, err := build.ParseRecord(record)
	return err == nil && metav1.GetControllerOfNoCopy(record) == nil && strings.HasPrefix(v.Cluster, cluster.Name+".")
}

// dropOthers leaves out the volumes that turned out to be another cluster's, once the ID is known.
func dropOthers(cluster *v1alpha1.GeoRegisterCluster, all []world.Member, id string) {
	for i := range all {
		if v := all[i].Volume; v != nil && !build.Owns(cluster, v, id) {
			all[i].Volume = nil
		}
	}
}

// runs reports whether a pod is of a StatefulSet of this name, which may be gone, and is none of another owner.
func runs(cluster *v1alpha1.GeoRegisterCluster, pod *corev1.Pod, name string, sets []appsv1.StatefulSet) bool {
	controller := metav1.GetControllerOfNoCopy(pod)
	if controller == nil || controller.Kind != "StatefulSet" || controller.Name != name {
		return false
	}
	return !slices.ContainsFunc(sets, func(s appsv1.StatefulSet) bool {
		return s.UID == controller.UID && !build.Claims(cluster, &s)
	})
}

func recordOf(record *corev1.ConfigMap, cluster *v1alpha1.GeoRegisterCluster) world.Record {
	if record == nil {
		return world.Record{}
	}
	found := world.Record{Exists: true, UID: record.UID, ResourceVersion: record.ResourceVersion}
	v, err := build.ParseRecord(record)
	if err != nil {
		found.Problem = err.Error()
		return found
	}
	found.View = v
	found.Astray = astray(record, build.Record(build.Input{Cluster: cluster, View: v, ClusterID: v.Cluster}))
	return found
}

// astray reports whether a record lacks what it should have beside the view.
func astray(record, want *corev1.ConfigMap) bool {
	lacks := func(got, want map[string]string) bool {
		for key, value := range want { // order is irrelevant: each is looked for
			if got[key] != value {
				return true
			}
		}
		return false
	}
	return lacks(record.Labels, want.Labels) || lacks(record.Annotations, want.Annotations) ||
		!equality.Semantic.DeepEqual(record.OwnerReferences, want.OwnerReferences)
}

// clusterID is the identity of the stored data: what the record says, else retained volumes, else what members were
// started with. A cluster without any of them is new, and named after its resource's UID, which is random and the same
// for every operator that looks. Where volumes of different clusters are all that could tell, and members of this
// resource were not started with one of those, what each of them stored is returned, too.
func clusterID(
	cluster *v1alpha1.GeoRegisterCluster, record *corev1.ConfigMap, seen []world.Member, boot *corev1.ConfigMap,
) (id string, differ []string) {
	if record != nil {
		if v, err := build.ParseRecord(record); err == nil {
			return v.Cluster, nil
		}
		if id := record.Annotations[build.ClusterIDAnnotation]; id != "" {
			return id, nil
		}
	}
	started := ""
	if boot != nil {
		started = boot.Annotations[build.ClusterIDAnnotation]
	}
	var stored []string
	ids := map[string]bool{}
	for _, m := range seen {
		if m.Volume != nil && m.Volume.Annotations[build.ClusterIDAnnotation] != "" {
			id = cmp.Or(id, m.Volume.Annotations[build.ClusterIDAnnotation])
			ids[m.Volume.Annotations[build.ClusterIDAnnotation]] = true
			stored = append(stored,
				fmt.Sprintf("claim %s of cluster %s", m.Volume.Name, m.Volume.Annotations[build.ClusterIDAnnotation]))
		}
	}
	switch {
	case len(ids) > 1 && ids[started] && metav1.IsControlledBy(boot, cluster):
		return started, nil
	case len(ids) > 1:
		return id, stored
	}
	return cmp.Or(id, started, newClusterID(cluster)), nil
}

// boot is what members are started with, or nil.
func (r *Reconciler) boot(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (*corev1.ConfigMap, error) {
	boot := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: build.BootName(cluster.Name)}, boot)
	switch {
	case apierrors.IsNotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read boot configuration: %w", err)
	case !build.Claims(cluster, boot):
		return nil, nil
	}
	return boot, nil
}

func newClusterID(cluster *v1alpha1.GeoRegisterCluster) string {
	random := strings.ReplaceAll(string(cluster.UID), "-", "")
	return cluster.Name + "." + random[:min(12, len(random))]
}

// parts gathers what there is of every member, by the labels, and names those of the view of whom nothing is.
func (r *Reconciler) parts(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, v view.View,
) ([]world.Member, error) {
	found := map[view.MemberID]*world.Member{}
	member := func(id view.MemberID, site string) *world.Member {
		if found[id] == nil {
			found[id] = &world.Member{ID: id, Site: site}
		}
		return found[id]
	}
	for _, m := range v.Members {
		member(m.ID, m.Site)
	}
	of := []client.ListOption{
		client.InNamespace(cluster.Namespace), client.MatchingLabels{build.ClusterLabel: cluster.Name},
	}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var volumes corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &volumes} {
		if err := r.client.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range sets.Items {
		if m, ok := whose(&sets.Items[i], cluster.Name, v, build.StatefulSetName); ok &&
			build.Claims(cluster, &sets.Items[i]) {
			member(m.ID, m.Site).StatefulSet = &sets.Items[i]
		}
	}
	for i := range pods.Items {
		if m, ok := whose(&pods.Items[i], cluster.Name, v, build.PodName); ok &&
			runs(cluster, &pods.Items[i], build.StatefulSetName(cluster.Name, m), sets.Items) {
			member(m.ID, m.Site).Pod = &pods.Items[i]
		}
	}
	for i := range volumes.Items {
		if m, ok := whose(&volumes.Items[i], cluster.Name, v, build.VolumeName); ok &&
			build.Claims(cluster, &volumes.Items[i]) {
			seen := member(m.ID, m.Site)
			seen.Volume = &volumes.Items[i]
			seen.Refused = r.applier.Refused(client.ObjectKeyFromObject(cluster),
				corev1.SchemeGroupVersion.WithKind("PersistentVolumeClaim"), seen.Volume.Name)
		}
	}
	var all []world.Member
	for _, m := range found { // sorted below
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b world.Member) int { return int(a.ID) - int(b.ID) })
	return all, nil
}

// sites are those that have a Service: one may not be asked for any more.
func (r *Reconciler) sites(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) ([]string, error) {
	services := &metav1.PartialObjectMetadataList{}
	services.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ServiceList"))
	err := r.client.List(ctx, services, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{build.ClusterLabel: cluster.Name}, client.HasLabels{build.SiteLabel})
	if err != nil {
		return nil, fmt.Errorf("list Services: %w", err)
	}
	var names []string
	for i := range services.Items {
		names = append(names, services.Items[i].Labels[build.SiteLabel])
	}
	slices.Sort(names)
	return names, nil
}

// unlabelled asks the apiserver itself for volumes that seem to be missing: one that lost its labels is in no cache,
// and its member is not to be replaced.
func (r *Reconciler) unlabelled(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, all []world.Member) error {
	if !build.OnDisk(cluster) {
		return nil
	}
	for i := range all {
		m := &all[i]
		err := r.findVolume(ctx, cluster, m, build.VolumeName(cluster.Name, view.Member{ID: m.ID, Site: m.Site}))
		if err != nil {
			return err
		}
	}
	return nil
}

// findVolume asks the apiserver itself for the volume of a member or a dedicated witness, if it seems to be missing.
func (r *Reconciler) findVolume(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, m *world.Member, name string,
) error {
	if m.Volume != nil || m.StatefulSet == nil { // without a StatefulSet there may be no volume yet
		return nil
	}
	var volumes corev1.PersistentVolumeClaimList
	err := r.live.List(ctx, &volumes, client.InNamespace(cluster.Namespace),
		client.MatchingFields{metav1.ObjectNameField: name})
	if err != nil {
		return fmt.Errorf("look for volume %s: %w", name, err)
	}
	if len(volumes.Items) > 0 && build.Claims(cluster, &volumes.Items[0]) {
		m.Volume = &volumes.Items[0]
	}
	return nil
}

// whose says whose an object is. Its labels say so, and its name must agree: a copy of a volume, a second pod of a
// StatefulSet that was scaled, or what else has a member's labels, is nobody's.
func whose(
	object client.Object, cluster string, v view.View, named func(string, view.Member) string,
) (view.Member, bool) {
	id, ok := labelledID(object, build.MemberLabel)
	if !ok {
		return view.Member{}, false
	}
	m := view.Member{ID: id, Site: object.GetLabels()[build.SiteLabel]}
	if i := v.Index(m.ID); i >= 0 {
		m = v.Members[i]
	}
	return m, object.GetName() == named(cluster, m)
}

// labelledID is the ID that a label of an object has, of a member or a witness.
func labelledID(object client.Object, label string) (view.MemberID, bool) {
	id, err := strconv.ParseUint(object.GetLabels()[label], 10, 32)
	return view.MemberID(id), err == nil && id >= 1 && id <= view.MaxMemberID
}

// former names what is left of a deleted resource of the same name, and is about to be removed with it. Without a
// record it includes pods that lost their StatefulSet: their members may still answer, from disks that go too.
func former(cluster *v1alpha1.GeoRegisterCluster, record *corev1.ConfigMap, seen []world.Member) (left []string) {
	note := func(kind string, object client.Object) {
		owner := metav1.GetControllerOfNoCopy(object)
		if owner != nil && owner.Kind == v1alpha1.Kind && owner.Name == cluster.Name && owner.UID != cluster.UID {
			left = append(left, kind+" "+object.GetName())
		}
	}
	if record != nil {
		note("ConfigMap", record)
	}
	for _, m := range seen {
		if m.StatefulSet != nil {
			note("StatefulSet", m.StatefulSet)
		}
		if m.Volume != nil {
			note("PersistentVolumeClaim", m.Volume)
		}
		if m.Pod == nil || record != nil {
			continue
		}
		owner := metav1.GetControllerOfNoCopy(m.Pod)
		if owner != nil && (m.StatefulSet == nil || m.StatefulSet.UID != owner.UID) {
			left = append(left, "Pod "+m.Pod.Name)
		}
	}
	return left
}

// ask has every member that can be called say how it is.
func (r *Reconciler) ask(ctx context.Context, s *world.Snapshot) {
	var targets []members.Target
	var asked []*world.Member
	for i := range s.Members {
		m := &s.Members[i]
		target, silence := targetOf(m, s.ClusterID)
		if silence != "" {
			m.Silence = silence
			continue
		}
		targets, asked = append(targets, target), append(asked, m)
	}
	for i, answer := range r.options.Members.Ask(ctx, client.ObjectKeyFromObject(s.Cluster).String(), targets) {
		asked[i].Report = answer.Report
		if answer.Err != nil {
			asked[i].Silence = reason(answer.Err)
		}
	}
	r.silences.observe(client.ObjectKeyFromObject(s.Cluster), s.Members, s.Now)
}

// targetOf is where a member can be called, or why it can't.
func targetOf(m *world.Member, clusterID string) (members.Target, string) {
	switch {
	case m.Pod == nil:
		return members.Target{}, "has no pod"
	case m.Pod.Status.PodIP == "":
		return members.Target{}, "its pod has no address yet"
	}
	address := net.JoinHostPort(m.Pod.Status.PodIP, strconv.Itoa(build.AdminPort))
	return members.Target{ID: m.ID, ClusterID: clusterID, Address: address}, ""
}
