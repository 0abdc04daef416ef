package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/simulator"
)

// Deviations from plain runs are tried as the flags say, and their figures are told.
func TestSimulateDeviations(t *testing.T) {
	out, err := simulate("--protocol", "abd", "--sites", "3", "--deviations", "11", "--faults", "loss,crash")
	if err != nil || !strings.Contains(out, "a message is lost") || strings.Contains(out, "a disk is lost") {
		t.Errorf("%s, %v", out, err)
	}
	costs := filepath.Join(t.TempDir(), "costs")
	out, err = simulate("--protocol", "abd", "--sites", "3", "--deviations", "11", "--output", "json", "--costs", costs)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(costs)
	lines, named := strings.Count(string(text), "\n"), strings.Count(string(text), `"plain":"`)
	if err != nil || lines < 5 || named != lines {
		t.Errorf("costs of plain runs: %s, %v", text, err)
	}
	var all []simulator.Deviated
	begin := max(strings.Index(out, "["), 0)
	err = json.NewDecoder(strings.NewReader(out[begin:])).Decode(&all)
	if err != nil || len(all) < 50 || all[0].Runs == 0 {
		t.Errorf("%+v, %v", all, err)
	}
	for flags, want := range map[string]string{ // order is irrelevant: each is a command of its own
		"--deviations -2":                          "--deviations: -2",
		"--deviations 5 --soak 5":                  "--soak: the plain runs",
		"--deviations 5 --profile rss":             "--profile: the plain runs",
		"--deviations 5 --sites CA":                "--sites: \"CA\" is no number",
		"--protocol curp --deviations 5 --sites 4": "--sites: protocol CURP runs with",
	} {
		if _, err := simulate(strings.Fields(flags)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", flags, err, want)
		}
	}
}

// Plain runs have as many members as it takes for what the protocol is asked to tolerate to make a difference.
func TestPlainSites(t *testing.T) {
	// order is irrelevant: each is a case
	for name, want := range map[string]int{"abd": 5, "gus": 5, "gus-relaxed": 7, "gus-fragments": 5, "curp": 5} {
		s, err := findSimulated(name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := s.plainSites(""); err != nil || n != want {
			t.Errorf("%s: plain runs have %d members, %v; want %d", name, n, err, want)
		}
	}
}
