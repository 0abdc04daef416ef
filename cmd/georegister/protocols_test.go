package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/capability"
)

func protocols(args ...string) (string, error) {
	c := newProtocolsCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(args)
	err := c.ExecuteContext(context.Background())
	return out.String(), err
}

// manifestOf writes a manifest with that spec, and returns where it is.
func manifestOf(t *testing.T, spec string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "manifest.yaml")
	text := "apiVersion: georegister.io/v1alpha1\nkind: GeoRegisterCluster\nmetadata: {name: demo}\nspec:\n" + spec
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Every protocol is measured at the manifest's distances, by the round trips that it takes.
func TestProtocolsOfAManifest(t *testing.T) {
	t.Parallel()
	manifest := manifestOf(t,
		"  protocol: Gryff\n  sites: [{name: ca}, {name: va}, {name: ir}]\n  wan: {links: [{between: [ca, va], rtt: "+
			"72ms}, "+
			"{between: [ca, ir], rtt: 151ms}, {between: [va, ir], rtt: 88ms}]}\n")
	out, err := protocols("-f", manifest, "--clients", "2", "--by-site", "--conflict", "0", "--workload", "50:40:10")
	if err != nil {
		t.Fatal(err)
	}
	figures := map[string][]string{} // by protocol and site
	for line := range strings.Lines(out) {
		if fields := strings.Fields(strings.ReplaceAll(line, " *", "")); len(fields) == 8 {
			figures[fields[0]+" "+fields[1]] = fields[2:]
		}
	}
	for _, p := range capability.Table() {
		if figures[p.Name+" all"] == nil {
			t.Errorf("%s is missing in\n%s", p.Name, out)
		}
	}
	if !strings.Contains(out, "Gryff *") {
		t.Errorf("the manifest's own protocol is not marked in\n%s", out)
	}
	// From ca the nearest other is va, 72 ms away: Gryff reads in one round trip and writes in two, Gus in one each.
	for name, want := range map[string][]string{
		"Gryff ca": {"72", "144"}, "Gus ca": {"72", "72"}, "Gus ir": {"88", "88"},
	} {
		got := figures[name]
		if len(got) != 6 || !strings.HasPrefix(got[0], want[0]) || !strings.HasPrefix(got[2], want[1]) {
			t.Errorf("%s: reads and writes take %v, want %v", name, got, want)
		}
	}
	if got := figures["Gus ca"]; len(got) == 6 && got[4] != "-" {
		t.Errorf("Gus has no rmws: %v", got)
	}
}

// The manifest's shards, and its fragments, are in what is compared; what is not is said.
func TestProtocolsOfAManifestWithShardsAndFragments(t *testing.T) {
	t.Parallel()
	const sites = "  sites: [{name: a}, {name: b}, {name: c}, {name: d}, {name: e}]\n"
	even := []string{"--rtt",
		"a-b=20ms,a-c=20ms,a-d=20ms,a-e=20ms,b-c=20ms,b-d=20ms,b-e=20ms,c-d=20ms,c-e=20ms,d-e=20ms",
		"--clients", "1", "--duration", "1s", "--conflict", "0", "--workload", "50:50:0"}
	run := func(spec string) string {
		out, err := protocols(append([]string{"-f", manifestOf(t, spec+sites)}, even...)...)
		if err != nil {
			t.Fatal(err)
		}
		return out
	}
	out := run("  protocol: Gus\n  faultTolerance: 1\n  gus: {erasureCoding: {dataFragments: 3}}\n")
	for _, want := range []string{"5 sites, 2 (CURP: 5) shards", "Fragments: of values of more than 65536 bytes"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	p50 := map[string]string{} // of reads and writes
	for line := range strings.Lines(out) {
		if f := strings.Fields(strings.Replace(line, " fragments", "-fragments", 1)); len(f) == 9 && f[1] == "*" {
			p50[f[0]] = f[3][:1] + " " + f[5][:1] // in tens of milliseconds
		}
	}
	if p50["Gus"] != "2 2" || p50["Gus-fragments"] != "4 4" {
		t.Errorf("reads and writes of whole values and of fragments take %v, want one round trip and two, in\n%s",
			p50, out)
	}
	one, four := run("  protocol: CURP\n  shards: 1\n"),
		run("  protocol: CURP\n  shards: 4\n  homes: [b]\n  curp: {witness: {placement: Dedicated}}\n")
	if strings.Contains(one, "Left out") || !strings.Contains(one, "5 sites, 1 shards;") ||
		strings.Contains(one, "fragments *") {
		t.Errorf("with one shard:\n%s", one)
	}
	if !strings.Contains(four, "Left out: spec.homes") ||
		!strings.Contains(four, "Left out: spec.curp.witness.placement") ||
		!strings.Contains(four, "5 sites, 4 shards;") {
		t.Errorf("with four shards, and homes:\n%s", four)
	}
	curp := func(out string) string {
		for line := range strings.Lines(out) {
			if strings.Contains(line, "CURP *") {
				return line
			}
		}
		return ""
	}
	if curp(one) == curp(four) {
		t.Errorf("four masters give what one gives: %s", curp(one))
	}
}

func TestProtocolsOfAManifestWithoutWAN(t *testing.T) {
	t.Parallel()
	near := manifestOf(t, "  protocol: Gus\n  sites: [{name: a}, {name: b, members: 2}, {name: c}]\n")
	out, err := protocols("-f", near, "--rtt", "a-b=10ms,a-c=20ms,b-c=15ms", "--clients", "1", "--duration",
		"300ms", "--by-site")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out, " b/2 ") ||
		!strings.Contains(out, "Not compared: protocol Gryff runs with 3, 5 or 7 replicas, not 4.") {
		t.Errorf("the second member of b, or why Gryff is left out, is missing in\n%s", out)
	}
	wide := manifestOf(t, "  protocol: Gus\n  sites: [{name: ca}, {name: va}, {name: ir}]\n  wan: {profile: gryff}\n")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"-f", near}, "the manifest has no spec.wan, which says how far its sites are apart: give --rtt"},
		{[]string{"-f", near, "--rtt", "a-b=10ms"}, "--rtt: no round trips of site c of the manifest"},
		{[]string{"-f", near, "--rtt", "a-b"}, "--rtt: "},
		{[]string{"-f", wide, "--rtt", "ca-va=1ms,ca-ir=1ms,va-ir=1ms"},
			"--rtt: the manifest has round trips, in spec.wan"},
		{[]string{"-f", wide, "--workload", "much"}, "--workload: "},
		{[]string{"-f", wide, "--conflict", "2"}, "--conflict: 2 is no probability"},
		{[]string{"-f", wide, "--clients", "0"}, "--clients: 0 clients"},
		{[]string{"-f", wide, "--duration", "-1s"}, "--duration: -1s; it must be positive"},
		{[]string{"-f", "nowhere.yaml"}, "read manifest: "},
		{[]string{"--conflict", "0.5"}, "--conflict: it is about the sites of a manifest; add -f"},
	} {
		if _, err := protocols(test.args...); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%v: %v, want %q", test.args, err, test.want)
		}
	}
}
