package mutants

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"path"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the index of the mutants in docs/mutants.md anew")

const (
	indexFile  = "../../docs/mutants.md"
	indexStart = "<!-- Made from the mutants by `go test ./test/mutants -run Index -update`; do not edit below. -->\n"
)

// The index lists all mutants as they are.
func TestIndexIsUpToDate(t *testing.T) {
	all, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	is, err := os.ReadFile(indexFile)
	if err != nil {
		t.Fatal(err)
	}
	prose, _, found := strings.Cut(string(is), indexStart)
	if !found {
		t.Fatalf("%s has no line %q", indexFile, indexStart)
	}
	want := prose + indexStart + index(all)
	if *update {
		if err := os.WriteFile(indexFile, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if string(is) != want {
		t.Errorf("%s is out of date: run `go test ./test/mutants -run Index -update`", indexFile)
	}
}

// index is a table of the mutants of each directory.
func index(all []Mutant) string {
	var b strings.Builder
	fmt.Fprintf(&b, "\n%d mutants.\n", len(all))
	directory := ""
	for _, m := range all {
		if d := path.Dir(m.Name); d != directory {
			directory = d
			fmt.Fprintf(&b, "\n## %s\n\nOf [%s](../%s).\n\n| mutant | breaks | source |\n|---|---|---|\n", d, m.Package, m.Package)
		}
		link := fmt.Sprintf("[%s](../test/mutants/%s.mutant)", path.Base(m.Name), m.Name)
		cell := strings.NewReplacer("|", `\|`).Replace
		fmt.Fprintf(&b, "| %s | %s | %s |\n", link, cell(m.Breaks), cmp.Or(cell(m.Source), "–"))
	}
	return b.String()
}

func TestIndexListsEachDirectoryOnce(t *testing.T) {
	got := index([]Mutant{
		{Name: "a/one", Package: "replica/a", Breaks: "x | y", Source: "section 1"}, {Name: "a/two", Package: "replica/a", Breaks: "z"},
		{Name: "b/one", Package: "replica/b", Breaks: "w"},
	})
	for _, want := range []string{
		"\n3 mutants.\n", "\n## a\n\nOf [replica/a](../replica/a).\n", "| [one](../test/mutants/a/one.mutant) | x \\| y | section 1 |\n",
		"| [two](../test/mutants/a/two.mutant) | z | – |\n", "\n## b\n",
	} {
		if strings.Count(got, want) != 1 {
			t.Errorf("%q is there %d times in\n%s", want, strings.Count(got, want), got)
		}
	}
}
