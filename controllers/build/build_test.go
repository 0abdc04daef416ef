package build

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

var update = flag.Bool("update", false, "write the golden files")

// load reads a resource and makes the input of its founding.
func load(t testing.TB, name string) Input {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster := &v1alpha1.GeoRegisterCluster{}
	if err := yaml.UnmarshalStrict(text, cluster); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	settings := world.Settings{
		DefaultImage: "georegister:default", ClusterDomain: "cluster.local", Namespace: "georegister-system",
	}
	in := Input{
		Cluster: cluster, ClusterID: cluster.Name + ".7f3a9c21",
		Image: Image(cluster, "", settings), Settings: settings,
		Monitoring: world.MonitoringKinds{PodMonitor: true, PrometheusRule: true},
	}
	in.View = view.View{Cluster: in.ClusterID, Epoch: 1, Members: firstMembers(cluster, settings)}
	var besides []view.Witness
	for i := range in.View.Members {
		m := &in.View.Members[i]
		m.Disk = fmt.Sprintf("%016x", i+1)
		besides = append(besides,
			view.Witness{ID: membership.WitnessOf(m.ID), Site: m.Site, Address: WitnessAddress(cluster, settings, *m),
				Disk: fmt.Sprintf("%016x", 101+i), Beside: m.ID})
	}
	if cluster.Spec.Dedicated() {
		besides = nil
		for i, id := range membership.DedicatedIDs(0, len(cluster.Spec.Sites)) {
			w := view.Witness{ID: id, Site: cluster.Spec.Sites[i].Name, Disk: fmt.Sprintf("%016x", 101+i)}
			w.Address = DedicatedAddress(cluster, settings, w)
			besides = append(besides, w)
		}
	}
	if cluster.Spec.Partitioned() {
		placed, err := membership.Place(in.View, besides, membership.Placement{
			Partitions: cluster.Spec.ShardCount(), Faults: cluster.Spec.Faults(), Dedicated: cluster.Spec.Dedicated(),
		})
		if err != nil {
			t.Fatal(err)
		}
		in.View = placed
	}
	return in
}

// all are all objects of a cluster.
func all(in Input) []client.Object {
	objects := append(Objects(in), Record(in))
	for _, m := range in.View.Members {
		objects = append(objects, Member(in, m)...)
	}
	for _, w := range in.View.Witnesses {
		if w.Beside == 0 {
			objects = append(objects, Dedicated(in, w)...)
		}
	}
	return objects
}

// written is objects as YAML, without what only the apiserver writes.
func written(t testing.TB, objects []client.Object) []byte {
	t.Helper()
	var text bytes.Buffer
	for _, o := range objects {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		unstructured.RemoveNestedField(content, "status")
		one, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(&text, "---\n%s", one)
	}
	return text.Bytes()
}

func TestGolden(t *testing.T) {
	for _, name := range []string{"minimal", "full", "curp", "dedicated", "sessions"} {
		in := load(t, name)
		files := map[string][]client.Object{
			"shared": Objects(in), "member": Member(in, in.View.Members[0]), "record": {Record(in)},
		}
		if in.Cluster.Spec.Dedicated() {
			files["witness"] = Dedicated(in, in.View.Witnesses[0])
		}
		for file, objects := range files { // order is irrelevant: each is a file
			path := "testdata/" + name + "." + file + ".golden.yaml"
			got := written(t, objects)
			if *update {
				if err := os.WriteFile(path, got, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got, want) {
				t.Errorf("%s is not what is built now; compare with: go test ./controllers/build -run Golden -update "+
					"&& git diff\n%s", path, got)
			}
		}
	}
}

func TestTheSameInputMakesTheSameObjects(t *testing.T) {
	for _, name := range []string{"minimal", "full", "curp", "dedicated"} {
		want := written(t, all(load(t, name)))
		for range 20 {
			in := load(t, name)
			before := written(t, []client.Object{in.Cluster})
			if got := written(t, all(in)); !bytes.Equal(got, want) {
				t.Fatalf("%s: objects differ between two runs", name)
			}
			if !bytes.Equal(written(t, []client.Object{in.Cluster}), before) {
				t.Fatalf("%s: the resource was changed", name)
			}
		}
	}
}

// An apply must not share memory with the resource, which is in a cache.
func TestObjectsAreCopies(t *testing.T) {
	in := load(t, "full")
	before := written(t, []client.Object{in.Cluster})
	s := statefulSet(in, in.View.Members[0])
	pod := &s.Spec.Template
	pod.Annotations["example.com/team"] = "changed"
	resources := pod.Spec.Containers[0].Resources
	resources.Limits[corev1.ResourceMemory] = resources.Requests[corev1.ResourceCPU]
	pod.Spec.Containers[0].Env[0].Value = "changed"
	pod.Spec.Tolerations[0].Key = "changed"
	pod.Spec.Affinity.PodAntiAffinity = nil
	*Member(in, in.View.Members[0])[0].(*corev1.PersistentVolumeClaim).Spec.StorageClassName = "changed"
	if got := written(t, []client.Object{in.Cluster}); !bytes.Equal(got, before) {
		t.Errorf("the resource changed with its objects:\n%s", got)
	}
}

func TestEveryObjectIsOfTheCluster(t *testing.T) {
	for _, name := range []string{"minimal", "full", "curp", "dedicated"} {
		in := load(t, name)
		seen := map[string]bool{}
		for _, o := range all(in) {
			kind := o.GetObjectKind().GroupVersionKind()
			which := kind.Kind + " " + o.GetName()
			if kind.Version == "" || seen[which] {
				t.Errorf("%s: has no version, or is there twice", which)
			}
			seen[which] = true
			if o.GetNamespace() != in.Cluster.Namespace {
				t.Errorf("%s is in namespace %q", which, o.GetNamespace())
			}
			want := Labels(in.Cluster.Name)
			for key, value := range want { // order is irrelevant: each is checked
				if o.GetLabels()[key] != value {
					t.Errorf("%s: label %s is %q, want %q", which, key, o.GetLabels()[key], value)
				}
			}
		}
	}
}

// What is stored goes with the resource only when its user said so; all else always does.
func TestOwners(t *testing.T) {
	for _, c := range []struct {
		durability v1alpha1.Durability
		retention  v1alpha1.Retention
		kept       bool
	}{
		{"", "", true}, {v1alpha1.Sync, v1alpha1.Retain, true}, {v1alpha1.Interval, "", true},
		{v1alpha1.Sync, v1alpha1.Delete, false}, {v1alpha1.Memory, v1alpha1.Retain, false},
	} {
		in := load(t, "minimal")
		in.Cluster.Spec.Storage.Durability, in.Cluster.Spec.Storage.Retention = c.durability, c.retention
		for _, o := range all(in) {
			stores := o.GetName() == RecordName(in.Cluster.Name) || strings.HasPrefix(o.GetName(), "data-")
			if stores && o.GetAnnotations()[ClusterIDAnnotation] != in.ClusterID {
				t.Errorf("%s does not say whose it is", o.GetName())
			}
			owners := o.GetOwnerReferences()
			if stores && c.kept {
				if len(owners) != 0 {
					t.Errorf("%+v: %s has an owner", c, o.GetName())
				}
				continue
			}
			if len(owners) != 1 || owners[0].UID != in.Cluster.UID || owners[0].Controller == nil ||
				!*owners[0].Controller {
				t.Errorf("%+v: %s has owners %v", c, o.GetName(), owners)
			}
		}
	}
}

func TestSelectorsIncludeTheCluster(t *testing.T) {
	in := load(t, "full")
	for _, o := range all(in) {
		content, err := runtime.DefaultUnstructuredConverter.ToUnstructured(o)
		if err != nil {
			t.Fatal(err)
		}
		delete(content, "status")
		found := 0
		selectors(content, func(path string, labels map[string]any) {
			found++
			if !strings.Contains(path, "namespaceSelector") && labels[ClusterLabel] != in.Cluster.Name &&
				labels[NameLabel] != OperatorName {
				t.Errorf("%s %s: %s selects pods of other clusters: %v", content["kind"], o.GetName(), path, labels)
			}
		})
		if slices.Contains([]string{"Service", "PodMonitor", "NetworkPolicy", "PodDisruptionBudget", "StatefulSet"},
			content["kind"].(string)) && found == 0 {
			t.Errorf("%s %s has no selector", content["kind"], o.GetName())
		}
	}
}

// selectors calls visit for every label selector in an object.
func selectors(node any, visit func(path string, labels map[string]any)) {
	var walk func(path string, node any)
	walk = func(path string, node any) {
		switch node := node.(type) {
		case []any:
			for _, n := range node {
				walk(path, n)
			}
		case map[string]any:
			for key, n := range node { // order is irrelevant: each is visited
				below := path + "." + key
				labels, isMap := n.(map[string]any)
				if isMap && strings.HasSuffix(strings.ToLower(key), "selector") && key != "nodeSelector" {
					if inner, ok := labels["matchLabels"].(map[string]any); ok {
						labels = inner
					}
					visit(below, labels)
					continue
				}
				walk(below, n)
			}
		}
	}
	walk("", node)
}

func TestPodsMatchTheSelectorsThatAreForThem(t *testing.T) {
	in := load(t, "full")
	for _, m := range in.View.Members {
		s := statefulSet(in, m)
		for key, value := range s.Spec.Selector.MatchLabels { // order is irrelevant: each is checked
			if s.Spec.Template.Labels[key] != value {
				t.Errorf("pods of %s lack %s=%s", s.Name, key, value)
			}
		}
		for key, value := range site(in, m.Site).Spec.Selector { // order is irrelevant: each is checked
			if s.Spec.Template.Labels[key] != value {
				t.Errorf("pods of %s lack %s=%s", s.Name, key, value)
			}
		}
	}
}

func TestLongestNamesAreValid(t *testing.T) {
	in := load(t, "full")
	in.Cluster.Name = strings.Repeat("c", 20)
	in.Cluster.Namespace = strings.Repeat("n", 63)
	for i := range in.Cluster.Spec.Sites {
		in.Cluster.Spec.Sites[i].Name = fmt.Sprintf("%s%d", strings.Repeat("s", 14), i)
	}
	in.View.Members = firstMembers(in.Cluster, in.Settings)
	in.View.Members[0].ID = view.MaxMemberID
	in.View.Members[0].Address = Address(in.Cluster, in.Settings, in.View.Members[0])
	for _, o := range all(in) {
		if problems := validation.IsDNS1035Label(o.GetName()); len(problems) > 0 {
			t.Errorf("%q: %v", o.GetName(), problems)
		}
		for key, value := range o.GetLabels() { // order is irrelevant: each is checked
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("%s: label %s: %v", o.GetName(), key, problems)
			}
		}
		// The StatefulSet controller labels pods with the name and a hash of 10 characters.
		if s, ok := o.(*appsv1.StatefulSet); ok {
			if problems := validation.IsValidLabelValue(s.Name + "-1234567890"); len(problems) > 0 {
				t.Errorf("%s: %v", s.Name, problems)
			}
		}
	}
	host := strings.TrimSuffix(in.View.Members[0].Address, ":7000")
	if problems := validation.IsDNS1123Subdomain(host); len(problems) > 0 {
		t.Errorf("%q: %v", host, problems)
	}
}

func TestImage(t *testing.T) {
	settings := world.Settings{DefaultImage: "default"}
	for _, c := range []struct{ spec, running, want string }{
		{"", "", "default"}, {"", "running", "running"}, {"spec", "running", "spec"}, {"spec", "", "spec"},
	} {
		cluster := &v1alpha1.GeoRegisterCluster{}
		cluster.Spec.Image = c.spec
		if got := Image(cluster, c.running, settings); got != c.want {
			t.Errorf("%+v: got %s", c, got)
		}
	}
}

// firstMembers are the members that a cluster is founded with.
func firstMembers(cluster *v1alpha1.GeoRegisterCluster, settings world.Settings) (all []view.Member) {
	var last view.MemberID
	for _, site := range cluster.Spec.Sites {
		for range site.MemberCount() {
			last = NextID(cluster, last)
			m := view.Member{ID: last, Site: site.Name}
			m.Address = Address(cluster, settings, m)
			all = append(all, m)
		}
	}
	return all
}
