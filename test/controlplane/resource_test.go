//go:build controlplane

package controlplane

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
)

// protect installs the admission policies, and waits until the apiserver acts by all of them: nothing that is protected
// can be deleted.
func protect(t *testing.T, api client.Client, protected ...client.Object) {
	t.Helper()
	files, err := filepath.Glob(policies)
	if err != nil || len(files) != 3 {
		t.Fatalf("the policies are %v, %v", files, err)
	}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for document := range strings.SplitSeq(string(data), "\n---\n") {
			o := &unstructured.Unstructured{}
			if err := yaml.Unmarshal([]byte(document), &o.Object); err != nil {
				t.Fatal(err)
			}
			if err := client.IgnoreAlreadyExists(api.Create(t.Context(), o)); err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := client.IgnoreNotFound(api.Delete(context.WithoutCancel(t.Context()), o)); err != nil {
					t.Error(err)
				}
			})
		}
	}
	for _, o := range protected {
		eventually(t, "the policies are in force", func() string {
			if err := api.Delete(t.Context(), o, client.DryRunAll); err != nil {
				return ""
			}
			return fmt.Sprintf("%T %s could be deleted", o, o.GetName())
		})
	}
}

func TestDeletionProtection(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	const sites = "protocol: ABD\nsites: [{name: a, members: 3}]\n"
	o := example{Manifest: "metadata: {name: treasure}"}.object(t, namespace)
	o.Object["spec"] = spec(t, sites+"deletionProtection: true")
	other := example{Manifest: "metadata: {name: other}"}.object(t, namespace)
	other.Object["spec"] = spec(t, sites)
	for _, each := range []client.Object{o, other} {
		if err := api.Create(t.Context(), each); err != nil {
			t.Fatal(err)
		}
	}
	home := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	elsewhere := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: newNamespace(t, api)}}
	kind := &unstructured.Unstructured{}
	kind.SetAPIVersion("apiextensions.k8s.io/v1")
	kind.SetKind("CustomResourceDefinition")
	kind.SetName("georegisterclusters.georegister.io")
	protect(t, api, o, home, kind)

	refused(t, api.Delete(t.Context(), home, client.DryRunAll),
		"treasure in this namespace is protected: set its spec.deletionProtection to false")
	refused(t, api.Delete(t.Context(), elsewhere, client.DryRunAll), "")
	refused(t, api.Delete(t.Context(), kind, client.DryRunAll),
		"every GeoRegisterCluster goes with this CRD, protected or not")
	allow := func(allowed any) {
		t.Helper()
		patch, err := json.Marshal(
			map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"georegister.io/deletion": allowed}},
			})
		if err != nil {
			t.Fatal(err)
		}
		refused(t, api.Patch(t.Context(), kind, client.RawPatch(types.MergePatchType, patch)), "")
	}
	allow("allowed")
	refused(t, api.Delete(t.Context(), kind, client.DryRunAll), "")
	allow(nil)
	refused(t, api.Delete(t.Context(), o),
		"treasure is protected: set spec.deletionProtection to false, then delete it")
	refused(t, api.DeleteAllOf(t.Context(), o, client.InNamespace(namespace)), "treasure is protected")
	refused(t, client.IgnoreNotFound(api.Delete(t.Context(), other)), "") // DeleteAllOf may have got to it
	o.Object["spec"] = spec(t, sites+"deletionProtection: false")
	refused(t, api.Update(t.Context(), o), "")
	eventually(t, "the namespace may go", func() string {
		if err := api.Delete(t.Context(), home, client.DryRunAll); err != nil {
			return err.Error()
		}
		return ""
	})
	refused(t, api.Delete(t.Context(), o), "")
}

// What `kubectl get grc` shows, and that the status can be written by way of its subresource alone.
func TestColumns(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	o := example{Manifest: "metadata: {name: shown}"}.object(t, namespace)
	o.Object["spec"] = spec(t, "protocol: ABD\nsites: [{name: a, members: 3}]")
	o.Object["status"] = map[string]any{"ready": "9/9"}
	if err := api.Create(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	names, cells := table(t, namespace)
	want := []string{"Name", "Protocol", "State", "Reason", "Sites", "Ready", "Quorum", "Change", "Age", "Message"}
	if !slices.Equal(names, want) {
		t.Errorf("columns %v, want %v", names, want)
	}
	if cells[2] != "Unknown" || cells[5] != nil {
		t.Errorf("the status of what nobody has looked at: %v", cells)
	}
	o.Object["status"] = map[string]any{"state": "Degraded", "sitesReady": "1/1", "ready": "2/3", "quorum": "2/2"}
	if err := api.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, cells = table(t, namespace); !slices.Equal(cells[:7],
		[]any{"shown", "ABD", "Degraded", nil, "1/1", "2/3", "2/2"}) {
		t.Errorf("cells %v", cells)
	}
}

func TestNamesOfTheResource(t *testing.T) {
	list, err := reader(t).ServerResourcesForGroupVersion(v1alpha1.APIVersion)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == "georegisterclusters" })
	if i < 0 {
		t.Fatalf("no such resource in %+v", list)
	}
	r := list.APIResources[i]
	if !slices.Equal(r.ShortNames, []string{"grc"}) || !slices.Equal(r.Categories, []string{"all", "georegister"}) ||
		r.Kind != v1alpha1.Kind || !r.Namespaced {
		t.Errorf("%+v", r)
	}
}

// table is the header and the only row that kubectl prints for the clusters of a namespace.
func table(t *testing.T, namespace string) ([]string, []any) {
	t.Helper()
	body, err := reader(t).RESTClient().Get().
		AbsPath("apis", v1alpha1.APIVersion, "namespaces", namespace, "georegisterclusters").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").DoRaw(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var shown metav1.Table
	if err := json.Unmarshal(body, &shown); err != nil {
		t.Fatal(err)
	}
	if len(shown.Rows) != 1 {
		t.Fatalf("%d rows", len(shown.Rows))
	}
	var names []string
	for _, column := range shown.ColumnDefinitions {
		names = append(names, column.Name)
	}
	return names, shown.Rows[0].Cells
}

func reader(t *testing.T) *discovery.DiscoveryClient {
	t.Helper()
	d, err := discovery.NewDiscoveryClientForConfig(environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
