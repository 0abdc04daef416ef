package controllers

import (
	"context"
	"fmt"
	"net"
	"slices"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
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
		Cluster: cluster, Now: r.now(), Settings: r.options.Settings, Monitoring: r.monitoring.kinds(),
	}
	record, err := r.record(ctx, cluster)
	if err != nil {
		return s, err
	}
	s.Record = recordOf(record)
	if s.Members, err = r.parts(ctx, cluster, s.Record.View); err != nil {
		return s, err
	}
	if s.ClusterID, err = r.clusterID(ctx, cluster, record, s.Members); err != nil {
		return s, err
	}
	if err := r.place(ctx, &s); err != nil {
		return s, err
	}
	r.ask(ctx, &s)
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

func recordOf(record *corev1.ConfigMap) world.Record {
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
	return found
}

// clusterID is the identity of the stored data: what the record says, else retained volumes, else what members
// were started with. A cluster without any of them is new, and named after its resource's UID, which is random
// and the same for every operator that looks.
func (r *Reconciler) clusterID(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, record *corev1.ConfigMap, seen []world.Member) (string, error) {
	if record != nil {
		if v, err := build.ParseRecord(record); err == nil {
			return v.Cluster, nil
		}
		if id := record.Annotations[build.ClusterIDAnnotation]; id != "" {
			return id, nil
		}
	}
	for _, m := range seen {
		if m.Volume != nil && m.Volume.Annotations[build.ClusterIDAnnotation] != "" {
			return m.Volume.Annotations[build.ClusterIDAnnotation], nil
		}
	}
	boot := &corev1.ConfigMap{}
	err := r.client.Get(ctx, client.ObjectKey{Namespace: cluster.Namespace, Name: build.BootName(cluster.Name)}, boot)
	if client.IgnoreNotFound(err) != nil {
		return "", fmt.Errorf("read boot configuration: %w", err)
	}
	if id := boot.Annotations[build.ClusterIDAnnotation]; id != "" {
		return id, nil
	}
	return newClusterID(cluster), nil
}

func newClusterID(cluster *v1alpha1.GeoRegisterCluster) string {
	random := strings.ReplaceAll(string(cluster.UID), "-", "")
	return cluster.Name + "." + random[:min(12, len(random))]
}

// parts gathers what there is of every member, by the labels, and names those of the view of whom nothing is.
func (r *Reconciler) parts(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, v view.View) ([]world.Member, error) {
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
	of := []client.ListOption{client.InNamespace(cluster.Namespace), client.MatchingLabels{build.ClusterLabel: cluster.Name}}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var volumes corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &volumes} {
		if err := r.client.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("list %T: %w", list, err)
		}
	}
	for i := range sets.Items {
		if id, site, ok := whose(&sets.Items[i]); ok {
			member(id, site).StatefulSet = &sets.Items[i]
		}
	}
	for i := range pods.Items {
		if id, site, ok := whose(&pods.Items[i]); ok {
			member(id, site).Pod = &pods.Items[i]
		}
	}
	for i := range volumes.Items {
		if id, site, ok := whose(&volumes.Items[i]); ok {
			member(id, site).Volume = &volumes.Items[i]
		}
	}
	var all []world.Member
	for _, m := range found { // sorted below
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b world.Member) int { return int(a.ID) - int(b.ID) })
	return all, nil
}

// whose says whose an object is by its labels. An object whose labels somebody made useless is nobody's.
func whose(object client.Object) (view.MemberID, string, bool) {
	labels := object.GetLabels()
	id, err := strconv.ParseUint(labels[build.MemberLabel], 10, 32)
	if err != nil || id < 1 || id > view.MaxMemberID {
		return 0, "", false
	}
	return view.MemberID(id), labels[build.SiteLabel], true
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
			asked[i].Silence = "does not answer at its admin port: " + reason(answer.Err)
		}
	}
}

// targetOf is where a member can be called, or why it can't.
func targetOf(m *world.Member, clusterID string) (members.Target, string) {
	switch {
	case m.Pod == nil:
		return members.Target{}, "has no pod"
	case m.Pod.Status.PodIP == "":
		return members.Target{}, "has a pod without an address yet"
	}
	address := net.JoinHostPort(m.Pod.Status.PodIP, strconv.Itoa(build.AdminPort))
	return members.Target{ID: m.ID, ClusterID: clusterID, Address: address}, ""
}

// place says where the volumes and pods are, where the operator may know.
func (r *Reconciler) place(ctx context.Context, s *world.Snapshot) error {
	if !r.places {
		return nil
	}
	s.Zones, s.ZonesKnown = map[string]world.Zone{}, true
	for i := range s.Members {
		m := &s.Members[i]
		if m.Pod != nil && m.Pod.Spec.NodeName != "" {
			if _, err := r.node(ctx, s, m.Pod.Spec.NodeName); err != nil {
				return err
			}
		}
		if m.Volume == nil || m.Volume.Spec.VolumeName == "" {
			continue
		}
		volume := &corev1.PersistentVolume{}
		err := r.client.Get(ctx, types.NamespacedName{Name: m.Volume.Spec.VolumeName}, volume)
		if client.IgnoreNotFound(err) != nil {
			return fmt.Errorf("read volume %s: %w", m.Volume.Spec.VolumeName, err)
		}
		if m.VolumeNode = tiedTo(volume); m.VolumeNode != "" {
			there, err := r.node(ctx, s, m.VolumeNode)
			if err != nil {
				return err
			}
			m.NodeGone = !there
		}
	}
	return nil
}

// node notes where a node is, and reports whether it exists.
func (r *Reconciler) node(ctx context.Context, s *world.Snapshot, name string) (bool, error) {
	if _, ok := s.Zones[name]; ok {
		return true, nil
	}
	node := &corev1.Node{}
	err := r.client.Get(ctx, types.NamespacedName{Name: name}, node)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read node %s: %w", name, err)
	}
	zone := world.Zone{Name: node.Labels[corev1.LabelTopologyZone]}
	for _, condition := range node.Status.Conditions {
		if condition.Type == corev1.NodeReady {
			zone.Ready = condition.Status == corev1.ConditionTrue
		}
	}
	s.Zones[name] = zone
	return true, nil
}

// tiedTo is the only node on which a volume can be used, or empty if it can move.
func tiedTo(volume *corev1.PersistentVolume) string {
	if volume.Spec.NodeAffinity == nil || volume.Spec.NodeAffinity.Required == nil {
		return ""
	}
	terms := volume.Spec.NodeAffinity.Required.NodeSelectorTerms
	if len(terms) != 1 {
		return ""
	}
	for _, e := range slices.Concat(terms[0].MatchExpressions, terms[0].MatchFields) {
		byName := e.Key == corev1.LabelHostname || e.Key == "metadata.name"
		if byName && e.Operator == corev1.NodeSelectorOpIn && len(e.Values) == 1 {
			return e.Values[0]
		}
	}
	return ""
}
