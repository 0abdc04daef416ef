// Command score measures how many generated mutants the search and the explorer find. See docs/checking.md, mutants.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"syscall"
	"time"

	"github.com/georegister/georegister/test/mutants"
	"github.com/georegister/georegister/test/mutants/equivalent"
	"github.com/georegister/georegister/test/mutants/generate"
)

// options are the command's flags.
type options struct {
	seed      uint64
	count     int
	schedules int
	only      string
	list      bool
	out       string
	page      string
	parallel  int
	tests     bool
	build     string

	claims     bool
	weighed    bool
	deviations int
	explore    time.Duration
}

func main() {
	var o options
	flag.Uint64Var(&o.seed, "seed", 1, "what the mutants are drawn by: the same ones of the same code on any machine")
	flag.IntVar(&o.count, "count", 300, "how many mutants are drawn")
	flag.IntVar(&o.schedules, "schedules", 20000, "how many schedules are searched for each, at most")
	flag.StringVar(&o.only, "only", "", "run those of the drawn mutants alone whose names match this expression")
	flag.BoolVar(&o.list, "list", false, "print the drawn mutants, and run none")
	flag.StringVar(&o.out, "out", "",
		"the file for results, a line of JSON each; those that are in it already are not run again "+
			"(default bin/mutants-SEED.jsonl)")
	flag.StringVar(&o.page, "page", "", "write the table into this file too, as Markdown")
	flag.IntVar(&o.parallel, "parallel", 0, "how many mutants are run at once (default: as many as there are processors)")
	flag.BoolVar(&o.tests, "tests", false,
		"also run the tests of each mutant's package; what they find is told apart, and does not count")
	flag.BoolVar(&o.claims, "claims", false,
		fmt.Sprintf("search as long for mutants that are said to be equivalent; else with %d schedules and in plain runs",
			fewSchedules))
	flag.BoolVar(&o.weighed, "costs", true,
		fmt.Sprintf("compare what schedules cost with what they cost without the mutant, from the step of %d on",
			manySchedules))
	flag.IntVar(&o.deviations, "deviations", 110,
		"how many deviations of each plain run are tried with a mutant that is not found; 0: none")
	flag.DurationVar(&o.explore, "explore", 90*time.Second,
		"for how long each scope is explored with a mutant that is not found, at most; 0: none is")
	flag.StringVar(&o.build, "build", "",
		"only make this program with the drawn mutants, of which "+mutants.Variable+" chooses one by name")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	if err := o.run(ctx); err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		stop()
		os.Exit(1)
	}
}

func (o options) run(ctx context.Context) error {
	if o.count < 1 || o.schedules < 1 {
		return errors.New("-count and -schedules: give at least 1")
	}
	only, err := regexp.Compile(o.only)
	if err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	module, err := folder()
	if err != nil {
		return err
	}
	code, err := generate.Load(module, generate.Packages)
	if err != nil {
		return err
	}
	sites := code.Sites()
	drawn := code.Draw(sites, o.seed, o.count)
	fmt.Fprintf(os.Stderr, "%d mutants of %d, drawn by seed %d\n", len(drawn), len(sites), o.seed)
	judged, err := equivalent.All()
	if err != nil {
		return err
	}
	if o.list {
		for _, s := range drawn {
			if only.MatchString(s.Name) {
				fmt.Printf("%s %s\n%s\n", s.Name, s.Hash(), s.Diff())
			}
		}
		return nil
	}
	if o.out == "" {
		o.out = filepath.Join(module, "bin", fmt.Sprintf("mutants-%d.jsonl", o.seed))
		if err := os.MkdirAll(filepath.Dir(o.out), 0o755); err != nil {
			return err
		}
	}
	r := runner{options: o, module: module, judged: judged, scopes: scopes{time: o.explore}}
	for _, s := range drawn {
		if only.MatchString(s.Name) {
			r.drawn = append(r.drawn, s)
		}
	}
	if o.build != "" {
		return r.build(ctx, o.build)
	}
	if err := r.run(ctx); err != nil {
		return err
	}
	return r.report()
}

// folder is that of the module that the command is run in.
func folder() (string, error) {
	text, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}").Output()
	if err != nil {
		return "", fmt.Errorf("go list -m: %w", err)
	}
	return filepath.Clean(string(text[:len(text)-1])), nil
}

// build makes the program with all drawn mutants.
func (r *runner) build(ctx context.Context, program string) error {
	program, err := filepath.Abs(program)
	if err != nil {
		return err
	}
	to, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(to)
	overlay, err := mutants.Overlay(r.module, to, generate.Mutants(r.drawn))
	if err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "compiling one program with %d mutants\n", len(r.drawn))
	c := exec.CommandContext(ctx, "go", "build", "-overlay", overlay, "-o", program, "./cmd/georegister")
	c.Dir = r.module
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build -overlay: %w\n%s", err, text)
	}
	return nil
}
