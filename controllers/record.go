package controllers

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// record is the object that holds the view, or nil. That it is missing is asked of the apiserver itself: a record
// that lost its labels is in no cache.
func (l *look) record() *corev1.ConfigMap {
	record, name := &corev1.ConfigMap{}, l.ours(build.RecordName(l.Cluster.Name))
	if l.get(l.client, "record", name, record) || l.get(l.live, "record", name, record) {
		return record
	}
	return nil
}

// boot is what members are started with, or nil.
func (l *look) boot() *corev1.ConfigMap {
	boot := &corev1.ConfigMap{}
	if l.get(l.client, "boot configuration", l.ours(build.BootName(l.Cluster.Name)), boot) &&
		build.Claims(l.Cluster, boot) {
		return boot
	}
	return nil
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
	has := func(got, want map[string]string) bool { return labels.SelectorFromSet(want).Matches(labels.Set(got)) }
	return !has(record.Labels, want.Labels) || !has(record.Annotations, want.Annotations) ||
		!equality.Semantic.DeepEqual(record.OwnerReferences, want.OwnerReferences)
}
