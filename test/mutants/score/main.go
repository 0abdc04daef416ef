// Command score measures how many generated mutants the search and the explorer find. See docs/checking.md, mutants.
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
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
	if err := o.run(flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "score:", err)
		os.Exit(1)
	}
}

// maxSchedules is what a hunt can compare the costs of.
const maxSchedules = 10_000_000

// check refuses flags that mean nothing, and words that are none.
func (o options) check(words []string) error {
	switch {
	case len(words) > 0:
		return fmt.Errorf("%q is no flag, and what comes after it would not be read; flags begin with -", words[0])
	case o.count < 1:
		return fmt.Errorf("-count: %d mutants; give at least 1", o.count)
	case o.schedules < 1 || o.schedules > maxSchedules:
		return fmt.Errorf("-schedules: %d; give 1 to %d", o.schedules, maxSchedules)
	case o.parallel < 0:
		return fmt.Errorf("-parallel: %d; give at least 1, or leave it out", o.parallel)
	case o.deviations < 0:
		return fmt.Errorf("-deviations: %d; give how many of each plain run, or 0 for none", o.deviations)
	case o.explore < 0:
		return fmt.Errorf("-explore: %v; give a time, or 0 to explore nothing", o.explore)
	}
	return nil
}

func (o options) run(words []string) error {
	if err := o.check(words); err != nil {
		return err
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
	drawn := code.Draw(o.seed, o.count)
	fmt.Fprintf(os.Stderr, "%d mutants of %d, drawn by seed %d\n", len(drawn), len(sites), o.seed)
	judged, err := equivalent.All()
	if err != nil {
		return err
	}
	drawn = slices.DeleteFunc(drawn, func(s *generate.Site) bool { return !only.MatchString(s.Name) })
	if len(drawn) == 0 {
		return fmt.Errorf("-only: none of them has a name that matches %q; -list prints the names", o.only)
	}
	if o.list {
		for _, s := range drawn {
			fmt.Printf("%s %s\n%s\n", s.Name, s.Hash(), s.Diff())
		}
		return nil
	}
	r := runner{options: o, module: module, judged: judged, drawn: drawn, scopes: scopes{time: o.explore}}
	// Before this, a signal ends the process at once, and so does a second one after it.
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	if o.build != "" {
		return r.build(ctx, o.build)
	}
	if err := r.open(); err != nil {
		return err
	}
	if err := r.run(ctx); ctx.Err() != nil {
		return fmt.Errorf("stopped; what was found out is kept in %s, and the same command goes on there", r.out)
	} else if err != nil {
		return err
	}
	return r.report()
}

// folder is that of the module that the command is run in.
func folder() (string, error) {
	c := exec.Command("go", "list", "-m", "-f", "{{.Dir}}")
	var complaints strings.Builder
	c.Stderr = &complaints
	text, err := c.Output()
	if err != nil {
		return "", fmt.Errorf("go list -m, in the module's folder: %w\n%s", err, complaints.String())
	}
	return filepath.Clean(strings.TrimSuffix(string(text), "\n")), nil
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
	c := exec.CommandContext(ctx, "go", "build", "-buildvcs=false", "-overlay", overlay, "-o", program, "./cmd/georegister")
	c.Dir = r.module
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("go build -overlay: %w\n%s", err, text)
	}
	return nil
}
