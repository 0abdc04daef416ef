//go:build chart

package chart

import (
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/georegister/georegister/config/chaos"
)

// A real apiserver with Chaos Mesh's CRDs takes every experiment, without a field that it does not know, in a namespace
// that restricts pods; and it takes them as the plugin and `kubectl apply --server-side` send them.
func TestTheApiserverTakesChaos(t *testing.T) {
	environment := &envtest.Environment{
		BinaryAssetsDirectory: tool(t, "KUBEBUILDER_ASSETS"),
		CRDDirectoryPaths:     []string{tool(t, "CHAOS_CRDS")}, ErrorIfCRDPathMissing: true,
	}
	config, err := environment.Start()
	if err != nil {
		t.Fatalf("start a control plane: %v", err)
	}
	t.Cleanup(func() {
		if err := environment.Stop(); err != nil {
			t.Error(err)
		}
	})
	api, err := client.New(config, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range chaosCases(t) { // order is irrelevant: each has a namespace of its own
		if p.Namespace != metav1.NamespaceDefault {
			if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
				Name: p.Namespace, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
			}}); err != nil {
				t.Fatal(err)
			}
		}
		all := chaosOfThePlugin(t, p)
		for _, key := range slices.Sorted(maps.Keys(all)) {
			if err := create(t, api, all[key]); err != nil {
				t.Errorf("%s: %v", key, err)
			}
		}
		if err := create(t, api, podOf(t, all["Job/"+p.Cluster+"-verify"], p.Namespace)); err != nil {
			t.Errorf("the verification's pod: %v", err)
		}
		repeated, err := chaos.Repeated("partition-site", "5m", p)
		if err != nil {
			t.Fatal(err)
		}
		owner := client.FieldOwner("test")
		if err := api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(repeated), owner,
			client.ForceOwnership); err != nil {
			t.Errorf("apply a repeated experiment: %v", err)
		}
	}
}

// podOf is the pod that a Job makes.
func podOf(t *testing.T, job *unstructured.Unstructured, namespace string) *unstructured.Unstructured {
	t.Helper()
	spec, found, err := unstructured.NestedMap(job.Object, "spec", "template", "spec")
	if err != nil || !found {
		t.Fatalf("the Job has no template: %v", err)
	}
	pod := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Pod", "spec": spec}}
	pod.SetName("verify")
	pod.SetNamespace(namespace)
	return pod
}
