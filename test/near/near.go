// Package near searches schedules near the scripts of protocols, for tests.
package near

import (
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"testing"

	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/script"
)

// Scripts is a search near all scripts below a folder, those of known mistakes among them.
func Scripts(t *testing.T, folder string, factory member.Factory) script.Search {
	t.Helper()
	scripts := map[string]string{}
	paths, err := filepath.Glob(filepath.Join(folder, "*", "*.txt"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("no scripts in %s: %v", folder, err)
	}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		scripts[path] = string(text)
	}
	return script.Search{
		Factory: factory, Scripts: scripts, First: 1,
		Draws: func(seed uint64) func(int) int { return rand.New(rand.NewPCG(seed, 1)).IntN },
	}
}

// MustPass runs a search, which must find nothing. GEOREGISTER_PERTURBED is how many distinct schedules are run instead
// of Count, GEOREGISTER_PERTURBATIONS how many things perturb one at most, instead of three (docs/checking.md).
func MustPass(t *testing.T, s script.Search) {
	t.Helper()
	s.Count = Number(t, "GEOREGISTER_PERTURBED", s.Count)
	s.Most = Number(t, "GEOREGISTER_PERTURBATIONS", 3)
	done := s.Run(t)
	t.Logf("%d schedules, %d of them distinct %v, with 0, 1, 2, ... perturbations %v, of %d scripts %v, %d undecided",
		done.Drawn, done.Distinct, done.Kinds, done.Perturbed, len(done.Scripts), done.Scripts, done.Undecided)
	if done.Wrong != nil {
		t.Fatal(done.Wrong)
	}
	if done.Distinct < s.Count {
		t.Errorf("there are not so many distinct schedules")
	}
	if done.Undecided > 0 {
		t.Errorf("%d histories are undecided", done.Undecided)
	}
}

// Number is a number that a person may give.
func Number(t *testing.T, name string, otherwise int) int {
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
