package mutants

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
)

// load returns the module's folder, and its mutants.
func load(t *testing.T) (string, []Mutant) {
	t.Helper()
	module, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	all, err := Load(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	return module, all
}

// All mutants are of the code as it is, and the code with all of them compiles.
func TestMutantsCompile(t *testing.T) {
	module, all := load(t)
	overlay, err := Overlay(module, t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	arguments := []string{"build", "-overlay", overlay}
	packages := map[string]bool{}
	for _, m := range all {
		if !packages[m.Package] {
			packages[m.Package] = true
			arguments = append(arguments, "./"+m.Package)
		}
	}
	c := exec.Command("go", arguments...)
	c.Dir = module
	if text, err := c.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, text)
	}
	t.Logf("%d mutants in %d packages", len(all), len(packages))
}

// The same mutants make the same text each time: the compiler knows then what it has compiled, for the tests of other
// packages too.
func TestOverlaysAreEqual(t *testing.T) {
	module, all := load(t)
	first := ""
	for range 3 {
		folder := t.TempDir()
		if _, err := Overlay(module, folder, all); err != nil {
			t.Fatal(err)
		}
		names, err := filepath.Glob(filepath.Join(folder, "*.go"))
		if err != nil {
			t.Fatal(err)
		}
		text := ""
		for _, name := range names { // in their order
			content, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			text += filepath.Base(name) + "\n" + string(content)
		}
		if first == "" {
			first = text
		}
		if text != first || len(names) == 0 {
			t.Fatalf("%d files, of %d bytes: the first were of %d, or are others", len(names), len(text), len(first))
		}
	}
}

const greeting = `package main

import (
	"fmt"
	"os"
	"strings"
)

type words[T any] struct{ first T }

func (w words[T]) many(_ int, more ...string) string {
	return fmt.Sprint(w.first, strings.Join(more, "+"))
}

func pick[T any](a, b T) (chosen T) {
	return a
}

func (words[T]) print(string) {
	fmt.Print("one ")
	fmt.Print("two ")
}

func exit(int) {
	os.Exit(0)
}

func main() {
	w := words[int]{7}
	w.print("")
	fmt.Print(w.many(0, "a", "b"), pick(" x", " y"))
	exit(1)
}
`

func TestOneProgramHasAllMutants(t *testing.T) {
	module := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(module, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module m\n\ngo 1.25\n")
	write("main.go", greeting)
	mutant := func(edits string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("package: .\nbreaks: what it says\n\n--- main.go\n" + edits)}
	}
	all, err := Load(fstest.MapFS{
		"a/joined.mutant": mutant("-\treturn fmt.Sprint(w.first, strings.Join(more, \"+\"))\n+\treturn strings.Join(more, \"-\")\n"),
		"a/second.mutant": mutant("-\treturn a\n+\treturn b\n"),
		"a/silent.mutant": mutant("-\tfmt.Print(\"one \")\n@@\n-\tfmt.Print(\"two \")\n"),
		"a/half.mutant":   mutant(" \tfmt.Print(\"one \")\n-\tfmt.Print(\"two \")\n+\tfmt.Print(\"three \")\n"),
		"a/README.md":     {Data: []byte("no mutant")},
	})
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := Overlay(module, t.TempDir(), all)
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command("go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, ".")
	c.Dir = module
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for name, want := range map[string]string{
		"": "one two 7a+b x", "a/joined": "one two a-b x", "a/second": "one two 7a+b y", "a/silent": "7a+b x", "a/half": "one three 7a+b x",
	} {
		c := exec.Command(program)
		c.Env = append(os.Environ(), Variable+"="+name)
		if text, err := c.Output(); err != nil || string(text) != want {
			t.Errorf("%s: %q, %v, want %q", name, text, err, want)
		}
	}
}

func TestWhatIsNoMutantIsRefused(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "main.go"), []byte(greeting), 0o600); err != nil {
		t.Fatal(err)
	}
	head := "package: .\nbreaks: it\n\n--- main.go\n"
	for text, want := range map[string]string{
		"":                                         "lacks the field package",
		"breaks: it\n--- main.go\n-a\n":            "lacks the field package",
		"package: .\n--- main.go\n-a\n":            "lacks the field package, or breaks",
		"packages: .\n":                            "none of the fields",
		"package: .\npackage: .\n":                 "each once",
		"package: .\nbreaks: it\n":                 "changes nothing",
		head + "+\treturn\n":                       "changes nothing",
		head + " \treturn a\n":                     "changes nothing",
		head + "return a\n":                        "and not with -, + or a space",
		head + "-\treturn a\n\n+\treturn b\n":      "is empty",
		head + "-\treturn c\n":                     "there 0 times",
		head + "-}\n":                              "there 5 times",
		head + "-\t\"strings\"\n":                  "not in one function",
		head + "-\treturn a\n+\n@@\n-\treturn a\n": "overlap",
		"package: .\nbreaks: it\n\n--- x.go\n-a\n": "x.go",
	} {
		all, err := Load(fstest.MapFS{"a.mutant": {Data: []byte(text)}})
		if err == nil {
			_, err = Overlay(folder, t.TempDir(), all)
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// A program runs the mutant that the environment names, and the product's code without one. A name that it does not
// have ends it.
func TestTheEnvironmentChooses(t *testing.T) {
	module := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":      "module example\n\ngo 1.26\n",
		"main.go":     "package main\n\nimport \"example/part\"\n\nfunc main() {\n\tprintln(part.Is())\n}\n",
		"part/is.go":  "package part\n\nfunc Is() string {\n\treturn \"right\"\n}\n",
		"other/is.go": "package other\n\nfunc Is() string {\n\treturn \"right\"\n}\n",
	} {
		name = filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	edits := []Edit{{File: "is.go", Old: "\treturn \"right\"\n", New: "\treturn \"wrong\"\n"}}
	overlay, err := Overlay(module, t.TempDir(), []Mutant{
		{Name: "part/wrong", Package: "part", Edits: edits}, {Name: "other/wrong", Package: "other", Edits: edits},
	})
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(t.TempDir(), "program")
	c := exec.Command("go", "build", "-overlay", overlay, "-o", program, ".")
	c.Dir = module
	if text, err := c.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	for mutant, want := range map[string]string{
		"": "right\n", "part/wrong": "wrong\n", "other/wrong": "right\n",
		"part/wrnog": Variable + ": this program has no mutant part/wrnog\n",
		"part":       Variable + ": this program has no mutant part\n",
	} {
		c := exec.Command(program)
		c.Env = append(os.Environ(), Variable+"="+mutant)
		text, err := c.CombinedOutput()
		if string(text) != want || (err != nil) != strings.Contains(want, "no mutant") {
			t.Errorf("%q: %q, %v, want %q", mutant, text, err, want)
		}
	}
}

// Tests of a program without mutants say so if the environment chooses one, instead of showing nothing.
func TestAMutantIsNotChosenForAProgramWithout(t *testing.T) {
	t.Setenv(Variable, "abd/skip-write-back")
	if started, err := started(); err == nil || started {
		t.Errorf("%v, %v", started, err)
	}
	t.Setenv(Variable, "")
	if started, err := started(); err != nil || started {
		t.Errorf("%v, %v", started, err)
	}
}
