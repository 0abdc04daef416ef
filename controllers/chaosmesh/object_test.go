package chaosmesh

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	chaos "github.com/chaos-mesh/chaos-mesh/api/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files")

// load reads a resource of testdata. Its UID is not part of a manifest.
func load(t *testing.T, name string) *v1alpha1.GeoRegisterCluster {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name + ".yaml")
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := v1alpha1.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	cluster.UID = "5c0de000-0000-4000-8000-000000000001"
	return cluster
}

// siteOf is a site with a pod for each of its members.
func siteOf(cluster *v1alpha1.GeoRegisterCluster, i int) Site {
	site := Site{Name: cluster.Spec.Sites[i].Name}
	for n := range cluster.Spec.Sites[i].MemberCount() {
		site.Pods = append(site.Pods,
			pod(fmt.Sprintf("%s-%s-%d-0", cluster.Name, site.Name, n), fmt.Sprintf("10.0.%d.%d", i, n)))
	}
	return site
}

func pod(name, ip string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID("uid of " + name)},
		Status:     corev1.PodStatus{PodIP: ip},
	}
}

// matrix is the objects of all directions.
func matrix(cluster *v1alpha1.GeoRegisterCluster) (all []*unstructured.Unstructured) {
	for from := range cluster.Spec.Sites {
		for to := range cluster.Spec.Sites {
			if o := Object(cluster, siteOf(cluster, from), siteOf(cluster, to)); o != nil {
				all = append(all, o)
			}
		}
	}
	return all
}

func TestObjectsAreAsWritten(t *testing.T) {
	for _, name := range []string{"gryff", "links"} {
		var text bytes.Buffer
		for _, o := range matrix(load(t, name)) {
			one, err := yaml.Marshal(o.Object)
			if err != nil {
				t.Fatal(err)
			}
			_, _ = fmt.Fprintf(&text, "---\n%s", one) // a buffer takes everything
		}
		file := "testdata/" + name + ".golden.yaml"
		if *update {
			if err := os.WriteFile(file, text.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(text.Bytes(), want) {
			t.Errorf("%s differs; look at the difference after go test ./controllers/chaosmesh -update", file)
		}
	}
}

// What Chaos Mesh's own webhook says of the objects, and what it fills in: nothing may be left to it, as it may not be
// there.
func TestChaosMeshAdmitsObjects(t *testing.T) {
	for _, name := range []string{"gryff", "links"} {
		for _, o := range matrix(load(t, name)) {
			object := typed(t, o)
			if _, err := object.ValidateCreate(t.Context(), object); err != nil {
				t.Errorf("%s: %v", o.GetName(), err)
			}
			defaulted := typed(t, o)
			if err := defaulted.Default(t.Context(), defaulted); err != nil {
				t.Errorf("%s: %v", o.GetName(), err)
			}
			defaulted.Spec.PartitionBehavior = "" // of another action
			before, after := fmt.Sprintf("%+v", object.Spec), fmt.Sprintf("%+v", defaulted.Spec)
			if !strings.EqualFold(pointers.ReplaceAllString(before, ""), pointers.ReplaceAllString(after, "")) {
				t.Errorf("%s is filled in: %s became %s", o.GetName(), before, after)
			}
			if fmt.Sprintf("%+v", *object.Spec.Target) != fmt.Sprintf("%+v", *defaulted.Spec.Target) ||
				object.Spec.Delay != nil && *object.Spec.Delay != *defaulted.Spec.Delay {
				t.Errorf("%s is filled in where it points to", o.GetName())
			}
		}
	}
	broken := typed(t, matrix(load(t, "links"))[0])
	broken.Spec.Rate = &chaos.RateSpec{Rate: "100M"}
	if _, err := broken.ValidateCreate(t.Context(), broken); err == nil {
		t.Error("the webhook admits everything: this test says nothing")
	}
}

var pointers = regexp.MustCompile(`0x[0-9a-f]+`)

func typed(t *testing.T, u *unstructured.Unstructured) *chaos.NetworkChaos {
	t.Helper()
	object := &chaos.NetworkChaos{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(u.Object, object, true); err != nil {
		t.Fatal(err)
	}
	return object
}

// netem takes a jitter to both sides of the delay, and the resource means what is on top of it.
func TestWaysInChaosMeshsWords(t *testing.T) {
	for _, tt := range []struct {
		way                         v1alpha1.Way
		latency, jitter, loss, rate string
	}{
		{v1alpha1.Way{Delay: 36 * time.Millisecond}, "36000us", "0ms", "", ""},
		{v1alpha1.Way{Delay: 500 * time.Microsecond}, "500us", "0ms", "", ""},
		{v1alpha1.Way{Delay: 1500}, "2us", "0ms", "", ""}, // nanoseconds
		{v1alpha1.Way{Delay: 5 * time.Second}, "5000000us", "0ms", "", ""},
		{v1alpha1.Way{Delay: 10 * time.Millisecond, Jitter: 3 * time.Millisecond}, "11500us", "1500us", "", ""},
		{v1alpha1.Way{Delay: 10 * time.Microsecond, Jitter: 3 * time.Microsecond}, "11us", "1us", "", ""},
		{v1alpha1.Way{Jitter: 4 * time.Millisecond}, "2000us", "2000us", "", ""},
		{v1alpha1.Way{Jitter: time.Microsecond, Loss: 1}, "1us", "0ms", "0.001", ""},
		{v1alpha1.Way{Loss: 1500}, "", "", "1.5", ""},
		{v1alpha1.Way{Loss: 100_000}, "", "", "100", ""},
		{v1alpha1.Way{Rate: 100_000_000_000}, "", "", "", "100000000000bit"},
		{v1alpha1.Way{Delay: time.Millisecond, Loss: 100, Rate: 8000}, "1000us", "0ms", "0.1", "8000bit"},
	} {
		p := traffic(tt.way)
		var latency, jitter, loss, rate string
		if p.Delay != nil {
			latency, jitter = p.Delay.Latency, p.Delay.Jitter
		}
		if p.Loss != nil {
			loss = p.Loss.Loss
		}
		if p.Rate != nil {
			rate = p.Rate.Rate
		}
		if latency != tt.latency || jitter != tt.jitter || loss != tt.loss || rate != tt.rate {
			t.Errorf("%+v: latency %q, jitter %q, loss %q, rate %q; want %+v", tt.way, latency, jitter, loss, rate, tt)
		}
	}
}

// What docs/wan.md shows can be applied, and is what the page says of it.
func TestThePageIsRight(t *testing.T) {
	page, err := os.ReadFile("../../docs/wan.md")
	if err != nil {
		t.Fatal(err)
	}
	example := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindSubmatch(page)
	if example == nil {
		t.Fatal("there is no example")
	}
	cluster, err := v1alpha1.Decode(example[1])
	if err != nil {
		t.Fatal(err)
	}
	if rtt := cluster.Spec.RTT("berlin", "lima"); rtt != 205*time.Millisecond || len(matrix(cluster)) != 6 {
		t.Errorf("berlin and lima are %v from each other, and there are %d objects", rtt, len(matrix(cluster)))
	}
	if !strings.Contains(string(page), ForceAnnotation+"=forced") {
		t.Errorf("the page does not tell of %s", ForceAnnotation)
	}
}

func TestNothingIsMadeOfNothing(t *testing.T) {
	cluster := load(t, "links")
	if o := Object(cluster, siteOf(cluster, 0), siteOf(cluster, 0)); o != nil {
		t.Errorf("within a site there is %s", o.GetName())
	}
	cluster.Spec.WAN = nil
	if all := matrix(cluster); len(all) > 0 {
		t.Errorf("without a WAN there are %d objects", len(all))
	}
}

func TestNamesChangeWithWhatTheyStandFor(t *testing.T) {
	of := func(change func(c *v1alpha1.GeoRegisterCluster, from, to *Site)) string {
		cluster := load(t, "gryff")
		from, to := siteOf(cluster, 0), siteOf(cluster, 1)
		from.Pods = append(from.Pods, pod("another", "10.0.0.9"))
		if change != nil {
			change(cluster, &from, &to)
		}
		return Object(cluster, from, to).GetName()
	}
	before := of(nil)
	if same := of(func(_ *v1alpha1.GeoRegisterCluster, from, _ *Site) {
		from.Pods[0], from.Pods[1] = from.Pods[1], from.Pods[0]
	}); same != before {
		t.Errorf("the order of pods changes the name from %s to %s", before, same)
	}
	seen := map[string]string{before: "nothing"}
	for what, change := range map[string]func(c *v1alpha1.GeoRegisterCluster, from, to *Site){
		"the namespace":  func(c *v1alpha1.GeoRegisterCluster, _, _ *Site) { c.Namespace = "other" },
		"the resource":   func(c *v1alpha1.GeoRegisterCluster, _, _ *Site) { c.UID = "other" },
		"the delay":      func(c *v1alpha1.GeoRegisterCluster, _, _ *Site) { c.Spec.WAN = twoSites("72.001ms") },
		"a sender's UID": func(_ *v1alpha1.GeoRegisterCluster, from, _ *Site) { from.Pods[1].UID = "other" },
		"a sender's address": func(_ *v1alpha1.GeoRegisterCluster, from, _ *Site) {
			from.Pods[1].Status.PodIP = "10.0.0.8"
		},
		"a receiver's UID": func(_ *v1alpha1.GeoRegisterCluster, _, to *Site) { to.Pods[0].UID = "other" },
		"a receiver's address": func(_ *v1alpha1.GeoRegisterCluster, _, to *Site) {
			to.Pods[0].Status.PodIP = "10.0.0.8"
		},
		"a pod more": func(_ *v1alpha1.GeoRegisterCluster, _, to *Site) {
			to.Pods = append(to.Pods, pod("more", "10.0.1.9"))
		},
		"a pod less": func(_ *v1alpha1.GeoRegisterCluster, from, _ *Site) { from.Pods = from.Pods[:1] },
		"a pod on the other side": func(_ *v1alpha1.GeoRegisterCluster, from, to *Site) {
			to.Pods, from.Pods = append(to.Pods, from.Pods[1]), from.Pods[:1]
		},
		"the direction": func(_ *v1alpha1.GeoRegisterCluster, from, to *Site) { *from, *to = *to, *from },
	} {
		name := of(change)
		if same, taken := seen[name]; taken {
			t.Errorf("%s gives the name %s, as does %s", what, name, same)
		}
		seen[name] = what
	}
}

// twoSites is a network of the first two sites of gryff alone.
func twoSites(rtt v1alpha1.Duration) *v1alpha1.WAN {
	return &v1alpha1.WAN{
		Provider: v1alpha1.ChaosMesh, Links: []v1alpha1.Link{{Between: []string{"ca", "va"}, RTT: rtt}},
	}
}

func TestNamesFit(t *testing.T) {
	cluster := load(t, "gryff")
	long := []string{"abcdefghijklmnopqrst", "abcdefg-ijklmnopqrst", "a-b", "a", "b-c", "c"}
	seen := map[string]string{}
	for _, of := range []string{"s", strings.Repeat("abcdefghi-", 4)[:39] + "z"} {
		cluster.Name = of
		for _, from := range long {
			for _, to := range long {
				if from == to {
					continue
				}
				cluster.Spec.WAN = &v1alpha1.WAN{Links: []v1alpha1.Link{{Between: []string{from, to}, RTT: "1ms"}}}
				name := Object(cluster, Site{Name: from}, Site{Name: to}).GetName()
				if len(name) > 57 || len(validation.IsDNS1123Label(name)) > 0 {
					t.Errorf("%s is no name for an object of Chaos Mesh: %d characters, %v", name, len(name),
						validation.IsDNS1123Label(name))
				}
				direction := of + " " + from + " " + to
				if same, taken := seen[name]; taken {
					t.Errorf("%s is the name of %s and of %s", name, same, direction)
				}
				seen[name] = direction
			}
		}
	}
}
