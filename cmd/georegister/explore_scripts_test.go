package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The scripts that explore one scope after the other end with the first one that is refused, as all are with a time
// that is none, and say so.
func TestScriptsOfScopesEnd(t *testing.T) {
	const refuses = "#!/bin/sh\necho refused >&2\nexit 1\n"
	module := t.TempDir()
	write := func(name, text string) {
		name = filepath.Join(module, name)
		if err := os.MkdirAll(filepath.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(name, []byte(text), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	for _, script := range []string{"hack/scopes.sh", "hack/scope-mutants.sh"} {
		text, err := os.ReadFile(filepath.Join("../..", script))
		if err != nil {
			t.Fatal(err)
		}
		write(script, string(text))
	}
	for _, mutant := range []string{"one", "two"} {
		write("test/mutants/abd/"+mutant+".mutant", "")
	}
	write("program", refuses)
	write("bin/georegister-mutants", refuses)
	// It stands for the go command: of what it is told to build, it makes the program.
	write("go", "#!/bin/sh\nwhile [ $# -gt 1 ]; do [ \"$1\" = -o ] && cp \""+module+
		"/program\" \"$2\"; shift; done\nexit 0\n")
	for _, c := range []struct{ command, says string }{
		{"hack/scopes.sh never", "refused\n"},
		{"hack/scope-mutants.sh never", "refused\n"},
		{"hack/scope-mutants.sh 1s ^raft/", "no mutant has a name that matches ^raft/\n"},
	} {
		words := strings.Fields(c.command)
		run := exec.Command("bash", words...)
		run.Dir = module
		run.Env = append(os.Environ(), "GO="+filepath.Join(module, "go"))
		text, err := run.CombinedOutput()
		if err == nil || string(text) != c.says {
			t.Errorf("%s: %v\n%s", c.command, err, text)
		}
	}
}
