package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of the resource.
var GroupVersion = schema.GroupVersion{Group: "georegister.io", Version: "v1alpha1"}

// AddToScheme makes the kinds of this package known to a scheme, under GroupVersion.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &GeoRegisterCluster{}, &GeoRegisterClusterList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
