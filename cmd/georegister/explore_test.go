package main

import (
	"bytes"
	"context"
	"encoding/json"
	"strings"
	"testing"
)

func exploreWith(ctx context.Context, args ...string) (string, error) {
	c := newExploreCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	var out bytes.Buffer
	c.SetOut(&out)
	c.SetErr(&bytes.Buffer{})
	c.SetArgs(args)
	err := c.ExecuteContext(ctx)
	return out.String(), err
}

func TestExploreJSON(t *testing.T) {
	out, err := exploreWith(t.Context(), "--operations", "write; write", "-o", "json")
	if err != nil {
		t.Fatal(err)
	}
	var report exploredReport
	decoder := json.NewDecoder(strings.NewReader(out))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&report); err != nil {
		t.Fatal(err)
	}
	if report.Verdict != "right" || !report.Complete || report.States < 50 || report.Deviations != nil {
		t.Errorf("%+v", report)
	}
	out, err = exploreWith(t.Context(), "--operations", "write", "--faults", "crash", "--deviations", "1")
	if err != nil || !strings.Contains(out, "all orders with up to 1 deviations") {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestExploreRefuses(t *testing.T) {
	for args, want := range map[string]string{
		"--protocol=paxos":       "--protocol",
		"--members=0":            "--members",
		"--members=64":           "--members",
		"--operations=sing":      "--operations",
		"--operations=rmw":       "read-modify-write",
		"--before=sing":          "--before",
		"--before=rmw":           "--before",
		"--faults=rain":          "--faults",
		"--max-memory=much":      "--max-memory",
		"--for=-1s":              "--for",
		"--output=yaml":          "--output",
		"--operations=4: read":   "--operations",
		"--operations=fence":     "fence",
		"--deviations=several":   "--deviations",
		"--faults=timeout=sixty": "--faults",
		"--faults=timeout=16":    "--faults",
		"--faults=loss=2, loss":  "loss is there twice",
		"--deviations=-2":        "--deviations",
	} {
		if _, err := exploreWith(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
		}
	}
}

// What does not go together is refused by the flag that is to be changed.
func TestExploreRefusesTogether(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"--protocol", "curp", "--members", "2"}, "--members: 2 members; with masters"},
		{[]string{"--protocol", "curp", "--faults", "takeover=2"}, "--faults: takeover=2; with masters"},
		{
			[]string{"--members", "9", "--operations", "write a, write b, write c, write d"},
			"--operations, --before: 40",
		},
	} {
		if _, err := exploreWith(t.Context(), c.args...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v: %v, want %q", c.args, err, c.want)
		}
	}
}

// What ends before it is complete is a failure.
func TestExploreStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := exploreWith(ctx); err == nil || !strings.Contains(err.Error(), "not explored to its end") {
		t.Errorf("an ended context: %v", err)
	}
	_, err := exploreWith(t.Context(), "--for", "1ns")
	if err == nil || !strings.Contains(err.Error(), "1ns have passed") {
		t.Errorf("no time: %v", err)
	}
}
