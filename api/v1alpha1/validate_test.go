package v1alpha1

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/replica/profile"
	"github.com/georegister/georegister/replica/register"
)

const header = "apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\n"

func TestMistakes(t *testing.T) {
	const abc = "spec:\n  protocol: Gryff\n  sites: [{name: a}, {name: b}, {name: c}]\n"
	links := func(l ...string) string { return header + abc + "  wan:\n    links:\n" + strings.Join(l, "") }
	const ab, bc, ca = "    - {between: [a, b], rtt: 10ms}\n", "    - {between: [b, c], rtt: 20ms, jitter: 1ms}\n",
		"    - {between: [c, a], rtt: 30ms}\n"

	tests := []struct {
		name, manifest string
		want           []string
	}{
		{"nothing", "# only a comment\n", []string{"empty manifest; start from one of config/samples"}},
		{"a text", "some text\n", []string{"expected a GeoRegisterCluster, not a string; start from one of config/samples"}},
		{"two documents", header + abc + "---\n" + header + abc,
			[]string{"more than one document; keep one GeoRegisterCluster per file"}},
		{"wrong kind", "apiVersion: v1\nkind: Pod\nmetadata: {name: demo}\n" + abc, []string{
			`apiVersion: Unsupported value: "v1": supported values: "georegister.io/v1alpha1"`,
			`kind: Unsupported value: "Pod": supported values: "GeoRegisterCluster"`}},
		{"no name", strings.Replace(header, "demo", "''", 1) + abc,
			[]string{`metadata.name: Required value: give a name of lower case letters, digits and hyphens`}},
		{"long name", strings.Replace(header, "demo", "a-cluster-of-registers", 1) + abc,
			[]string{`metadata.name: Invalid value: "a-cluster-of-registers": must have at most 20 characters`}},
		{"unknown field", header + abc + "  replicas: 3\n", []string{`unknown field "spec.replicas"`}},
		{"unknown nested field", header + strings.Replace(abc, "{name: b}", "{name: b, zone: z}", 1),
			[]string{`unknown field "spec.sites[1].zone"`}},
		{"repeated field", header + abc + "  protocol: ABD\n",
			[]string{"not valid YAML: yaml: unmarshal errors:\n  line 7: key \"protocol\" already set in map"}},
		{"wrong type", header + abc + "  shards: many\n",
			[]string{`spec.shards: expected a whole number of 32 bits, not a string`}},
		{"wrong type of a list", header + "spec: {protocol: Gryff, sites: 3}\n",
			[]string{`spec.sites: expected a list, not a number`}},
		{"unknown protocol", header + strings.Replace(abc, "Gryff", "Raft", 1),
			[]string{`spec.protocol: Unsupported value: "Raft": supported values: "ABD", "Gryff"`}},
		{"no protocol", header + strings.Replace(abc, "protocol: Gryff", "shards: 2", 1),
			[]string{`spec.protocol: Required value: use one of ABD, Gryff`}},
		{"protocol in another case", header + strings.Replace(abc, "Gryff", "gryff", 1),
			[]string{`spec.protocol: Unsupported value: "gryff": supported values: "ABD", "Gryff"`}},
		{"no sites", header + "spec: {protocol: ABD}\n", []string{`spec.sites: Required value: name at least one site`}},
		{"two sites of one name", header + "spec:\n  protocol: Gryff\n  sites: [{name: a}, {name: b}, {name: a}]\n", []string{
			`spec.sites[2].name: Duplicate value: "a": give every site a name of its own, or set members of the first one`}},
		{"site name", header + strings.Replace(abc, "name: b", "name: B_1", 1), []string{
			`spec.sites[1].name: Invalid value: "B_1": must be a DNS label: lower case letters, digits and hyphens, ` +
				`with a letter or digit at both ends`}},
		{"long site name", header + strings.Replace(abc, "name: b", "name: northern-virginia", 1),
			[]string{`spec.sites[1].name: Invalid value: "northern-virginia": must have at most 15 characters`}},
		{"even", header + strings.Replace(abc, ", {name: c}", "", 1), []string{
			`spec.sites: Invalid value: 2: protocol Gryff runs with 3, 5 or 7 replicas, not 2, counted over all sites; ` +
				`add or remove sites or members`}},
		{"even by members", header + strings.Replace(abc, "name: c", "name: c, members: 2", 1), []string{
			`spec.sites: Invalid value: 4: protocol Gryff runs with 3, 5 or 7 replicas, not 4, counted over all sites; ` +
				`add or remove sites or members`}},
		{"too large", header + strings.Replace(abc, "name: c", "name: c, members: 7", 1), []string{
			`spec.sites: Invalid value: 9: protocol Gryff runs with 3, 5 or 7 replicas, not 9, counted over all sites; ` +
				`add or remove sites or members`}},
		{"no members", header + strings.Replace(abc, "name: c", "name: c, members: 0", 1), []string{
			`spec.sites[2].members: Invalid value: 0: must be at least 1; leave the site out if it has no members`}},
		{"shards", header + abc + "  shards: 0\n", []string{`spec.shards: Invalid value: 0: must be between 1 and 256`}},
		{"durability", header + abc + "  storage: {durability: Maybe}\n",
			[]string{`spec.storage.durability: Unsupported value: "Maybe": supported values: "Sync", "Interval", "Memory"`}},
		{"interval without Interval", header + abc + "  storage: {interval: 1s}\n", []string{
			`spec.storage.interval: Forbidden: durability Sync has no interval; remove it or set durability: Interval`}},
		{"interval", header + abc + "  storage: {durability: Interval, interval: 1h}\n",
			[]string{`spec.storage.interval: Invalid value: "1h": must be between 1ms and 1m0s`}},
		{"limits", header + abc + "  limits: {keyBytes: -1, valueBytes: 1000000000}\n", []string{
			`spec.limits.keyBytes: Invalid value: -1: must be between 1 and 65536`,
			`spec.limits.valueBytes: Invalid value: 1000000000: must be between 1 and 16777216`}},
		{"unknown profile", header + abc + "  wan: {profile: mars}\n",
			[]string{`spec.wan.profile: Unsupported value: "mars": supported values: "gryff", "rss"`}},
		{"site that the profile lacks",
			header + "spec:\n  protocol: ABD\n  sites: [{name: ca}, {name: tokyo}, {name: va}]\n  wan: {profile: rss}\n",
			[]string{`spec.sites[1].name: Invalid value: "tokyo": profile rss has no such site; use ca, va, ir, ` +
				`or give wan.links instead of the profile`}},
		{"empty wan", header + abc + "  wan: {}\n",
			[]string{`spec.wan: Required value: give a profile or links, or remove wan for a network without delay`}},
		{"profile and links", links(ab, bc, ca) + "    profile: gryff\n",
			[]string{`spec.wan.links: Forbidden: give either profile or links; remove one of them`}},
		{"missing pair", links(ab, ca), []string{
			`spec.wan.links: Required value: no link between b and c; add {between: [b, c], rtt: ...}`}},
		{"negative", links(ab, strings.Replace(bc, "20ms", "-20ms", 1), ca),
			[]string{`spec.wan.links[1].rtt: Invalid value: "-20ms": must not be negative`}},
		{"negative jitter", links(ab, strings.Replace(bc, "1ms", "-1ms", 1), ca),
			[]string{`spec.wan.links[1].jitter: Invalid value: "-1ms": must not be negative`}},
		{"far away", links(ab, strings.Replace(bc, "20ms", "20m", 1), ca),
			[]string{`spec.wan.links[1].rtt: Invalid value: "20m": must be between 0s and 10s`}},
		{"no rtt", links(strings.Replace(ab, ", rtt: 10ms", "", 1), bc, ca),
			[]string{`spec.wan.links[0].rtt: Required value: write it like 72ms; 0s for no delay`}},
		{"not a duration", links(ab, bc, strings.Replace(ca, "30ms", "30 msec", 1)),
			[]string{`spec.wan.links[2].rtt: Invalid value: "30 msec": not a duration; write it like 72ms or 1.5s`}},
		{"a number is no duration", links(ab, bc, strings.Replace(ca, "30ms", "30", 1)),
			[]string{`spec.wan.links.rtt: expected a duration with its unit, such as 72ms, not a number`}},
		{"unknown site", links(ab, strings.Replace(bc, "[b, c]", "[b, d]", 1), ca), []string{
			`spec.wan.links[1].between[1]: Invalid value: "d": no such site in spec.sites; add it there or correct the name`}},
		{"duplicate pair", links(ab, bc, ca, strings.Replace(ab, "a, b", "b, a", 1)), []string{
			`spec.wan.links[3].between: Duplicate value: "b-a": spec.wan.links[0] is the same pair; remove one of them`}},
		{"to itself", links(ab, bc, ca, strings.Replace(ab, "a, b", "a, a", 1)), []string{
			`spec.wan.links[3].between: Invalid value: "a, a": name two different sites, like [a, b]`}},
		{"three ends", links(ab, bc, ca, strings.Replace(ab, "a, b", "a, b, c", 1)), []string{
			`spec.wan.links[3].between: Invalid value: "a, b, c": name two different sites, like [a, b]`}},
		{"several mistakes", header + strings.Replace(abc, "Gryff", "Raft", 1) + "  shards: -1\n", []string{
			`spec.protocol: Unsupported value: "Raft": supported values: "ABD", "Gryff"`,
			`spec.shards: Invalid value: -1: must be between 1 and 256`}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := Decode([]byte(tt.manifest))
			if err == nil {
				t.Fatal("accepted")
			}
			if got, want := err.Error(), strings.Join(tt.want, "\n"); got != want {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
		})
	}
	if _, err := Decode([]byte(links(ab, bc, ca))); err != nil {
		t.Errorf("the manifest that the mistakes were made in: %v", err)
	}
}

// What the API server will enforce from the markers must be what Validate enforces.
func TestMarkersNameWhatThereIs(t *testing.T) {
	source, err := os.ReadFile("types.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, enum := range [][]string{capability.Names(), profile.Names()} {
		marker := "+kubebuilder:validation:Enum=" + strings.Join(enum, ";") + "\n"
		if !strings.Contains(string(source), marker) {
			t.Errorf("types.go lacks the marker %q", marker)
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
	if d := c.Spec.Delay("a", "b"); d != (Delay{}) {
		t.Errorf("a network without wan delays by %v", d)
	}
}

func TestDelay(t *testing.T) {
	c, err := Load(filepath.Join("..", "..", "config", "samples", "gryff-five-regions.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Spec.Delay("jp", "ir"); d.RTT != 220*time.Millisecond {
		t.Errorf("jp-ir: %v", d)
	}
	c, err = Decode([]byte(header + `spec:
  protocol: ABD
  sites: [{name: a, members: 2}, {name: b}]
  storage: {durability: Interval, interval: 20ms}
  wan: {links: [{between: [b, a], rtt: 1.5s, jitter: 3ms}]}
`))
	if err != nil {
		t.Fatal(err)
	}
	if d := c.Spec.Delay("a", "b"); d != (Delay{1500 * time.Millisecond, 3 * time.Millisecond}) {
		t.Errorf("a-b: %v", d)
	}
	if d := c.Spec.Delay("a", "a"); d != (Delay{}) {
		t.Errorf("within a: %v", d)
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
		for _, a := range c.Spec.Sites { // what is accepted has a delay for every pair
			for _, b := range c.Spec.Sites {
				if d := c.Spec.Delay(a.Name, b.Name); d.RTT < 0 || d.Jitter < 0 {
					t.Errorf("%s-%s: %v", a.Name, b.Name, d)
				}
			}
		}
	})
}
