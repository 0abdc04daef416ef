package main

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// What is written of a schedule is all of it, for every protocol and variant.
func TestSchedulesAreWrittenWhole(t *testing.T) {
	for _, v := range catalog.Variants() {
		s, err := findSimulated(v.Name, 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		kinds, err := s.parseFaults("all", true)
		if err != nil {
			t.Fatal(err)
		}
		options := s.options(kinds)
		if options.Members, err = s.sizes(kinds); err != nil {
			t.Fatal(err)
		}
		for seed := range uint64(20) {
			path := filepath.Join(t.TempDir(), "schedule.json")
			drawn := schedule.Draw(seed, options)
			drawn.Strikes = []schedule.Strike{{Message: 3, Lost: true}}
			drawn.Stops = []schedule.Stop{{Sync: 2, All: true, For: 7}}
			drawn.Redraws = []schedule.Redraw{{At: 5, Seed: 1 << 63}}
			if err := s.writeSchedule(path, drawn); err != nil {
				t.Fatal(err)
			}
			protocol, read, err := readSchedule(path)
			if err != nil {
				t.Fatal(err)
			}
			if protocol.name != s.name || !reflect.DeepEqual(read, drawn) {
				t.Fatalf("%s, seed %d: read\n%+v of %s, not\n%+v", v.Name, seed, read, protocol.name, drawn)
			}
		}
	}
}

// A schedule from a file runs, the search begins with those of a folder, and what is no schedule is refused.
func TestSimulateScheduleOfAFile(t *testing.T) {
	folder := t.TempDir()
	path := filepath.Join(folder, "one.json")
	s, err := findSimulated("abd", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writeSchedule(path, schedule.Draw(7, schedule.Options{})); err != nil {
		t.Fatal(err)
	}
	if out, err := simulate("--schedule", path); err != nil || !strings.Contains(out, "verdict: linearizable") {
		t.Errorf("%s, %v", out, err)
	}
	if out, err := simulate("--protocol", "abd", "--soak", "40", "--learn", "--corpus", folder); err != nil {
		t.Errorf("%s, %v", out, err)
	}
	if err := os.WriteFile(path, []byte(`{"protocol": "abd", "schedule": {"Weather": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, want string }{
		{"--schedule " + path, "is no schedule of this version"},
		{"--schedule " + path + ".not", "--schedule: open"},
		{"--protocol abd --soak 5 --learn --corpus " + folder, "--corpus: --schedule:"},
		{"--soak 5 --learn --corpus /nowhere", "--corpus: there are no files"},
		{"--learn", "--soak"},
		{"--soak 5 --lose 1 --learn", "leave --lose out"},
		{"--soak 5 --corpus " + folder, "--learn does"},
		{"--write-schedule x", "--soak"},
	} {
		if _, err := simulate(strings.Fields(c.flags)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.flags, err, c.want)
		}
	}
}
