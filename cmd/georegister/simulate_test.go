package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

func simulate(args ...string) (string, error) {
	c := newSimulateCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(args)
	err := c.Execute()
	return out.String(), err
}

// figures is what programs read from -o json.
type figures struct {
	Count        int     `json:"count"`
	P50          float64 `json:"p50_ms"`
	P90          float64 `json:"p90_ms"`
	P99          float64 `json:"p99_ms"`
	P999         float64 `json:"p999_ms"`
	Max          float64 `json:"max_ms"`
	RoundTrips   float64 `json:"round_trips"`
	FastPathRate float64 `json:"fast_path_rate"`
}

func TestSimulateJSON(t *testing.T) {
	args := []string{
		"--protocol", "abd", "--profile", "gryff", "--sites", "3", "--clients", "4", "--duration", "12s", "-o", "json",
	}
	out, err := simulate(args...)
	if err != nil {
		t.Fatal(err)
	}
	var report struct {
		Verdict    string
		Operations map[string]struct {
			Overall figures
			Sites   map[string]figures
		}
	}
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Verdict != "linearizable" {
		t.Errorf("verdict %q", report.Verdict)
	}
	// California and Virginia are 72 ms apart, Ireland and Virginia 88: a read is one round trip to the nearer.
	for site, want := range map[string]float64{"CA": 72, "VA": 72, "IR": 88} {
		f := report.Operations["read"].Sites[site]
		if f.Count == 0 || f.P50 < want || f.P50 > want+1 || f.RoundTrips < 1 {
			t.Errorf("reads in %s: %+v, want a p50 of %v ms and a local hop", site, f, want)
		}
		if w := report.Operations["write"].Sites[site]; w.P50 < 2*want || w.P50 > 2*want+2 || w.RoundTrips != 2 {
			t.Errorf("writes in %s: %+v, want two round trips of %v ms", site, w, want)
		}
	}
	if again, err := simulate(args...); err != nil || again != out {
		t.Errorf("the same flags gave another result: %v\n%s", err, again)
	}
}

func TestSimulateFaults(t *testing.T) {
	out, err := simulate("--protocol", "abd", "--rtt", "a-b=20ms,b-c=30ms,a-c=10ms", "--clients", "2", "--duration",
		"5s", "--faults", "crash,loss,partition")
	if err != nil || !strings.Contains(out, "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = simulate("--protocol", "abd", "--soak", "20", "--sites", "3")
	var many, few int
	_, scanErr := fmt.Sscanf(out, "abd: %d schedules with at least 3 faults that hit work in flight, %d with fewer",
		&many, &few)
	if err != nil || scanErr != nil || many+few != 20 || !strings.Contains(out, "changes of members") {
		t.Errorf("%v, %v\n%s", err, scanErr, out)
	}
	digests := func(seed string) (all []string) {
		out, err := simulate("--protocol", "abd", "--soak", "110", "--sites", "3", "--faults", "crash",
			"--digests", "--seed", seed)
		if err != nil {
			t.Error(err)
		}
		for line := range strings.Lines(out) {
			if what, digest, ok := strings.Cut(line, ": "); ok && strings.HasPrefix(what, "digest") {
				all = append(all, digest)
			}
		}
		return all
	}
	if one, same, other := digests("1"), digests("1"), digests("2"); len(one) != 2 || !slices.Equal(one, same) ||
		one[0] == other[0] || one[0] == one[1] {
		t.Errorf("digests of the same schedules: %v, %v; of others: %v", one, same, other)
	}
	directed := func(protocol string) string {
		out, err := simulate("--protocol", protocol, "--soak", "10", "--sites", "5", "--faults", "directed",
			"--digests")
		if err != nil {
			t.Error(err)
		}
		_, digest, _ := strings.Cut(out, "digest of the schedules 1 to 10: ")
		return digest
	}
	whole, again, fragments := directed("gus"), directed("gus"), directed("gus-fragments")
	if whole == "" || whole != again || whole == fragments {
		t.Errorf("digests of the same directed schedules: %s, %s; of another protocol's: %s", whole, again, fragments)
	}
	out, err = simulate("--protocol", "abd", "--soak", "2", "--sites", "3", "--lose", "1")
	if err != nil || !strings.Contains(out, "sets of disks that were lost for good, each in a run of its own: ") {
		t.Errorf("%v\n%s", err, out)
	}
}

// nine are sites 100 ms from each other.
func nine() string {
	var pairs []string
	for a := 'a'; a <= 'i'; a++ {
		for b := a + 1; b <= 'i'; b++ {
			pairs = append(pairs, string(a)+"-"+string(b)+"=100ms")
		}
	}
	return strings.Join(pairs, ",")
}

// overall is what simulate measures with flags, by kind of operation, over all sites.
func overall(t *testing.T, flags string) map[string]figures {
	t.Helper()
	out, err := simulate(strings.Fields(flags + " -o json")...)
	var report struct {
		Operations map[string]struct{ Overall figures }
	}
	if err == nil {
		err = json.Unmarshal([]byte(out), &report)
	}
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]figures{}
	for kind, f := range report.Operations {
		all[kind] = f.Overall
	}
	return all
}

// Each schedule of each protocol has a cost.
func TestCosts(t *testing.T) {
	costs := filepath.Join(t.TempDir(), "costs")
	variants := catalog.Variants()
	if testing.Short() {
		variants = variants[:1]
	}
	for _, v := range variants {
		out, err := simulate("--protocol", v.Name, "--soak", "3", "--costs", costs)
		text, readErr := os.ReadFile(costs)
		if err != nil || readErr != nil {
			t.Fatalf("%s: %v, %v\n%s", v.Name, err, readErr, out)
		}
		seed := uint64(0)
		for lines := json.NewDecoder(bytes.NewReader(text)); lines.More(); {
			var c simulator.Cost
			err := lines.Decode(&c)
			seed++
			if err != nil || c.Seed != seed || c.Reads+c.Updates <= 0 || c.Lasted <= 0 || c.Messages == 0 ||
				c.Bytes < c.Messages || c.Batches == 0 || c.Stored == 0 || c.Held == 0 {
				t.Errorf("%s, schedule %d: %v, %+v", v.Name, seed, err, c)
			}
		}
		if seed != 3 {
			t.Errorf("%s: costs of %d schedules, want 3", v.Name, seed)
		}
	}
}

// What a read returns that enough members hold, it returns after one round trip; with majorities it waits for the write
// to end.
func TestSimulateFaultTolerance(t *testing.T) {
	fast := map[string]float64{}
	for _, tolerance := range []string{"", " --fault-tolerance 2"} {
		operations := overall(t,
			"--protocol gus --sites a,b,c,d,e,f,g --clients 2 --duration 12s --conflict 0.5 --rtt "+nine()+tolerance)
		fast[tolerance] = operations["read"].FastPathRate
	}
	if fast[" --fault-tolerance 2"] <= fast[""] {
		t.Errorf("reads in one round trip: %v", fast)
	}
	out, err := simulate(
		strings.Fields("--protocol gus --clients 1 --duration 3s --fault-tolerance 2 --rtt " + nine())...)
	if err != nil || !strings.Contains(out, "verdict: linearizable") {
		t.Errorf("nine sites: %v\n%s", err, out)
	}
	out, err = simulate("--protocol", "gus", "--soak", "4", "--fault-tolerance", "2", "--faults",
		"crash,wipe,partition")
	if err != nil || !strings.Contains(out, "gus: 4 schedules") {
		t.Errorf("%v\n%s", err, out)
	}
}

// A large write waits for k + f members before Gus writes, and a large read for k - 1 others after Gus has read.
func TestSimulateFragments(t *testing.T) {
	for fragments, trips := range map[string]float64{"": 1, " --data-fragments 3": 2} {
		for kind, operations := range overall(t,
			"--protocol gus --clients 2 --duration 12s --conflict 0 --fault-tolerance 1"+fragments) {
			// The first reads find nothing yet.
			if got := operations.RoundTrips; got > trips || got < trips-0.05 {
				t.Errorf("%q: %ss take %v round trips, want %v", fragments, kind, got, trips)
			}
		}
	}
	out, err := simulate(strings.Fields("--protocol gus --data-fragments 3 --clients 2 --duration 20s --faults all")...)
	if err != nil || !strings.Contains(out, "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = simulate("--protocol", "gus", "--soak", "20", "--data-fragments", "3")
	if err != nil || !strings.Contains(out, "verdict: linearizable") || !strings.Contains(out, "shrink 0 (0)") {
		t.Errorf("%v\n%s", err, out)
	}
}

// Schedules of a soak with fragments are those of the simulator's own searches for mistakes of them.
func TestSimulateSoaksFragmentsAsTheSearchesDo(t *testing.T) {
	same := slices.DeleteFunc(faults.Kinds(), func(k faults.Kind) bool { return k == faults.Change })
	for _, c := range []struct {
		tolerance, fragments int
		kinds                []faults.Kind
		sizes                []int
	}{
		{0, 3, faults.Kinds(), []int{5, 7, 9}}, {0, 3, same, []int{3, 4, 5, 7, 9}},
		{1, 3, faults.Kinds(), []int{5, 7, 9}},
		{0, 1, faults.Kinds(), []int{3, 4, 5, 7, 9}}, {2, 1, faults.Kinds(), []int{5, 7, 9}},
		{2, 3, same, []int{5, 7, 9}},
	} {
		s, err := findSimulated("gus", c.tolerance, c.fragments)
		if err != nil {
			t.Fatal(err)
		}
		sizes, err := s.sizes(c.kinds)
		if err != nil || !slices.Equal(sizes, c.sizes) {
			t.Errorf("k = %d, f = %d: %v members, %v, want %v", c.fragments, c.tolerance, sizes, err, c.sizes)
		}
		o := s.options(c.kinds)
		if o.Large != 64 || o.Losses != max(c.tolerance, 1) || !o.Keep || o.RMWs != schedule.FewRMWs {
			t.Errorf("k = %d, f = %d: %+v", c.fragments, c.tolerance, o)
		}
	}
}

func TestSimulateCURP(t *testing.T) {
	out, err := simulate("--protocol", "CURP", "--profile", "gryff", "--sites", "CA,VA,IR", "--clients", "2",
		"--duration", "12s", "--faults", "crash,pause,lose")
	if err != nil || !strings.Contains(out, "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out)
	}
	out, err = simulate("--protocol", "curp", "--soak", "20", "--sites", "3")
	if err != nil || !strings.Contains(out, "curp: ") || !strings.Contains(out, "masters replaced: ") {
		t.Errorf("%v\n%s", err, out)
	}
	if _, err = simulate("--protocol", "curp", "--soak", "5", "--faults", "fire"); err == nil ||
		!strings.Contains(err.Error(), `--faults: unknown fault "fire"`) {
		t.Errorf("%v", err)
	}
}

func TestSimulateHistory(t *testing.T) {
	file := filepath.Join(t.TempDir(), "history.jsonl")
	_, err := simulate("--sites", "ca,va,ir", "--clients", "2", "--duration", "3s", "--workload", "1:1:1", "--faults",
		"crash", "--history", file)
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	if err := runCheck(t.Context(), nil, &out, file, checkFlags{}); err != nil ||
		!strings.Contains(out.String(), "verdict: linearizable") {
		t.Errorf("%v\n%s", err, out.String())
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"site":"CA"`, `"kind":"read"`, `"kind":"write"`, `"kind":"rmw"`} {
		if !bytes.Contains(text, []byte(want)) {
			t.Errorf("the history has no %s", want)
		}
	}
}

func TestSimulateRefuses(t *testing.T) {
	for flags, want := range map[string]string{
		"--protocol paxos":              `--protocol: unknown protocol "paxos"`,
		"--profile mars":                `--profile: unknown profile "mars"`,
		"--profile gryff --rtt a-b=1ms": "--rtt and --profile both name a network",
		"--rtt a-b=1ms,b-c=2ms":         "--rtt: round trip a-c is missing",
		"--rtt a-b=-1ms":                "must be positive",
		"--sites 4": "--sites: protocol Gryff runs with 3, 5 or 7 " +
			"replicas, not 4",
		"--sites 9":                         "--sites: profile gryff has 5 sites, not 9",
		"--sites CA,VA,XX":                  `--sites: profile gryff has no site "XX"`,
		"--sites CA,VA,CA":                  `--sites: site "CA" is named twice`,
		"--workload half":                   "--workload: unknown workload",
		"--workload gryff-a --protocol abd": "protocol ABD has no read-modify-write",
		"--conflict 2":                      "--conflict: 2 is no probability",
		"--clients 0":                       "--clients: 0 clients",
		"--duration 0s":                     "--duration: 0s",
		"--duration 10000h": "--duration: 10000h0m0s of virtual time; give at " +
			"most 24h0m0s",
		"--clients 1000000000": "--clients: 1000000000 clients at each site; give " +
			"at most 10000",
		"--conflict NaN":                  "--conflict: NaN is no probability",
		"--workload 1e9:NaN:1":            "--workload:",
		"--rtt a-b=1h,b-c=1h,a-c=1h":      "--rtt: the longest round trip is 1h0m0s",
		"--faults fire":                   `--faults: unknown fault "fire"`,
		"--keys none":                     "--keys: unknown keys",
		"--value-bytes 70 --deviations 5": "--value-bytes: the plain runs of --deviations are given",
		"--value-bytes 70 --soak 5":       "--value-bytes: schedules of --soak draw their own",
		"--value-bytes -1":                "--value-bytes: -1; give 0 to 1048576",
		"--value-bytes 70 --workload 1:1:1": "--value-bytes with this --workload: workload: values of 70 bytes can't " +
			"be added to",
		"--fault-tolerance 0": "--fault-tolerance: 0; give at least 1",
		"--fault-tolerance 3": "--fault-tolerance: 5 replicas can lose from 1 to 2",
		"--protocol abd --fault-tolerance 1": "--fault-tolerance: protocol ABD survives the " +
			"loss of any minority",
		"--protocol gus --fault-tolerance 3": "--fault-tolerance: 5 replicas can " +
			"lose from 1 to 2",
		"--protocol curp --fault-tolerance 3": "--fault-tolerance: 5 replicas can " +
			"lose from 1 to 2",
		"--protocol gus --soak 5 --fault-tolerance 4": "--fault-tolerance: for n > 5 and n " +
			"= 2f + 1",
		"--soak 5 --lose 1 --digests": "--digests: it is of the schedules " +
			"of --soak",
		"--soak 5 --lose 1 --faults directed,mix": "--lose: directed schedules have members that suspect",
		"--faults directed":                       `--faults: unknown fault "directed"`,
		"--digests": "--digests: it is of the schedules " +
			"of --soak",
		"--soak 5 --learn --costs x":        "--costs: it is of the schedules",
		"--protocol all --soak 5 --costs x": "--costs: it is of the schedules",
		"--costs x":                         "--costs: it is of the schedules",
		"--protocol gus --soak 5 --sites 8": "--sites: protocol Gus runs with 3, " +
			"4, 5, 7 or 9 replicas, not 8",
		"--protocol curp --soak 5 --fault-tolerance 1": "--fault-tolerance: schedules of " +
			"--soak draw it",
		"--protocol raft --soak 5 --fault-tolerance 1": "--fault-tolerance: protocol Raft " +
			"survives",
		"--data-fragments 0": "--data-fragments: 0; give at least 1",
		"--data-fragments 3": "--data-fragments: protocol Gryff " +
			"stores values whole; leave it out, or use --protocol gus",
		"--protocol curp --data-fragments 1": "--data-fragments: protocol CURP " +
			"stores values whole",
		"--protocol gus --data-fragments 4": "--data-fragments: 5 replicas of " +
			"which 1 may be lost can have from 1 to 3 data fragments (k <= n - 2f), not 4; lower",
		"--protocol gus --data-fragments 3 --sites 3": "--data-fragments: 3 replicas",
		"--protocol gus --data-fragments 8 --soak 5": "--data-fragments: 9 replicas of " +
			"which 1 may be lost can have from 1 to 7",
		"--protocol gus --data-fragments 2 --fault-tolerance 2": "--data-fragments: 5 replicas of " +
			"which 2 may be lost",
		"--protocol gus --data-fragments 3 --soak 5 --sites 3 --faults crash": "--data-fragments: 3 replicas",
		"--protocol gus --data-fragments 1 --soak 5 --fault-tolerance 9": "--fault-tolerance: 9 replicas can " +
			"lose from 1 to 4",
		"-o xml":                                 `--output: unknown format "xml"`,
		"--soak -1":                              "--soak: -1 schedules",
		"--soak 5 --lose -1":                     "--lose: -1; give how many answers",
		"--lose 1":                               "--lose: 1; give how many answers",
		"--soak 5 --sites CA":                    "--sites:",
		"--soak 5 --clients 3":                   "--clients: schedules of --soak",
		"--history /":                            "--history: open /",
		"--unknown":                              "unknown flag",
		"--protocol abd --workload 1:1:0 --keys": "flag needs an argument",
	} {
		out, err := simulate(strings.Fields(flags)...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
		if out != "" {
			t.Errorf("%s: printed %q", flags, out)
		}
	}
}

// An experiment, and a soak, end soon after their context does, and say how far they came.
func TestSimulateEnds(t *testing.T) {
	for flags, want := range map[string]string{
		"--protocol abd --duration 24h": "of virtual time",
		"--protocol abd --soak 1000000": "stopped after ",
	} {
		ctx, cancel := context.WithCancel(t.Context())
		c := newSimulateCommand()
		c.SilenceErrors, c.SilenceUsage = true, true
		c.SetOut(io.Discard)
		c.SetErr(told{cancel}) // it is under way
		c.SetArgs(strings.Fields(flags))
		if err := c.ExecuteContext(ctx); !errors.Is(err, context.Canceled) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", flags, err)
		}
	}
}

// told ends something once anything is written.
type told struct{ end func() }

func (w told) Write(p []byte) (int, error) {
	w.end()
	return len(p), nil
}
