package gryff_test

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/georegister/georegister/replica/protocol/gryff"
	"github.com/georegister/georegister/replica/protocol/script"
	"github.com/georegister/georegister/test/mutants"
)

// near searches schedules near the scripts, those of mistakes among them.
func near(t *testing.T, first uint64, count int) script.Search {
	t.Helper()
	scripts := map[string]string{}
	paths, err := filepath.Glob("testdata/*/*.txt")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts: %v", err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts[path] = string(text)
	}
	return script.Search{
		Factory: gryff.FactoryRSC, Scripts: scripts, First: first, Count: count,
		Draws: func(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 1)).IntN },
	}
}

// fromEnvironment is a number that a person may give.
func fromEnvironment(t *testing.T, name string, otherwise int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		t.Fatalf("%s=%q: want a number from 1", name, text)
	}
	return n
}

// GEOREGISTER_PERTURBED is how many distinct schedules are run instead of a few thousand, GEOREGISTER_PERTURBATIONS how
// many things perturb one at most, instead of three (docs/checking.md).
func TestSchedulesNearScripts(t *testing.T) {
	t.Parallel()
	count := fromEnvironment(t, "GEOREGISTER_PERTURBED", 3000)
	search := near(t, 1, count)
	search.Most = fromEnvironment(t, "GEOREGISTER_PERTURBATIONS", 3)
	done := search.Run(t)
	t.Logf("%d schedules, %d of them distinct %v, with 0, 1, 2, ... perturbations %v, of %d scripts %v, %d undecided",
		done.Drawn, done.Distinct, done.Kinds, done.Perturbed, len(done.Scripts), done.Scripts, done.Undecided)
	if done.Wrong != nil {
		t.Fatal(done.Wrong)
	}
	if done.Distinct < count {
		t.Errorf("there are not so many distinct schedules")
	}
	if done.Undecided > 0 {
		t.Errorf("%d histories are undecided", done.Undecided)
	}
}

func TestSchedulesNearScriptsFindMistakes(t *testing.T) {
	t.Parallel()
	program := mutants.Build(t)
	for _, name := range []string{
		"ask-beside-dependencies", "write-beside-dependencies", "held-at-once", "held-in-any-version",
		"drop-dependency", "rmw-without-write-back", "fence-without-quorum", "apply-after-answer",
	} {
		program.Run(t, name, "gryff/"+name, func(t *testing.T) {
			done := near(t, 1, 20000).Run(t)
			if done.Wrong == nil {
				t.Fatalf("not found in %d schedules", done.Drawn)
			}
			t.Logf("after %d schedules: %.300v", done.Drawn, done.Wrong)
		})
	}
}
