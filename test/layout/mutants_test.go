package layout

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Known mistakes are files below test/mutants, which the compiler puts in for tests. A switch for one in the product is
// a bug that somebody can turn on, a branch where it costs time, and a line to read that means nothing there.
func TestTheProductHoldsNoMistakes(t *testing.T) {
	_, all := sources(t)
	looked := 0
	for _, s := range all {
		if area, _, _ := strings.Cut(s.path, "/"); area != "replica" && area != "witness" || strings.HasSuffix(s.path, "_test.go") {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, s.path))
		if err != nil {
			t.Fatal(err)
		}
		looked++
		if strings.Contains(strings.ToLower(string(text)), "mistake") {
			t.Errorf("%s speaks of a mistake: write it as a file of test/mutants (docs/mutants.md)", s.path)
		}
	}
	if looked < 100 {
		t.Errorf("%d files were looked at", looked)
	}
}
