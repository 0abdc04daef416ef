package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/georegister/georegister/test/mutants"
	"github.com/georegister/georegister/test/mutants/generate"
)

// testTime bounds the tests of a package with a mutant: what hangs is found.
const testTime = 5 * time.Minute

// runTests runs the tests of each mutant's package, one after the other, and notes whether they find it. It does not
// count for the score.
func (r *runner) runTests(ctx context.Context, to string) error {
	programs := map[string]string{}
	for i, s := range r.drawn {
		known := *r.results[s.Name]
		if known.Tests != "" {
			continue
		}
		if programs[s.Package] == "" {
			program, err := r.buildTests(ctx, to, s.Package)
			if err != nil {
				return err
			}
			programs[s.Package] = program
		}
		known.Tests = "passed"
		if program := programs[s.Package]; program == none {
			known.Tests = none
		} else if err := r.test(ctx, program, s); ctx.Err() != nil {
			return ctx.Err()
		} else if err != nil {
			known.Tests = "found"
		}
		if err := r.note(known); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "tests: %d of %d mutants; %s: %s\n", i+1, len(r.drawn), s.Name, known.Tests)
	}
	return nil
}

// none stands for the program of a package without tests.
const none = "none"

// buildTests makes the test program of a package with its mutants.
func (r *runner) buildTests(ctx context.Context, to, folder string) (string, error) {
	out := filepath.Join(to, strings.ReplaceAll(folder, "/", "_"))
	if err := os.Mkdir(out, 0o755); err != nil {
		return "", err
	}
	overlay, err := mutants.Overlay(r.module, out, generate.Mutants(r.drawn))
	if err != nil {
		return "", err
	}
	program := filepath.Join(out, mutants.TestProgram)
	c := exec.CommandContext(ctx, "go", "test", "-c", "-overlay", overlay, "-o", program, "./"+folder)
	c.Dir = r.module
	if text, err := c.CombinedOutput(); err != nil {
		return "", fmt.Errorf("go test -c -overlay: %w\n%s", err, text)
	}
	if _, err := os.Stat(program); err != nil {
		return none, nil
	}
	return program, nil
}

// test runs the tests of a package with a mutant. An error says that one fails, or hangs.
func (r *runner) test(ctx context.Context, program string, s *generate.Site) error {
	ctx, stop := context.WithTimeout(ctx, testTime)
	defer stop()
	c := exec.CommandContext(ctx, program, "-test.short", "-test.failfast")
	c.Dir = filepath.Join(r.module, s.Package)
	c.Env = append(os.Environ(), mutants.Variable+"="+s.Name)
	return c.Run()
}
