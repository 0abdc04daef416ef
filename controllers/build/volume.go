package build

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// OnDisk reports whether a cluster keeps anything on disk, so that its members have volumes.
func OnDisk(cluster *v1alpha1.GeoRegisterCluster) bool {
	return cluster.Spec.Storage.DurabilityOrDefault() != v1alpha1.Memory
}

// Retained reports whether the data outlives the resource: its volumes and its record then have no owner.
// A cluster in memory has nothing to retain; a record that outlived it would name disks that are gone for ever,
// and keep a resource of the same name from being founded.
func Retained(cluster *v1alpha1.GeoRegisterCluster) bool {
	return OnDisk(cluster) && cluster.Spec.Storage.RetentionOrDefault() == v1alpha1.Retain
}

// volume is the disk of one member or one dedicated witness. It is no template of the StatefulSet, which would make a
// lost one again, empty, behind the back of whoever decides what that means, and could not let it grow.
func volume(in Input, name string, labels map[string]string, size resource.Quantity) *corev1.PersistentVolumeClaim {
	claim := &corev1.PersistentVolumeClaim{
		TypeMeta:   kind("v1", "PersistentVolumeClaim"),
		ObjectMeta: kept(in, name, labels),
		Spec: corev1.PersistentVolumeClaimSpec{
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{
				Requests: corev1.ResourceList{corev1.ResourceStorage: size},
			},
		},
	}
	if class := in.Cluster.Spec.Storage.Class; class != "" {
		claim.Spec.StorageClassName = &class
	}
	return claim
}

// dataSource is what a member's data directory is: its volume, or with durability Memory a directory that ends
// with the pod.
func dataSource(in Input, m view.Member) corev1.VolumeSource {
	if !OnDisk(in.Cluster) {
		return corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}
	}
	return claimed(VolumeName(in.Cluster.Name, m))
}

func claimed(name string) corev1.VolumeSource {
	return corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}
}
