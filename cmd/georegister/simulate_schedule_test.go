package main

import (
	"io"
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
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	file := func(name, text string) string {
		name = filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	empty, twice := file("empty", `{"protocol": "abd", "schedule": {}}`), file("twice", string(whole)+string(whole))
	abroad := file("abroad", strings.Replace(string(whole), `"Home": 0`, `"Home": 9`, 1))
	none := t.TempDir()
	if err := os.WriteFile(path, []byte(`{"protocol": "abd", "schedule": {"Weather": 1}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct{ flags, want string }{
		{"--schedule " + path, "is no schedule of this version"},
		{"--schedule " + empty, "has no members"},
		{"--schedule " + twice, "goes on after the schedule"},
		{"--schedule " + abroad, "a client at site 9 of"},
		{"--schedule=", "--schedule: it is empty"},
		{"--soak 5 --learn --corpus " + none, "--corpus: there are no files " + none + "/*.json"},
		{"--schedule " + path + ".not", "--schedule: open"},
		{"--protocol abd --soak 5 --learn --corpus " + folder, "--corpus: --schedule:"},
		{"--soak 5 --learn --corpus /nowhere", "--corpus: open /nowhere"},
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

// A folder is one whatever its name is.
func TestCorpusOfAnyName(t *testing.T) {
	folder := filepath.Join(t.TempDir(), "of [mine")
	if err := os.Mkdir(folder, 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := findSimulated("abd", 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	kinds, err := s.parseFaults("all", true)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.writeSchedule(filepath.Join(folder, "one.json"), schedule.Draw(7, s.options(kinds))); err != nil {
		t.Fatal(err)
	}
	if all, err := s.readCorpus(folder, kinds); err != nil || len(all) != 1 {
		t.Errorf("%d schedules, %v", len(all), err)
	}
}

// A file that can not be written is refused before anything runs, and what was there stays as it was.
func TestFilesAreRefusedBeforeTheRun(t *testing.T) {
	folder := t.TempDir()
	there := filepath.Join(folder, "there")
	if err := os.WriteFile(there, []byte("kept"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, flags := range []string{"--soak 5 --costs", "--soak 5 --write-schedule", "--duration 1s --history"} {
		for _, path := range []string{folder, filepath.Join(folder, "nowhere", "x"), ""} {
			words := strings.Fields(flags)
			words[len(words)-1] += "=" + path
			out, err := simulate(words...)
			flag, _, _ := strings.Cut(words[len(words)-1], "=")
			if err == nil || !strings.HasPrefix(err.Error(), flag+": ") || out != "" {
				t.Errorf("%v: %v\n%s", words, err, out)
			}
		}
	}
	if out, err := simulate("--soak", "5", "--write-schedule", there); err != nil { // none fails
		t.Errorf("%v\n%s", err, out)
	}
	if text, err := os.ReadFile(there); err != nil || string(text) != "kept" {
		t.Errorf("%q, %v", text, err)
	}
	if out, err := simulate("--soak", "5", "--write-schedule", filepath.Join(folder, "new")); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if all, err := os.ReadDir(folder); err != nil || len(all) != 1 {
		t.Errorf("%v, %v", all, err)
	}
}

// What was found is told also where a file could not be written in the end.
func TestAVerdictIsToldWhereAFileIsNotWritten(t *testing.T) {
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip(err)
	}
	for _, flags := range []string{"--soak 5 --costs /dev/full", "--duration 1s --history /dev/full"} {
		out, err := simulate(strings.Fields(flags)...)
		if err == nil || !strings.Contains(err.Error(), "no space") {
			t.Errorf("%s: %v", flags, err)
		}
		if !strings.Contains(out, "linearizable") {
			t.Errorf("%s: no verdict\n%s", flags, out)
		}
	}
}

// A verdict that nobody can read is none.
func TestAVerdictThatIsNotWritten(t *testing.T) {
	full, err := os.OpenFile("/dev/full", os.O_WRONLY, 0)
	if err != nil {
		t.Skip(err)
	}
	defer full.Close()
	c := newSimulateCommand()
	c.SilenceErrors, c.SilenceUsage = true, true
	c.SetOut(full)
	c.SetErr(io.Discard)
	c.SetArgs([]string{"--soak", "2"})
	if err := c.Execute(); err == nil || !strings.Contains(err.Error(), "no space") {
		t.Errorf("%v, want that the verdict is not written", err)
	}
}

// What a schedule cost is told whatever its seed is.
func TestCostsOfSeed0(t *testing.T) {
	path := filepath.Join(t.TempDir(), "costs")
	if out, err := simulate("--soak", "3", "--seed", "0", "--costs", path); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	text, err := os.ReadFile(path)
	if err != nil || strings.Count(string(text), "\n") != 3 || !strings.HasPrefix(string(text), `{"seed":0,`) {
		t.Errorf("%v\n%s", err, text)
	}
}

// Numbers of schedules and deviations that mean nothing are refused: 0 of them are no experiment.
func TestSimulateRefusesNumbers(t *testing.T) {
	for _, c := range []struct{ flags, want string }{
		{"--soak 0", "--soak: 0 schedules"},
		{"--soak -1", "--soak: -1 schedules"},
		{"--soak 100000000 --digests", "--soak: 100000000 schedules"},
		{"--soak 3 --seed 18446744073709551615", "--seed: there are no 3 seeds"},
		{"--deviations 0", "--deviations: 0"},
		{"--deviations -2", "--deviations: -2"},
		{"--deviations 9223372036854775807", "--deviations: 9223372036854775807"},
	} {
		if _, err := simulate(strings.Fields(c.flags)...); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.flags, err, c.want)
		}
	}
	if out, err := simulate("--soak", "1", "--seed", "18446744073709551615"); err != nil {
		t.Errorf("the last seed: %v\n%s", err, out)
	}
}
