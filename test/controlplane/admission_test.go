//go:build controlplane

package controlplane

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/capability"
)

const (
	manifests = "../../api/v1alpha1/testdata"
	samples   = "../../config/samples"
	crd       = "../../config/crd/bases/georegister.io_georegisterclusters.yaml"
	policies  = "../../config/admission/*_*.yaml"
)

// example is a manifest without apiVersion and kind; APIServer is why it is refused, or empty. The validator of
// api/v1alpha1 is held to the same files.
type example struct {
	Name, Manifest, APIServer string
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	protocols := `"` + strings.Join(capability.Names(), `", "`) + `"`
	if err := yaml.Unmarshal(bytes.ReplaceAll(data, []byte("$QUOTED_PROTOCOLS"), []byte(protocols)), into); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// strict is a client that asks for what kubectl asks for: unknown fields are mistakes.
func strict(t *testing.T) client.Client {
	return client.WithFieldValidation(newClient(t, environment.Config), metav1.FieldValidationStrict)
}

func (e example) object(t *testing.T, namespace string) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(e.Manifest), &o.Object); err != nil {
		t.Fatalf("%s: %v", e.Name, err)
	}
	o.SetAPIVersion(v1alpha1.APIVersion)
	o.SetKind(v1alpha1.Kind)
	o.SetNamespace(namespace)
	return o
}

func TestMistakesAreRefused(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	files, err := filepath.Glob(filepath.Join(manifests, "mistakes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no mistakes: %v", err)
	}
	var said strings.Builder
	for _, path := range files {
		var mistakes []example
		readYAML(t, path, &mistakes)
		for _, m := range mistakes {
			t.Run(m.Name, func(t *testing.T) {
				err := api.Create(t.Context(), m.object(t, namespace), client.DryRunAll)
				refused(t, err, m.APIServer)
				if err != nil {
					said.WriteString(err.Error())
				}
			})
		}
	}
	for _, rule := range rulesOfCRD(t) {
		if !strings.Contains(rule.Rule, "oldSelf") && !strings.Contains(said.String(), rule.Message) {
			t.Errorf("no mistake breaks the rule %q", rule.Message)
		}
	}
}

// refused checks that an error says what it should; an empty text is for requests that are accepted.
func refused(t *testing.T, err error, want string) {
	t.Helper()
	switch {
	case want == "" && err != nil:
		t.Errorf("refused: %v", err)
	case want != "" && err == nil:
		t.Error("accepted")
	case want != "" && !strings.Contains(err.Error(), want):
		t.Errorf("got:  %v\nwant: %s", err, want)
	}
}

func TestValidManifestsAreAccepted(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	var accepted []example
	readYAML(t, filepath.Join(manifests, "accepted.yaml"), &accepted)
	files, err := filepath.Glob(filepath.Join(samples, "*.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range files {
		if filepath.Base(path) == "kustomization.yaml" {
			continue // lists the others
		}
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		accepted = append(accepted, example{Name: filepath.Base(path), Manifest: string(data)})
	}
	for _, m := range accepted {
		t.Run(m.Name, func(t *testing.T) {
			refused(t, api.Create(t.Context(), m.object(t, namespace), client.DryRunAll), "")
		})
	}
}

func TestChanges(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	const (
		sites     = "protocol: Gryff\nsites: [{name: a}, {name: b}, {name: c}]\n"
		curp      = "protocol: CURP\nsites: [{name: a}, {name: b}, {name: c}]\n"
		curp5     = "protocol: CURP\nsites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]\n"
		seven     = "protocol: Gus\nsites: [{name: a, members: 3}, {name: b, members: 2}, {name: c, members: 2}]\n"
		fragments = "protocol: Gus\nfaultTolerance: 1\ngus: {erasureCoding: {dataFragments: 2}}\nsites: [{name: a, " +
			"members: 3}, {name: b, members: 2}, {name: c, members: 2}]\n"
		count = "all sites together must have 3, 5 or 7 members, or 4 or 9 with protocol Gus"
		links = "wan: {links: [{between: [a, b], rtt: 1ms}, {between: [b, c], rtt: 1ms}, {between: [a, c], rtt: 1ms}]}"
		class = "spec.storage.class can't be changed"
		size  = "spec.storage.size can't shrink"
		kept  = "spec.storage.durability can't be changed to or from Memory"
		limit = "spec.limits can't shrink"
		shard = "spec.shards can't be changed"
		fewer = "spec.shards can't shrink"
	)
	tests := []struct{ name, before, after, want string }{
		{"protocol", sites, strings.Replace(sites, "Gryff", "ABD", 1), "spec.protocol can't be changed"},
		{"the quorums of Gus", seven + "faultTolerance: 2\n", seven,
			"spec.faultTolerance can be changed with protocol CURP alone"},
		{"the fast quorum of Gryff", sites, sites + "faultTolerance: 1\n",
			"spec.faultTolerance can be changed with protocol CURP alone"},
		{"the fragments of values", fragments, strings.Replace(fragments, "dataFragments: 2", "dataFragments: 3", 1),
			"spec.gus.erasureCoding.dataFragments: Invalid value: 3: dataFragments can't be changed"},
		{"the size up to which values are whole", fragments,
			strings.Replace(fragments, "dataFragments: 2", "dataFragments: 2, thresholdBytes: 2048", 1),
			"thresholdBytes can't be changed"},
		{"fragments that are removed", fragments,
			strings.Replace(fragments, "gus: {erasureCoding: {dataFragments: 2}}\n", "", 1),
			"spec.gus.erasureCoding can't be added or removed"},
		{"fragments where there were none",
			strings.Replace(fragments, "gus: {erasureCoding: {dataFragments: 2}}\n", "", 1), fragments,
			"spec.gus.erasureCoding can't be added or removed"},
		{"the size spelled out", fragments,
			strings.Replace(fragments, "dataFragments: 2", "dataFragments: 2, thresholdBytes: 65536", 1), ""},
		{"fewer members with fragments", fragments, strings.Replace(fragments, "{name: a, members: 3}", "{name: a}", 1),
			"with erasureCoding members can't become fewer"},
		{"other members with fragments", fragments,
			strings.Replace(fragments, "{name: c, members: 2}", "{name: d, members: 2}", 1), ""},
		{"a site's name", sites, strings.Replace(sites, "name: b", "name: d", 1), ""},
		{"more sites", sites, strings.Replace(sites, "{name: c}", "{name: c}, {name: d}, {name: e}", 1), ""},
		{"fewer sites", strings.Replace(sites, "{name: c}", "{name: c}, {name: d}, {name: e}", 1), sites, ""},
		{"more members", sites, strings.Replace(sites, "name: b", "name: b, members: 3", 1), ""},
		{"all sites others", sites, "protocol: Gryff\nsites: [{name: d, members: 2}, {name: e}]\n", ""},
		{"a site less", sites, strings.Replace(sites, ", {name: c}", "", 1), count},
		{"a site more", sites, strings.Replace(sites, "{name: c}", "{name: c}, {name: d}", 1), count},
		{"a fourth member", strings.Replace(sites, "Gryff", "Gus", 1),
			strings.Replace(strings.Replace(sites, "Gryff", "Gus", 1), "{name: c}", "{name: c}, {name: d}", 1), ""},
		{"a member more", sites, strings.Replace(sites, "name: b", "name: b, members: 2", 1), count},
		{"more members than there may be", sites, strings.Replace(sites, "name: b", "name: b, members: 7", 1), count},
		{"a site twice", sites, strings.Replace(sites, "name: c", "name: a", 1), "Duplicate value"},
		{"a site without its links", sites + links, strings.Replace(sites, "name: c", "name: d", 1) + links,
			"a link joins a site that is not in spec.sites"},
		{"members spelled out", sites, strings.Replace(sites, "name: b", "name: b, members: 1", 1), ""},
		{"sites in another order", sites,
			strings.Replace(sites, "{name: a}, {name: b}", "{name: b}, {name: a}", 1), ""},
		{"a node pool", sites, strings.Replace(sites, "name: b", "name: b, nodePool: {value: z2}", 1), ""},
		{"shards", sites + "shards: 2", sites + "shards: 3", shard},
		{"shards spelled out, as far as this can tell", sites, sites + "shards: 4", ""},
		{"shards removed", sites + "shards: 8", sites, ""},
		{"shards of CURP spelled out", curp, curp + "shards: 3", ""},
		{"shards of CURP that are split", curp + "shards: 2", curp + "shards: 3", ""},
		{"shards of CURP that are split and get a home", curp, curp + "shards: 4\nhomes: ['', '', '', b]", ""},
		{"a home of a shard of CURP that is not asked for", curp, curp + "homes: ['', '', '', b]",
			"homes has more entries than there are shards"},
		{"shards of CURP that are merged", curp + "shards: 3", curp + "shards: 2", fewer},
		{"fewer shards of CURP than the default", curp, curp + "shards: 2", fewer},
		{"shards of CURP back to the default", curp + "shards: 4", curp, fewer},
		{"sites of CURP, by which its shards are counted", curp, curp5, ""},
		{"fewer sites of CURP, by which its shards are counted", curp5, curp, fewer},
		{"sites of CURP with its shards", curp, curp5 + "shards: 3", ""},
		{"fewer sites of CURP with its shards", curp5, curp + "shards: 5", ""},
		{"fault tolerance", curp5 + "faultTolerance: 1", curp5, ""},
		{"slots", curp, curp + "curp: {witness: {slots: 1024}}", ""},
		{"witnesses that get pods", curp, curp + "curp: {witness: {placement: Dedicated}}",
			"spec.curp.witness.placement can't be changed"},
		{"witnesses that lose their pods", curp + "curp: {witness: {placement: Dedicated}}",
			curp + "curp: {witness: {slots: 64}}", "spec.curp.witness.placement can't be changed"},
		{"where witnesses are, spelled out", curp, curp + "curp: {witness: {placement: Sidecar}}", ""},
		{"slots of dedicated witnesses", curp + "curp: {witness: {placement: Dedicated}}",
			curp + "curp: {witness: {placement: Dedicated, slots: 64}}", ""},
		{"too few sites for dedicated witnesses", curp5 + "shards: 5\ncurp: {witness: {placement: Dedicated}}",
			strings.ReplaceAll(curp5, "{name: d}, {name: e}", "{name: d, members: 2}") +
				"shards: 5\ncurp: {witness: {placement: Dedicated}}",
			"more than twice as many sites as faultTolerance"},
		{"homes", curp + "homes: [b]", curp + "homes: [c, '', c]", ""},
		{"a site less that is a home", curp5 + "shards: 5\nhomes: [b, e]", curp + "shards: 5\nhomes: [b, e]",
			"homes names a site that is not in spec.sites"},
		{"a site less that was a home", curp5 + "shards: 5\nhomes: [b, e]", curp + "shards: 5\nhomes: [b]", ""},
		{"recovery with masters", curp, curp + "recovery: {epoch: 2, emptyShards: [0, 2]}", ""},
		{"another class", sites + "storage: {class: fast}", sites + "storage: {class: slow}", class},
		{"a class where there was none", sites, sites + "storage: {class: slow}", class},
		{"no class", sites + "storage: {class: slow}", sites + "storage: {}", class},
		{"growth", sites + "storage: {size: 1Gi}", sites + "storage: {size: 1025Mi}", ""},
		{"the same size in another unit", sites + "storage: {size: 1Gi}", sites + "storage: {size: 1024Mi}", ""},
		{"shrinking", sites + "storage: {size: 1Gi}", sites + "storage: {size: 1G}", size},
		{"shrinking to a number", sites + "storage: {size: 1Gi}", sites + "storage: {size: 1073741823}", size},
		{"growth from the default", sites, sites + "storage: {size: 11Gi}", ""},
		{"shrinking from the default", sites, sites + "storage: {size: 9Gi}", size},
		{"shrinking to the default", sites + "storage: {size: 11Gi}", sites, size},
		{"from disk to memory", sites, sites + "storage: {durability: Memory}", kept},
		{"from memory to disk", sites + "storage: {durability: Memory}", sites, kept},
		{"from Sync to Interval", sites, sites + "storage: {durability: Interval, interval: 1s}", ""},
		{"larger limits", sites, sites + "limits: {keyBytes: 5000, valueBytes: 2000000}", ""},
		{"memory for clients", sites, sites + "limits: {clientMemory: 128Mi}", ""},
		{"too little of it", sites, sites + "limits: {clientMemory: 1Mi}", "clientMemory must be between 64Mi and 1Ti"},
		{"too little for the values", sites, sites + "limits: {clientMemory: 64Mi, valueBytes: 16000000}",
			"at least 16 times valueBytes"},
		{"shorter keys", sites, sites + "limits: {keyBytes: 4095}", limit},
		{"shorter values", sites + "limits: {valueBytes: 2000000}", sites, limit},
		{"the network, the image and the rest", sites, sites + `
` + links + `
image: other:v2
resources: {requests: {cpu: 1}}
podTemplate: {env: [{name: A, value: b}]}
storage: {retention: Delete, transferRate: 1Mi}
monitoring: {enabled: true}
recovery: {trustMember: 1, epoch: 2}
paused: true
deletionProtection: true`, ""},
	}
	var said strings.Builder
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := example{Manifest: "metadata: {generateName: change-}"}.object(t, namespace)
			o.Object["spec"] = spec(t, tt.before)
			if err := api.Create(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			founded := map[string]any{"clusterID": "c", "epoch": int64(1), "members": int64(3), "majority": int64(2)}
			o.Object["status"] = map[string]any{"view": founded}
			if err := api.Status().Update(t.Context(), o); err != nil {
				t.Fatal(err)
			}
			o.Object["spec"] = spec(t, tt.after)
			err := api.Update(t.Context(), o, client.DryRunAll)
			refused(t, err, tt.want)
			if err != nil {
				said.WriteString(err.Error())
			}
		})
	}
	for _, rule := range rulesOfCRD(t) {
		if strings.Contains(rule.Rule, "oldSelf") && !strings.Contains(said.String(), rule.Message) {
			t.Errorf("no change breaks the rule %q", rule.Message)
		}
	}
}

// What nobody has used yet can be corrected.
func TestChangesBeforeTheFounding(t *testing.T) {
	api := strict(t)
	namespace := newNamespace(t, api)
	const sites = "protocol: Gryff\nsites: [{name: a}, {name: b}, {name: c}]\n"
	for name, tt := range map[string]struct{ before, after, want string }{
		"a class":      {sites + "storage: {class: fsat}", sites + "storage: {class: fast}", ""},
		"a class more": {sites, sites + "storage: {class: fast}", ""},
		"a class less": {
			sites + "storage: {class: fast}", sites, "spec.storage.class can't be removed: name the default class",
		},
		"a smaller size":   {sites, sites + "storage: {size: 1Gi}", ""},
		"another protocol": {sites, strings.Replace(sites, "Gryff", "ABD", 1), "spec.protocol can't be changed"},
	} {
		o := example{Manifest: "metadata: {generateName: change-}"}.object(t, namespace)
		o.Object["spec"] = spec(t, tt.before)
		if err := api.Create(t.Context(), o); err != nil {
			t.Fatal(err)
		}
		o.Object["spec"] = spec(t, tt.after)
		t.Run(name, func(t *testing.T) { refused(t, api.Update(t.Context(), o, client.DryRunAll), tt.want) })
	}
}

func spec(t *testing.T, text string) map[string]any {
	t.Helper()
	var s map[string]any
	if err := yaml.Unmarshal([]byte(text), &s); err != nil {
		t.Fatal(err)
	}
	return s
}

// rulesOfCRD are all CEL rules of the resource, so that none is without an example.
func rulesOfCRD(t *testing.T) apiextensionsv1.ValidationRules {
	t.Helper()
	var definition apiextensionsv1.CustomResourceDefinition
	readYAML(t, crd, &definition)
	rules := rulesOf(definition.Spec.Versions[0].Schema.OpenAPIV3Schema)
	if len(rules) == 0 {
		t.Fatalf("%s has no rules", crd)
	}
	return rules
}

func rulesOf(s *apiextensionsv1.JSONSchemaProps) apiextensionsv1.ValidationRules {
	rules := s.XValidations
	for _, property := range s.Properties {
		rules = append(rules, rulesOf(&property)...)
	}
	if s.Items != nil && s.Items.Schema != nil {
		rules = append(rules, rulesOf(s.Items.Schema)...)
	}
	return rules
}
