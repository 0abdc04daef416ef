package mutants

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// Program is the test program of the package under test, with all mutants.
type Program struct{ name string }

// shared makes the program that all tests of a package share, if Main runs them; nil: each makes its own.
var shared func() (string, error)

// Main runs the tests of a package, of which several call Build: they share one program.
func Main(m *testing.M) int {
	folder, err := os.MkdirTemp("", "mutants")
	if err != nil {
		fmt.Fprintln(os.Stderr, "a folder for the program with mutants:", err)
		return 1
	}
	defer os.RemoveAll(folder)
	shared = sync.OnceValues(func() (string, error) { return build(folder) })
	return m.Run()
}

// Build makes the program, unless this is one that Run has started. What a test does beside Run is done by those too.
func Build(t *testing.T) *Program {
	t.Helper()
	if started, err := started(); err != nil {
		t.Fatal(err)
	} else if started {
		return &Program{}
	}
	built := shared
	if built == nil {
		folder := t.TempDir()
		built = func() (string, error) { return build(folder) }
	}
	program, err := built()
	if err != nil {
		t.Fatal(err)
	}
	return &Program{program}
}

// TestProgram is how a test program with mutants is called.
const TestProgram = "with-mutants.test"

// started reports whether this program has mutants and was started to run one. An error says that one was chosen for a
// program that has none: its tests would show nothing.
func started() (bool, error) {
	mutant := os.Getenv(Variable)
	if mutant != "" && filepath.Base(os.Args[0]) != TestProgram {
		return false, fmt.Errorf("%s is set to %s, and this program has no mutants: unset it", Variable, mutant)
	}
	return mutant != "", nil
}

// Run runs a part of a test in a process whose code has a mutant. The part shows that the mutant is found.
func (p *Program) Run(t *testing.T, name, mutant string, shows func(t *testing.T)) {
	t.Helper()
	t.Run(name, func(t *testing.T) {
		switch os.Getenv(Variable) {
		case mutant:
			shows(t)
		case "":
			t.Parallel()
			text, err := p.again(t, mutant)
			t.Logf("%s", text)
			if err != nil {
				t.Error(err)
			}
		}
	})
}

// again runs the part of a test in a process with its mutant, and returns what that says.
func (p *Program) again(t *testing.T, mutant string) ([]byte, error) {
	var names []string
	for name := range strings.SplitSeq(t.Name(), "/") {
		names = append(names, "^"+regexp.QuoteMeta(name)+"$")
	}
	arguments := []string{
		"-test.v", fmt.Sprintf("-test.short=%v", testing.Short()), "-test.run", strings.Join(names, "/"),
	}
	if f := flag.Lookup("rewrite"); f != nil { // of scripts
		arguments = append(arguments, "-rewrite="+f.Value.String())
	}
	c := exec.CommandContext(t.Context(), p.name, arguments...)
	c.Env = append(os.Environ(), Variable+"="+mutant)
	text, err := c.CombinedOutput()
	if err == nil && !strings.Contains(string(text), "--- PASS: "+t.Name()+" ") {
		err = errors.New("this part did not run")
	}
	return text, err
}

// build makes the test program of the package in the working directory with all mutants.
func build(out string) (string, error) {
	module, err := os.Getwd()
	for ; err == nil; module = filepath.Dir(module) {
		if _, missing := os.Stat(filepath.Join(module, "go.mod")); missing == nil {
			break
		}
	}
	if err != nil {
		return "", err
	}
	all, err := Load(os.DirFS(filepath.Join(module, "test", "mutants")))
	if err != nil {
		return "", err
	}
	overlay, err := Overlay(module, out, all)
	if err != nil {
		return "", err
	}
	program := filepath.Join(out, TestProgram)
	if text, err := exec.Command("go", "test", "-c", "-overlay", overlay, "-o", program, ".").CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c -overlay: %w\n%s", err, text)
	}
	return program, nil
}
