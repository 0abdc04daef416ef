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
		"--members=0":            "member",
		"--operations=sing":      "--operations",
		"--operations=rmw":       "read-modify-write",
		"--before=sing":          "--before",
		"--faults=rain":          "--faults",
		"--max-memory=much":      "--max-memory",
		"--for=-1s":              "--for",
		"--output=yaml":          "--output",
		"--operations=4: read":   "--operations",
		"--operations=fence":     "fence",
		"--deviations=several":   "--deviations",
		"--faults=timeout=sixty": "--faults",
		"--faults=timeout=16":    "--faults",
	} {
		if _, err := exploreWith(t.Context(), args); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", args, err, want)
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
