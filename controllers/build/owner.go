package build

import (
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

// AdoptAnnotation on an object that no controller owns, with the name of a cluster, gives the object to that cluster,
// unless it says that it holds what another cluster stored: that one may live.
const AdoptAnnotation = "georegister.io/adopt"

// Owns reports whether an object is a cluster's: the resource controls it, or no one does and it has the cluster's ID,
// as what is kept beyond the resource's life has, or it has none and was given to the cluster.
func Owns(cluster *v1alpha1.GeoRegisterCluster, object metav1.Object, id string) bool {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return controller.UID == cluster.UID
	}
	if stored := object.GetAnnotations()[ClusterIDAnnotation]; stored != "" {
		return stored == id
	}
	return object.GetAnnotations()[AdoptAnnotation] == cluster.Name
}

// Claims reports whether an object says that it is of the cluster of this name: this resource's or, whose ID is not
// known before it was looked at, that of a former one. A controller of that name that is gone takes it along: it is
// waited for.
func Claims(cluster *v1alpha1.GeoRegisterCluster, object metav1.Object) bool {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return controller.UID == cluster.UID || controller.Kind == v1alpha1.Kind && controller.Name == cluster.Name
	}
	if stored := object.GetAnnotations()[ClusterIDAnnotation]; stored != "" {
		return strings.HasPrefix(stored, cluster.Name+".")
	}
	return object.GetAnnotations()[AdoptAnnotation] == cluster.Name
}

// Whose says for people who controls an object that is not a cluster's.
func Whose(object metav1.Object) string {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return controller.Kind + " " + controller.Name + " controls it"
	}
	if id := object.GetAnnotations()[ClusterIDAnnotation]; id != "" {
		return "it holds what cluster " + id + " stored"
	}
	return "no cluster controls it"
}
