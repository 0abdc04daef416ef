package build

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
)

// What an object says of itself decides whose it is; a label says nothing, since anybody gives labels.
func TestWhoseAnObjectIs(t *testing.T) {
	yes, no := true, false
	cluster := &v1alpha1.GeoRegisterCluster{ObjectMeta: metav1.ObjectMeta{Name: "shop", UID: "mine"}}
	for name, test := range map[string]struct {
		owner        *metav1.OwnerReference
		notes        map[string]string
		id           string
		owns, claims bool
	}{
		"nobody's":                         {},
		"nobody's, of a kind that is kept": {id: "shop.1"},
		"this resource's": {
			owner: &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop", UID: "mine", Controller: &yes},
			owns:  true, claims: true,
		},
		"not its controller": {
			owner: &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop", UID: "mine", Controller: &no},
		},
		"without saying so": {
			owner: &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop", UID: "mine"},
		},
		"a former resource's of the name": {
			owner:  &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop", UID: "former", Controller: &yes},
			claims: true,
		},
		"another cluster's": {
			owner: &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop-eu", UID: "other", Controller: &yes},
		},
		"a workload's of the name": {
			owner: &metav1.OwnerReference{Kind: "Deployment", Name: "shop", UID: "web", Controller: &yes},
		},
		"kept by this cluster": {
			notes: map[string]string{ClusterIDAnnotation: "shop.1"}, id: "shop.1", owns: true, claims: true,
		},
		"kept by a former one": {
			notes: map[string]string{ClusterIDAnnotation: "shop.2"}, id: "shop.1", claims: true,
		},
		"kept by another one":        {notes: map[string]string{ClusterIDAnnotation: "shop-eu.1"}, id: "shop.1"},
		"of a kind that is not kept": {notes: map[string]string{ClusterIDAnnotation: "shop.1"}, claims: true},
		"given to this one":          {notes: map[string]string{AdoptAnnotation: "shop"}, owns: true, claims: true},
		"given to another one":       {notes: map[string]string{AdoptAnnotation: "shop-eu"}},
		"kept by another one, and given to this one": {
			notes: map[string]string{AdoptAnnotation: "shop", ClusterIDAnnotation: "shop-eu.1"}, id: "shop.1",
		},
		"kept by a former one, and given to this one": {
			notes: map[string]string{AdoptAnnotation: "shop", ClusterIDAnnotation: "shop.2"},
			id:    "shop.1", claims: true,
		},
		"another's, and given to this one": {
			owner: &metav1.OwnerReference{Kind: v1alpha1.Kind, Name: "shop-eu", UID: "other", Controller: &yes},
			notes: map[string]string{AdoptAnnotation: "shop", ClusterIDAnnotation: "shop.1"}, id: "shop.1",
		},
	} {
		object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Annotations: test.notes, Labels: Labels("shop")}}
		if test.owner != nil {
			object.OwnerReferences = []metav1.OwnerReference{*test.owner}
		}
		if owns, claims := Owns(cluster, object, test.id), Claims(cluster, object); owns != test.owns ||
			claims != test.claims {
			t.Errorf("%s: owns %t, claims %t; want %t, %t", name, owns, claims, test.owns, test.claims)
		}
		if Whose(object) == "" {
			t.Errorf("%s: nobody says whose it is", name)
		}
	}
}
