package controllers

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// record is the object that holds the view, or nil. That it is missing is asked of the apiserver itself: a record
// that lost its labels is in no cache.
func (o *observer) record(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (*corev1.ConfigMap, error) {
	name := build.RecordName(cluster.Name)
	return readConfigMap(ctx, "record "+name, client.ObjectKey{Namespace: cluster.Namespace, Name: name},
		o.client, o.live)
}

// boot is what members are started with, or nil.
func (o *observer) boot(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (*corev1.ConfigMap, error) {
	boot, err := readConfigMap(ctx, "boot configuration",
		client.ObjectKey{Namespace: cluster.Namespace, Name: build.BootName(cluster.Name)}, o.client)
	if boot != nil && !build.Claims(cluster, boot) {
		return nil, nil
	}
	return boot, err
}

// readConfigMap returns a ConfigMap from the first of some readers that has it; nil if none has.
func readConfigMap(
	ctx context.Context, what string, key client.ObjectKey, from ...client.Reader,
) (*corev1.ConfigMap, error) {
	for _, reader := range from {
		found := &corev1.ConfigMap{}
		err := reader.Get(ctx, key, found)
		if err == nil {
			return found, nil
		}
		if !apierrors.IsNotFound(err) {
			return nil, fmt.Errorf("read %s: %w", what, err)
		}
	}
	return nil, nil
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
