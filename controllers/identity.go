package controllers

import (
	"cmp"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

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

func newClusterID(cluster *v1alpha1.GeoRegisterCluster) string {
	random := strings.ReplaceAll(string(cluster.UID), "-", "")
	return cluster.Name + "." + random[:min(12, len(random))]
}

// dropOthers leaves out the volumes that turned out to be another cluster's, once the ID is known.
func dropOthers(cluster *v1alpha1.GeoRegisterCluster, all []world.Member, id string) {
	for i := range all {
		if v := all[i].Volume; v != nil && !build.Owns(cluster, v, id) {
			all[i].Volume = nil
		}
	}
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
