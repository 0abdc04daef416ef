package build

import (
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

// joined are labels or annotations of two origins, such as a user's and ours; the second count where both name one.
func joined(first, second map[string]string) map[string]string {
	all := make(map[string]string, len(first)+len(second))
	maps.Copy(all, first)
	maps.Copy(all, second)
	return all
}

func kind(version, name string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: version, Kind: name}
}

// owned is the metadata of an object that goes with the resource.
func owned(in Input, name string, labels map[string]string) metav1.ObjectMeta {
	return metav1.ObjectMeta{
		Name: name, Namespace: in.Cluster.Namespace, Labels: labels,
		OwnerReferences: []metav1.OwnerReference{owner(in.Cluster)},
	}
}

// kept is the metadata of an object that holds what was stored, or where: it goes with the resource only if its
// user said so, and says whose it is when the resource is gone.
func kept(in Input, name string, labels map[string]string) metav1.ObjectMeta {
	meta := metav1.ObjectMeta{
		Name: name, Namespace: in.Cluster.Namespace, Labels: labels,
		Annotations: map[string]string{ClusterIDAnnotation: in.ClusterID},
	}
	if !Retained(in.Cluster) || in.Unfounded {
		meta.OwnerReferences = []metav1.OwnerReference{owner(in.Cluster)}
	}
	return meta
}

// owner refers to the resource as the controller, of which an object can have one: two clusters whose names make
// the same object's name can't take it from each other. It does not block the owner's deletion, for which the
// operator would have to be allowed to write finalizers.
func owner(cluster *v1alpha1.GeoRegisterCluster) metav1.OwnerReference {
	return metav1.OwnerReference{
		APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: cluster.Name, UID: cluster.UID,
		Controller: new(true),
	}
}

// serviceAccount is the identity of the members, which never talk to the apiserver.
func serviceAccount(in Input) *corev1.ServiceAccount {
	return &corev1.ServiceAccount{
		TypeMeta:                     kind("v1", "ServiceAccount"),
		ObjectMeta:                   owned(in, MembersName(in.Cluster.Name), Labels(in.Cluster.Name)),
		AutomountServiceAccountToken: new(false),
	}
}
