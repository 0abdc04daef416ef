package v1alpha1

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
)

const (
	kind   = "apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\n"
	header = kind + "metadata: {name: demo}\n"
)

// abc is a valid spec.
const abc = "spec:\n  protocol: Gryff\n  sites: [{name: a}, {name: b}, {name: c}]\n"

// Mistakes that no API server gets to see, or that it says in its own way.
func TestMistakesOfForm(t *testing.T) {
	tests := []struct {
		name, manifest string
		want           []string
	}{
		{"nothing", "# only a comment\n", []string{"empty manifest; start from one of config/samples"}},
		{"a text", "some text\n",
			[]string{"expected a GeoRegisterCluster, not a string; start from one of config/samples"}},
		{"two documents", header + abc + "---\n" + header + abc,
			[]string{"more than one document; keep one GeoRegisterCluster per file"}},
		{"wrong kind", "apiVersion: v1\nkind: Pod\nmetadata: {name: demo}\n" + abc, []string{
			`apiVersion: Unsupported value: "v1": supported values: "georegister.io/v1alpha1"`,
			`kind: Unsupported value: "Pod": supported values: "GeoRegisterCluster"`}},
		{"no name", strings.Replace(header, "demo", "''", 1) + abc,
			[]string{`metadata.name: Required value: give a name of lower case letters, digits and hyphens`}},
		{"repeated field", header + abc + "  protocol: ABD\n",
			[]string{"not valid YAML: yaml: unmarshal errors:\n  line 7: key \"protocol\" already set in map"}},
		{"several that are no quantities",
			header + abc + "  storage: {cache: lots}\n  resources: {requests: {memory: 1GB, cpu: 1}}\n", []string{
				`spec.storage.cache: expected a quantity, such as 10Gi or 500m, not "lots"`,
				`spec.resources.requests.memory: expected a quantity, such as 10Gi or 500m, not "1GB"`}},
		{"fields outside their sections",
			header + abc + "  witness: {slots: 64}\n  erasureCoding: {dataFragments: 3}\n  members: 3\n", []string{
				`unknown field "spec.erasureCoding"; did you mean spec.gus.erasureCoding?`,
				`unknown field "spec.members"; did you mean spec.sites[].members?`,
				`unknown field "spec.witness"; did you mean spec.curp.witness?`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { refuses(t, tt.manifest, tt.want) })
	}
}

// mistake is a manifest that the validator and the API server both refuse; the latter is asked in test/controlplane.
type mistake struct {
	Name      string   `json:"name"`
	Manifest  string   `json:"manifest"` // without apiVersion and kind
	Validator []string `json:"validator"`
	APIServer string   `json:"apiserver"`
}

func TestMistakes(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "mistakes", "*.yaml"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no mistakes: %v", err)
	}
	for _, path := range files {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var mistakes []mistake
		names := capability.Names()
		text := strings.NewReplacer("$PROTOCOLS", strings.Join(names, ", "), "$QUOTED_PROTOCOLS",
			`"`+strings.Join(names, `", "`)+`"`).Replace(string(data))
		if err := yaml.UnmarshalStrict([]byte(text), &mistakes); err != nil {
			t.Fatalf("%s: %v", path, err)
		}
		for _, m := range mistakes {
			t.Run(m.Name, func(t *testing.T) { refuses(t, kind+m.Manifest, m.Validator) })
		}
	}
	if _, err := Decode([]byte(header + abc)); err != nil {
		t.Errorf("the manifest that the mistakes were made in: %v", err)
	}
}

func TestWhatIsAccepted(t *testing.T) {
	data, err := os.ReadFile(filepath.Join("testdata", "accepted.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	var accepted []mistake // of those that are none
	if err := yaml.UnmarshalStrict(data, &accepted); err != nil || len(accepted) == 0 {
		t.Fatalf("%d manifests, %v", len(accepted), err)
	}
	for _, m := range accepted {
		if _, err := Decode([]byte(kind + m.Manifest)); err != nil {
			t.Errorf("%s: %v", m.Name, err)
		}
	}
}

// refuses checks that a manifest is refused, and every word of why.
func refuses(t *testing.T, manifest string, want []string) {
	t.Helper()
	_, err := Decode([]byte(manifest))
	if err == nil {
		t.Fatal("accepted")
	}
	if got, want := err.Error(), strings.Join(want, "\n"); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// What the API server will enforce from the markers must be what Validate enforces.
func TestMarkersNameWhatThereIs(t *testing.T) {
	var source []byte
	for _, file := range []string{"types.go", "wan.go"} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		source = append(source, text...)
	}
	for _, enum := range [][]string{capability.Names(), profile.Names()} {
		marker := "+kubebuilder:validation:Enum=" + strings.Join(enum, ";") + "\n"
		if !strings.Contains(string(source), marker) {
			t.Errorf("the types lack the marker %q", marker)
		}
	}
	// Each section is of one protocol, and no other may have it.
	sections := 0
	for _, f := range reflect.VisibleFields(reflect.TypeFor[GeoRegisterClusterSpec]()) {
		name := strings.TrimSuffix(f.Tag.Get("json"), ",omitempty")
		for _, protocol := range capability.Names() {
			if name != strings.ToLower(protocol) {
				continue
			}
			sections++
			rule := fmt.Sprintf(
				`rule="self.protocol == '%[2]s' || !has(self.%[1]s)",message="%[1]s is the section of protocol %[2]s alone: `+
					`remove it, or use protocol %[2]s",fieldPath=".%[1]s"`, name, protocol)
			if !strings.Contains(string(source), rule) {
				t.Errorf("the types lack %s", rule)
			}
		}
	}
	if sections == 0 {
		t.Error("no protocol has a section")
	}
	rules := []string{"Pattern=`" + percentage.String() + "`", "Pattern=`" + bitRate.String() + "`"}
	for _, p := range capability.Table() {
		members := strings.ReplaceAll(fmt.Sprint(p.Members), " ", ", ")
		if rule := ": " + members + ")\""; len(p.Members) == 3 {
			rules = append(rules, rule)
		} else { // the one protocol that has other numbers
			rules = append(rules, fmt.Sprintf("sum() in (self.protocol == '%s' ? %s ", p.Name, members))
		}
	}
	for _, name := range profile.Names() {
		p, err := profile.Find(name)
		if err != nil {
			t.Fatal(err)
		}
		rules = append(rules, fmt.Sprintf("profile != '%s' || self.sites.all(s, s.name in ['%s'])\"",
			name, strings.Join(profileSites(p), "', '")))
	}
	limits := register.DefaultLimits()
	rules = append(rules,
		fmt.Sprintf("self.protocol == '%s' || ", curp),
		fmt.Sprintf("self.?limits.?keyBytes.orValue(%d) >=", limits.KeyBytes),
		fmt.Sprintf("self.?limits.?valueBytes.orValue(%d) >=", limits.ValueBytes),
		fmt.Sprintf("string(self.spec.storage.size) : '%s')", DefaultStorageSize))
	for _, rule := range rules {
		if !strings.Contains(string(source), rule) {
			t.Errorf("the types lack a rule with %q", rule)
		}
	}
}

func TestDefaults(t *testing.T) {
	c, err := Decode([]byte(header + "spec: {protocol: ABD, sites: [{name: a}, {name: b}, {name: c}]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Spec.Shards != nil || c.Spec.Sites[0].Members != nil || c.Spec.Storage.Durability != "" {
		t.Errorf("defaults were written into the manifest: %+v", c.Spec)
	}
	if c.Spec.ShardCount() != DefaultShards || c.Spec.MemberCount() != 3 ||
		c.Spec.Storage.DurabilityOrDefault() != Sync || c.Spec.Limits.Register() != register.DefaultLimits() {
		t.Errorf("wrong defaults for %+v", c.Spec)
	}
	if w := c.Spec.Way("a", "b"); w != (Way{}) {
		t.Errorf("a network without wan does %+v", w)
	}
	if c.Spec.Partitioned() {
		t.Error("ABD has masters")
	}
}

// A shard for each processor of a member, unless the manifest says.
func TestDefaultOfShards(t *testing.T) {
	for resources, want := range map[string]int{
		"{}":                                     DefaultShards,
		"{requests: {memory: 1Gi}}":              DefaultShards,
		"{requests: {cpu: 100m}}":                1,
		"{requests: {cpu: 1}}":                   1,
		"{requests: {cpu: 2500m}}":               3,
		"{limits: {cpu: 4}}":                     4,
		"{requests: {cpu: 64}}":                  MostDefaultShards,
		"{requests: {cpu: 2}, limits: {cpu: 8}}": 2,
	} {
		c, err := Decode([]byte(header + abc + "  resources: " + resources + "\n"))
		if err != nil {
			t.Fatal(err)
		}
		if got := c.Spec.ShardCount(); got != want {
			t.Errorf("%s: %d shards, want %d", resources, got, want)
		}
		given := int32(7)
		if c.Spec.Shards = &given; c.Spec.ShardCount() != 7 {
			t.Errorf("%s: %d shards, though 7 are asked for", resources, c.Spec.ShardCount())
		}
	}
}

// With CURP a shard has a master, and a site has a shard.
func TestDefaultsOfPartitions(t *testing.T) {
	for _, tt := range []struct {
		spec                  string
		shards, faults, slots int
	}{
		{"sites: [{name: a}, {name: b}, {name: c}]", 3, 1, DefaultWitnessSlots},
		{"sites: [{name: a, members: 4}, {name: b, members: 3}]", 2, 3, DefaultWitnessSlots},
		{"sites: [{name: a, members: 5}], curp: {witness: {}}, shards: 4", 4, 2, DefaultWitnessSlots},
		{"sites: [{name: a, members: 5}], curp: {witness: {slots: 64}}, faultTolerance: 1", 1, 1, 64},
		{"sites: [{name: a, members: 3}, {name: b}, {name: c}], curp: {witness: {placement: Dedicated}}, " +
			"faultTolerance: 1", 3, 1, DefaultWitnessSlots},
	} {
		c, err := Decode([]byte(header + "spec: {protocol: CURP, " + tt.spec + "}\n"))
		if err != nil {
			t.Fatal(err)
		}
		s := c.Spec
		if !s.Partitioned() || s.ShardCount() != tt.shards || s.Faults() != tt.faults || s.WitnessSlots() != tt.slots {
			t.Errorf("%s: %d shards, %d faults, %d slots", tt.spec, s.ShardCount(), s.Faults(), s.WitnessSlots())
		}
	}
}

func TestSyncInterval(t *testing.T) {
	c, err := Decode([]byte(header + abc + "  storage: {durability: Interval, interval: 20ms}\n"))
	if err != nil {
		t.Fatal(err)
	}
	if c.Spec.Storage.SyncInterval() != 20*time.Millisecond {
		t.Errorf("interval: %s", c.Spec.Storage.SyncInterval())
	}
}

func TestSamplesAreValid(t *testing.T) {
	samples, err := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*.yaml"))
	if err != nil || len(samples) == 0 {
		t.Fatalf("no samples: %v", err)
	}
	for _, path := range samples {
		if filepath.Base(path) == "kustomization.yaml" {
			continue // lists the others
		}
		if _, err := Load(path); err != nil {
			t.Error(err)
		}
	}
}

func TestLoadNamesTheFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(path, []byte(header+"spec: {protocol: X}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Load(path)
	if err == nil {
		t.Fatal("accepted")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, path+": spec.") {
			t.Errorf("a line without file and field: %q", line)
		}
	}
	if _, err := Load(path + ".none"); err == nil || !strings.Contains(err.Error(), "bad.yaml.none") {
		t.Errorf("a missing file: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	samples, _ := filepath.Glob(filepath.Join("..", "..", "config", "samples", "*.yaml"))
	for _, path := range samples {
		data, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		c, err := Decode(data)
		if err != nil {
			return
		}
		for _, a := range c.Spec.Sites { // what is accepted has a way between every pair
			for _, b := range c.Spec.Sites {
				if w := c.Spec.Way(a.Name, b.Name); !w.possible() || a.Name == b.Name && w != (Way{}) {
					t.Errorf("%s to %s: %+v", a.Name, b.Name, w)
				}
				if there, back := c.Spec.RTT(a.Name, b.Name), c.Spec.RTT(b.Name, a.Name); there != back {
					t.Errorf("%s-%s: %s there and %s back", a.Name, b.Name, there, back)
				}
			}
		}
	})
}

// A shard whose home is not given has that of its turn.
func TestHomes(t *testing.T) {
	c, err := Decode(
		[]byte(header +
			"spec: {protocol: CURP, sites: [{name: a}, {name: b}, {name: c}], shards: 6, homes: [c, '', b]}\n"))
	if err != nil {
		t.Fatal(err)
	}
	var homes []string
	for i := range c.Spec.ShardCount() {
		homes = append(homes, c.Spec.Home(i))
	}
	if got := strings.Join(homes, " "); got != "c b b a b c" {
		t.Errorf("homes %s", got)
	}
}
