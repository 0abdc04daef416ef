//go:build chart

package chart

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/config/chaos"
)

// chaosCases are clusters to break: the one of parameters.yaml, and one with everything else.
func chaosCases(t *testing.T) map[string]chaos.Parameters {
	t.Helper()
	p := chaos.Defaults()
	other := p
	other.Cluster, other.Namespace, other.OperatorNamespace, other.Protocol, other.Image = "shop", "prod-like", "ops",
		"ABD", "registry:5000/g@sha256:0"
	other.Sites, other.Site, other.Peer, other.Minority = "1,2,ca,or,va", "2", "ca", []string{"1", "2"}
	other.SiteQuorum = chaos.QuorumURL(other.Cluster, other.Site, other.Namespace)
	other.PeerQuorum = chaos.QuorumURL(other.Cluster, other.Peer, other.Namespace)
	other.Every, other.Duration, other.Settle, other.Load, other.Seed = "7m", "1m30s", "4s", "20m", "99"
	other.Loss, other.Delay, other.Offset, other.Stress = "2.5", "3ms", "1h", "--cpu 1"
	return map[string]chaos.Parameters{"defaults": p, "others": other}
}

// The plugin, the chart and kustomize make the same of the same parameters.
func TestChaosIsTheSameEverywhere(t *testing.T) {
	for name, p := range chaosCases(t) { // order is irrelevant: each is rendered for itself
		t.Run(name, func(t *testing.T) {
			want := chaosOfThePlugin(t, p)
			compare(t, "kustomize", chaosOfKustomize(t, p), want)
			compare(t, "the chart", chaosOfTheChart(t, p), want)
		})
	}
}

func compare(t *testing.T, who string, got, want map[string]*unstructured.Unstructured) {
	t.Helper()
	if a, b := slices.Sorted(maps.Keys(got)), slices.Sorted(maps.Keys(want)); !slices.Equal(a, b) {
		t.Fatalf("%s makes %q, the plugin %q", who, a, b)
	}
	for _, key := range slices.Sorted(maps.Keys(want)) {
		x, _ := yaml.Marshal(got[key].Object)
		y, _ := yaml.Marshal(want[key].Object)
		if string(x) != string(y) {
			t.Errorf("%s of %s:\n%s\nof the plugin:\n%s", key, who, x, y)
		}
	}
}

func chaosOfThePlugin(t *testing.T, p chaos.Parameters) map[string]*unstructured.Unstructured {
	t.Helper()
	workflow, err := chaos.Workflow(chaos.Usual, p)
	if err != nil {
		t.Fatal(err)
	}
	all := []*unstructured.Unstructured{workflow, chaos.Manifest(chaos.Verification, p)}
	for _, e := range chaos.List() {
		all = append(all, chaos.Manifest(e.Name, p))
	}
	made := map[string]*unstructured.Unstructured{}
	for _, object := range all {
		made[object.GetKind()+"/"+object.GetName()] = object
	}
	return made
}

// chaosOfKustomize builds a copy of config/chaos with other parameters and every experiment, as docs/chaos.md says.
func chaosOfKustomize(t *testing.T, p chaos.Parameters) map[string]*unstructured.Unstructured {
	t.Helper()
	mine := t.TempDir()
	files, err := filepath.Glob("../../config/chaos/*.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		switch filepath.Base(file) {
		case "kustomization.yaml":
			text = []byte(strings.ReplaceAll(string(text), "\n# - ", "\n- "))
		case "parameters.yaml":
			text = parameters(t, text, p)
		}
		if err := os.WriteFile(filepath.Join(mine, filepath.Base(file)), text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return objects(t, tool(t, "KUSTOMIZE"), "build", mine)
}

// parameters puts other ones into a parameters.yaml.
func parameters(t *testing.T, text []byte, p chaos.Parameters) []byte {
	t.Helper()
	var object, values map[string]any
	other, err := yaml.Marshal(p)
	if err == nil {
		err = yaml.Unmarshal(other, &values)
	}
	if err == nil {
		err = yaml.Unmarshal(text, &object)
	}
	maps.Copy(object, values)
	if err == nil {
		text, err = yaml.Marshal(object)
	}
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func chaosOfTheChart(t *testing.T, p chaos.Parameters) map[string]*unstructured.Unstructured {
	t.Helper()
	schedules := map[string]any{}
	for _, e := range chaos.List() {
		schedules[e.Name] = map[string]any{"enabled": true}
	}
	values, err := yaml.Marshal(map[string]any{"chaos": map[string]any{
		"enabled": true, "run": "monday", "cluster": p.Cluster, "namespace": p.Namespace,
		"protocol": p.Protocol, "image": p.Image,
		"sites": strings.Split(p.Sites, ","), "site": p.Site, "peer": p.Peer, "minority": p.Minority,
		"every": p.Every, "duration": p.Duration, "settle": p.Settle, "load": p.Load, "seed": p.Seed,
		"loss": p.Loss, "delay": p.Delay, "offset": p.Offset, "stress": p.Stress, "schedules": schedules,
	}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "values.yaml")
	if err := os.WriteFile(file, values, 0o600); err != nil {
		t.Fatal(err)
	}
	made := objects(t, tool(t, "HELM"), "template", "r", "../../charts/georegister", "--namespace", p.OperatorNamespace,
		"--values", file, "--show-only", "templates/chaos.yaml")
	for _, key := range slices.Collect(maps.Keys(made)) { // order is irrelevant: each is looked at for itself
		object := made[key]
		if object.GetKind() == "Schedule" {
			continue
		}
		if object.GetAnnotations()["helm.sh/resource-policy"] != "keep" ||
			object.GetLabels()[chaos.RunLabel] != "monday" {
			t.Errorf("%s is no run that is kept: %v, %v", key, object.GetAnnotations(), object.GetLabels())
		}
		// That is what tells runs apart, and all of it.
		delete(made, key)
		object.SetAnnotations(nil)
		labels := object.GetLabels()
		delete(labels, chaos.RunLabel)
		object.SetLabels(labels)
		object.SetName(strings.TrimSuffix(object.GetName(), "-monday"))
		made[object.GetKind()+"/"+object.GetName()] = object
	}
	return made
}

// The chart's defaults are those of parameters.yaml, apart from what names a cluster.
func TestChaosDefaults(t *testing.T) {
	p := chaos.Defaults()
	var values struct {
		Chaos struct {
			chaos.Parameters `json:",inline"`
			Sites            []string                  `json:"sites"` // a list here
			Enabled          bool                      `json:"enabled"`
			Run              string                    `json:"run"`
			Experiments      []string                  `json:"experiments"`
			Schedules        map[string]map[string]any `json:"schedules"`
		} `json:"chaos"`
	}
	text, err := os.ReadFile("../../charts/georegister/values.yaml")
	if err == nil {
		err = yaml.Unmarshal(text, &values)
	}
	if err != nil {
		t.Fatal(err)
	}
	is := values.Chaos.Parameters
	want := chaos.Parameters{
		Protocol: p.Protocol, Every: p.Every, Duration: p.Duration, Settle: p.Settle, Load: p.Load, Seed: p.Seed,
		Loss: p.Loss, Delay: p.Delay, Offset: p.Offset, Stress: p.Stress, Minority: []string{},
	}
	if !reflect.DeepEqual(is, want) || values.Chaos.Enabled || values.Chaos.Run != "" ||
		!slices.Equal(values.Chaos.Experiments, chaos.Usual) {
		t.Errorf("the chart's defaults are %+v, those of parameters.yaml %+v", values.Chaos, want)
	}
	if all := chaos.List(); len(values.Chaos.Schedules) != len(all) {
		t.Errorf("the chart has %d Schedules of %d experiments", len(values.Chaos.Schedules), len(all))
	}
}

func TestChaosOfTheChart(t *testing.T) {
	const cluster = "chaos.enabled=true,chaos.cluster=first"
	if got := template(t, cluster, "chaos.sites={a,b}"); len(got) != len(template(t)) {
		t.Errorf("what is enabled without a Schedule or a run makes %d objects more", len(got)-len(template(t)))
	}
	got := template(t, cluster, "chaos.sites={a,b,c}", "chaos.schedules.kill-site.enabled=true",
		"chaos.schedules.kill-site.site=b",
		"chaos.schedules.kill-site.every=9m", "chaos.run=x", "chaos.experiments={io-fault,kill-site}")
	schedule, workflow := got["Schedule/first-kill-site"], got["Workflow/first-chaos-x"]
	if schedule == nil || workflow == nil || got["Job/first-verify-x"] == nil {
		t.Fatalf("made %q", slices.Sorted(maps.Keys(got)))
	}
	every, _, _ := unstructured.NestedString(schedule.Object, "spec", "schedule")
	where, _, _ := unstructured.NestedSlice(schedule.Object, "spec", "podChaos", "selector", "expressionSelectors")
	if every != "@every 9m" || !reflect.DeepEqual(where[0].(map[string]any)["values"], []any{"b"}) {
		t.Errorf("the Schedule's own parameters make %s, %v", every, where)
	}
	templates, _, _ := unstructured.NestedSlice(workflow.Object, "spec", "templates")
	children := templates[0].(map[string]any)["children"]
	if !reflect.DeepEqual(children, []any{"before", "io-fault", "kill-site"}) {
		t.Errorf("the Workflow does %v", children)
	}
	for value, want := range map[string]string{ // order is irrelevant: each is tried for itself
		"chaos.enabled=true":                              "chaos.cluster is empty",
		cluster:                                           "chaos.sites: name all sites",
		"chaos.experiments={flood}":                       "/chaos/experiments/0",
		"chaos.schedules.flood.enabled=true":              "invalid propertyName",
		"chaos.schedules.kill-site.how=1":                 "additional properties 'how'",
		"chaos.every=often":                               "/chaos/every",
		"chaos.loss=101":                                  "/chaos/loss",
		"chaos.cluster=a-name-of-more-than-32-characters": "/chaos/cluster",
		"chaos.stress=sh":                                 "/chaos/stress",
		"chaos.run=-":                                     "/chaos/run",
		"chaos.schedules.packet-loss.loss=everything":     "/chaos/schedules/packet-loss/loss",
	} {
		_, err := output(tool(t, "HELM"), "template", "r", "../../charts/georegister", "--set", value)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--set %s: %v; want an error with %s", value, err, want)
		}
	}
}
