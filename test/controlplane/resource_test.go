//go:build controlplane

package controlplane

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
)

// protect installs the admission policy and waits until the apiserver acts by it.
func protect(t *testing.T, api client.Client, protected client.Object) {
	t.Helper()
	data, err := os.ReadFile(policy)
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
	eventually(t, "the policy is in force", func() string {
		if err := api.Delete(t.Context(), protected, client.DryRunAll); err != nil {
			return ""
		}
		return "a protected cluster could be deleted"
	})
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
	protect(t, api, o)

	refused(t, api.Delete(t.Context(), o), "treasure is protected: set spec.deletionProtection to false, then delete it")
	refused(t, api.DeleteAllOf(t.Context(), o, client.InNamespace(namespace)), "treasure is protected")
	refused(t, client.IgnoreNotFound(api.Delete(t.Context(), other)), "") // DeleteAllOf may have got to it
	o.Object["spec"] = spec(t, sites+"deletionProtection: false")
	refused(t, api.Update(t.Context(), o), "")
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
	if want := []string{"Name", "Protocol", "Sites", "Ready", "Quorum", "Change", "Age"}; !slices.Equal(names, want) {
		t.Errorf("columns %v, want %v", names, want)
	}
	if cells[3] != nil {
		t.Errorf("a status was taken at creation: %v", cells[3])
	}
	o.Object["status"] = map[string]any{"sitesReady": "1/1", "ready": "2/3", "quorum": "2/2"}
	if err := api.Status().Update(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if _, cells = table(t, namespace); !slices.Equal(cells[:5], []any{"shown", "ABD", "1/1", "2/3", "2/2"}) {
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
