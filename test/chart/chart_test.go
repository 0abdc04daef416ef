//go:build chart

package chart

import (
	"bytes"
	"maps"
	"os"
	"os/exec"
	"reflect"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// tool is a program that `make test-chart` has built.
func tool(t *testing.T, variable string) string {
	t.Helper()
	path := os.Getenv(variable)
	if path == "" {
		t.Fatalf("%s names no program; run `make test-chart`", variable)
	}
	return path
}

// objects splits what a program prints into objects by kind/name.
func objects(t *testing.T, program string, args ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	text, err := output(program, args...)
	if err != nil {
		t.Fatalf("%s: %v", strings.Join(args, " "), err)
	}
	all := map[string]*unstructured.Unstructured{}
	for document := range strings.SplitSeq("\n"+text, "\n---\n") {
		object := &unstructured.Unstructured{}
		if err := yaml.UnmarshalStrict([]byte(document), &object.Object); err != nil {
			t.Fatalf("%v in:\n%s", err, document)
		}
		if len(object.Object) == 0 {
			continue
		}
		key := object.GetKind() + "/" + object.GetName()
		if object.GetKind() == "Role" || object.GetKind() == "RoleBinding" {
			key += "@" + object.GetNamespace()
		}
		if all[key] != nil {
			t.Fatalf("%s is rendered twice", key)
		}
		all[key] = object
	}
	return all
}

func output(program string, args ...string) (string, error) {
	var out, problems bytes.Buffer
	command := exec.Command(program, args...)
	command.Stdout, command.Stderr = &out, &problems
	if err := command.Run(); err != nil {
		return "", &failure{err, problems.String()}
	}
	return out.String(), nil
}

type failure struct {
	err  error
	text string
}

func (f *failure) Error() string { return f.err.Error() + ": " + f.text }

func template(t *testing.T, values ...string) map[string]*unstructured.Unstructured {
	t.Helper()
	args := []string{"template", "r", "../../charts/georegister", "--namespace", "home"}
	for _, v := range values {
		args = append(args, "--set", v)
	}
	return objects(t, tool(t, "HELM"), args...)
}

// The objects of the default values; the value sets below say what they add and leave out.
var usual = []string{
	"ClusterRole/r-georegister-home-nodes", "ClusterRoleBinding/r-georegister-home-nodes",
	"CustomResourceDefinition/georegisterclusters.georegister.io", "Deployment/r-georegister",
	"NetworkPolicy/r-georegister", "Pod/r-georegister-test", "PodDisruptionBudget/r-georegister",
	"Role/r-georegister-leader-election@home", "Role/r-georegister-test@home", "Role/r-georegister@home",
	"RoleBinding/r-georegister-leader-election@home", "RoleBinding/r-georegister-test@home",
	"RoleBinding/r-georegister@home",
	"ServiceAccount/r-georegister", "ServiceAccount/r-georegister-test",
}

func TestValueSets(t *testing.T) {
	tests := []struct {
		name           string
		values         []string
		added, without []string
		namespaces     string
	}{
		{name: "defaults", namespaces: "home"},
		{
			name: "several namespaces", values: []string{"watchNamespaces={b,a,b}"}, namespaces: "a,b",
			added: []string{
				"Role/r-georegister@a", "Role/r-georegister@b", "RoleBinding/r-georegister@a",
				"RoleBinding/r-georegister@b",
			},
			without: []string{"Role/r-georegister@home", "RoleBinding/r-georegister@home"},
		},
		{
			name: "cluster-wide", values: []string{"clusterWide=true"}, namespaces: "*",
			added:   []string{"ClusterRole/r-georegister", "ClusterRoleBinding/r-georegister"},
			without: []string{"Role/r-georegister@home", "RoleBinding/r-georegister@home"},
		},
		{
			name: "a further release", namespaces: "home",
			values: []string{"crds.install=false", "admission.install=false", "nodes.read=false"},
			without: []string{
				"CustomResourceDefinition/", "ClusterRole/", "ClusterRoleBinding/", "ValidatingAdmission",
			},
		},
		{
			name: "monitored, alone, open", namespaces: "home",
			values:  []string{"metrics.serviceMonitor.enabled=true", "replicas=1", "networkPolicy.enabled=false"},
			added:   []string{"Service/r-georegister-metrics", "ServiceMonitor/r-georegister"},
			without: []string{"PodDisruptionBudget/", "NetworkPolicy/"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got := template(t, tt.values...)
			want := slices.DeleteFunc(slices.Concat(usual, tt.added), func(s string) bool {
				return slices.ContainsFunc(tt.without, func(w string) bool { return strings.HasPrefix(s, w) })
			})
			slices.Sort(want)
			found := slices.DeleteFunc(slices.Sorted(maps.Keys(got)), func(s string) bool {
				policy := strings.HasPrefix(s, "ValidatingAdmissionPolicy")
				return policy && !slices.Contains(tt.without, "ValidatingAdmission")
			})
			if !slices.Equal(found, want) {
				t.Errorf("got\n%s\nwant\n%s", strings.Join(found, "\n"), strings.Join(want, "\n"))
			}
			args := deployment(t, got["Deployment/r-georegister"]).Spec.Template.Spec.Containers[0].Args
			if !slices.Contains(args, "--namespaces="+tt.namespaces) {
				t.Errorf("the operator is started with %q, not --namespaces=%s", args, tt.namespaces)
			}
		})
	}
}

func TestTheCRDOutlivesTheRelease(t *testing.T) {
	crd := template(t)["CustomResourceDefinition/georegisterclusters.georegister.io"]
	if got := crd.GetAnnotations()["helm.sh/resource-policy"]; got != "keep" {
		t.Errorf("helm.sh/resource-policy of the CRD is %q: uninstalling would delete every cluster", got)
	}
	if crd.GetAnnotations()["controller-gen.kubebuilder.io/version"] == "" {
		t.Error("the CRD has lost the annotations that it was generated with")
	}
}

func TestWrongValuesAreRefused(t *testing.T) {
	for value, want := range map[string]string{ // order is irrelevant: each is tried for itself
		"replica=3":                            "additional properties 'replica'",
		"image.pullPolicy=Sometimes":           "/image/pullPolicy",
		"replicas=-1":                          "/replicas",
		"logLevel=loud":                        "/logLevel",
		"lostAfter=soon":                       "/lostAfter",
		"watchNamespaces={Upper}":              "/watchNamespaces/0",
		"watchNamespaces=a":                    "/watchNamespaces",
		"metrics.port=1":                       "additional properties 'port'",
		`podLabels.app\.kubernetes\.io/name=x`: "invalid propertyName",
		"crds.install=perhaps":                 "/crds/install",
	} {
		_, err := output(tool(t, "HELM"), "template", "r", "../../charts/georegister", "--set", value)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v; want an error with %s", value, err, want)
		}
	}
	_, err := output(tool(t, "HELM"), "template", "r", "../../charts/georegister", "--set",
		"clusterWide=true,watchNamespaces={a}")
	if err == nil || !strings.Contains(err.Error(), "leave watchNamespaces empty") {
		t.Errorf("clusterWide with watchNamespaces: %v", err)
	}
}

func TestChartPassesLint(t *testing.T) {
	if _, err := output(tool(t, "HELM"), "lint", "--strict", "../../charts/georegister"); err != nil {
		t.Error(err)
	}
}

// Both ways to install give the same operator, apart from names, the labels of a release and the namespaces.
func TestChartAndKustomizeAgree(t *testing.T) {
	for _, tt := range []struct {
		base   string
		values []string
	}{{"default", nil}, {"cluster-wide", []string{"clusterWide=true"}}} {
		t.Run(tt.base, func(t *testing.T) {
			chart := template(t, tt.values...)
			bases := objects(t, tool(t, "KUSTOMIZE"), "build", "../../config/"+tt.base)
			a := essence(deployment(t, chart["Deployment/r-georegister"]))
			b := essence(deployment(t, bases["Deployment/georegister-operator"]))
			if !reflect.DeepEqual(a, b) {
				x, _ := yaml.Marshal(a)
				y, _ := yaml.Marshal(b)
				t.Errorf("the chart's Deployment:\n%s\nthe bases':\n%s", x, y)
			}
			own := "Role/r-georegister@home"
			if tt.base == "cluster-wide" {
				own = "ClusterRole/r-georegister"
			}
			for ours, theirs := range map[string]string{ // order is irrelevant: each is compared for itself
				own:                                    "ClusterRole/georegister-operator",
				"ClusterRole/r-georegister-home-nodes": "ClusterRole/georegister-operator-nodes",
				"Role/r-georegister-leader-election@home": "Role/georegister-operator-leader-election@georegister",
			} {
				if a, b := rules(t, chart[ours]), rules(t, bases[theirs]); !reflect.DeepEqual(a, b) {
					t.Errorf("%s: %v\n%s: %v", ours, a, theirs, b)
				}
			}
			binding := "RoleBinding/georegister-operator@georegister"
			if tt.base == "cluster-wide" {
				binding = "ClusterRoleBinding/georegister-operator"
			}
			for _, want := range []string{binding, "ClusterRoleBinding/georegister-operator-nodes",
				"NetworkPolicy/georegister-operator",
				"CustomResourceDefinition/georegisterclusters.georegister.io"} {
				if bases[want] == nil {
					t.Errorf("config/%s lacks %s", tt.base, want)
				}
			}
		})
	}
}

// essence leaves out of a Deployment what differs between releases.
func essence(d appsv1.Deployment) appsv1.DeploymentSpec {
	d.Spec.Selector = nil
	d.Spec.Template.Labels = nil
	pod := &d.Spec.Template.Spec
	pod.ServiceAccountName = ""
	for i := range pod.TopologySpreadConstraints {
		pod.TopologySpreadConstraints[i].LabelSelector = nil
	}
	args := pod.Containers[0].Args
	for i := range args {
		if args[i] == "--namespaces=home" || args[i] == "--namespaces=$(POD_NAMESPACE)" {
			args[i] = "--namespaces=OWN"
		}
	}
	return d.Spec
}

func deployment(t *testing.T, object *unstructured.Unstructured) (d appsv1.Deployment) {
	t.Helper()
	convert(t, object, &d)
	return d
}

func rules(t *testing.T, object *unstructured.Unstructured) []rbacv1.PolicyRule {
	t.Helper()
	var role rbacv1.Role
	convert(t, object, &role)
	if len(role.Rules) == 0 {
		t.Errorf("%s has no rules", object.GetName())
	}
	return role.Rules
}

// convert refuses fields that the kind does not have.
func convert(t *testing.T, object *unstructured.Unstructured, into any) {
	t.Helper()
	if object == nil {
		t.Fatal("an object is missing")
	}
	err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(object.Object, into, true)
	if err != nil {
		t.Fatalf("%s %s: %v", object.GetKind(), object.GetName(), err)
	}
}
