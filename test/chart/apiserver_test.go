//go:build chart

package chart

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"
)

// A real apiserver takes everything that installs the operator, and the samples, without a field that it does not know.
func TestTheApiserverTakesAll(t *testing.T) {
	environment := &envtest.Environment{BinaryAssetsDirectory: tool(t, "KUBEBUILDER_ASSETS")}
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
	chart := template(t, "watchNamespaces={home,default}", "lostAfter=10m")
	bases := objects(t, tool(t, "KUSTOMIZE"), "build", "../../config/default")
	for _, name := range []string{"home", "georegister"} {
		if err := api.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
			Name: name, Labels: map[string]string{"pod-security.kubernetes.io/enforce": "restricted"},
		}}); err != nil {
			t.Fatal(err)
		}
	}
	const crd = "CustomResourceDefinition/georegisterclusters.georegister.io"
	if err := api.Create(t.Context(), chart[crd].DeepCopy()); err != nil {
		t.Fatalf("the CRD: %v", err)
	}
	delete(bases, "Namespace/georegister") // is there
	delete(bases, crd)
	delete(chart, crd)
	dryRun(t, api, chart)
	dryRun(t, api, bases)
	samples(t, api)
	protects(t, api, chart)
}

// samples are taken once the new kind is served, a moment after the CRD was taken.
func samples(t *testing.T, api client.Client) {
	t.Helper()
	files, err := os.ReadDir("../../config/samples")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if file.Name() == "kustomization.yaml" {
			continue
		}
		if problem := until(t, func() error { return create(t, api, sample(t, file.Name())) }); problem != nil {
			t.Errorf("%s: %v", file.Name(), problem)
		}
	}
}

// protects checks that the chart's policy refuses to delete a protected cluster, and no other.
func protects(t *testing.T, api client.Client, chart map[string]*unstructured.Unstructured) {
	t.Helper()
	for key, object := range chart { // order is irrelevant: the policies take effect together
		if strings.HasPrefix(key, "ValidatingAdmissionPolicy") {
			if err := api.Create(t.Context(), object.DeepCopy()); err != nil {
				t.Fatalf("%s: %v", key, err)
			}
		}
	}
	cluster := sample(t, "gryff-three-zones.yaml")
	if err := unstructured.SetNestedField(cluster.Object, true, "spec", "deletionProtection"); err != nil {
		t.Fatal(err)
	}
	if err := api.Create(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	refusal := until(t, func() error {
		if err := api.Delete(t.Context(), cluster, client.DryRunAll); err == nil ||
			!strings.Contains(err.Error(), "three-zones is protected") {
			return fmt.Errorf("the deletion of a protected cluster: %v", err)
		}
		return nil
	})
	if refusal != nil {
		t.Error(refusal)
	}
	if err := unstructured.SetNestedField(cluster.Object, false, "spec", "deletionProtection"); err != nil {
		t.Fatal(err)
	}
	if err := api.Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	if err := api.Delete(t.Context(), cluster); err != nil {
		t.Errorf("the deletion of a cluster that is not protected any more: %v", err)
	}
}

// until tries until there is no problem, for some seconds; it returns the last one.
func until(t *testing.T, try func() error) (problem error) {
	t.Helper()
	for range 200 {
		if problem = try(); problem == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond) // between two tries
	}
	return problem
}

func sample(t *testing.T, file string) *unstructured.Unstructured {
	t.Helper()
	all := objects(t, "cat", "../../config/samples/"+file)
	if len(all) != 1 {
		t.Fatalf("%s has %d objects", file, len(all))
	}
	object := slices.Collect(maps.Values(all))[0]
	object.SetNamespace("default")
	return object
}

// dryRun has the apiserver judge objects without keeping them.
func dryRun(t *testing.T, api client.Client, all map[string]*unstructured.Unstructured) {
	t.Helper()
	for _, key := range slices.Sorted(maps.Keys(all)) {
		if err := create(t, api, all[key]); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
}

func create(t *testing.T, api client.Client, object *unstructured.Unstructured) error {
	object = object.DeepCopy()
	// Pods want their ServiceAccount, which a dry run does not leave behind.
	if object.GetKind() == "Pod" {
		unstructured.RemoveNestedField(object.Object, "spec", "serviceAccountName")
		err := unstructured.SetNestedField(object.Object, false, "spec", "automountServiceAccountToken")
		if err != nil {
			t.Fatal(err)
		}
	}
	return api.Create(t.Context(), object, client.DryRunAll, client.FieldValidation("Strict"))
}
