package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"syscall"
	"time"

	"github.com/georegister/georegister/test/mutants/equivalent"
	"github.com/georegister/georegister/test/mutants/generate"
)

// result is what is known of a mutant so far, as it stands in the file.
type result struct {
	Name      string  `json:"name"`
	Hash      string  `json:"hash"`
	Found     string  `json:"found,omitempty"`  // "search", "explorer", "experiment", "costs" or "deviation"; empty: by nothing
	How       string  `json:"how,omitempty"`    // violation, stuck, panic, ...
	By        string  `json:"by,omitempty"`     // with which protocol and faults
	Reason    string  `json:"reason,omitempty"` // for people
	Schedules int     `json:"schedules"`        // that were searched, up to the one that went wrong
	Searched  int     `json:"searched"`         // the budget of schedules that is used up
	Explored  bool    `json:"explored"`         // the explorer has found nothing
	Measured  bool    `json:"measured"`         // and nor have the experiments
	Played    bool    `json:"played"`           // drawn plain runs have shown nothing
	Deviated  int     `json:"deviated"`         // how many deviations of each plain run have shown nothing
	Tests     string  `json:"tests,omitempty"`  // of the package: "found", "passed", or "none"
	Seconds   float64 `json:"seconds"`          // of searching
}

// runner runs the drawn mutants.
type runner struct {
	options
	module  string
	judged  map[string]equivalent.Judgement
	drawn   []*generate.Site
	results map[string]*result // by name
	scopes  scopes
	as      measurements
	plain   plainRuns
	costs   costings

	mu    sync.Mutex
	file  *os.File
	began time.Time
}

// step is a part of what is done with each mutant that is not found yet.
type step struct {
	name string
	dear bool // it is left out for mutants that are said to be equivalent
	done func(*result) bool
	do   func(ctx context.Context, program string, s *generate.Site, known *result) error
}

// fewSchedules are those that are searched with mutants that are said to be equivalent, too.
const fewSchedules = 300

// steps are in the order of what they cost: what is found soon costs little.
func (r *runner) steps() (all []step) {
	searches := func(budget int) {
		all = append(all, step{
			fmt.Sprintf("%d schedules", budget), budget > fewSchedules,
			func(known *result) bool { return known.Searched >= budget },
			func(ctx context.Context, program string, s *generate.Site, known *result) error {
				return r.search(ctx, program, s, known, budget)
			},
		})
	}
	deviates := func(name string, runs int) {
		all = append(all, step{
			name, runs > least, func(known *result) bool { return known.Deviated >= runs },
			func(ctx context.Context, program string, s *generate.Site, known *result) error {
				return r.plain.try(ctx, program, s.Package, known, runs)
			},
		})
	}
	searches(min(30, r.schedules))
	searches(min(100, r.schedules))
	searches(min(fewSchedules, r.schedules))
	all = append(all, step{
		"experiments", false, func(known *result) bool { return known.Measured },
		func(ctx context.Context, program string, s *generate.Site, known *result) error {
			return r.as.measure(ctx, program, s.Package, known)
		},
	})
	deviates("plain runs", least)
	all = append(all, step{
		"drawn plain runs", true, func(known *result) bool { return known.Played || !r.weighed },
		func(ctx context.Context, program string, s *generate.Site, known *result) error {
			return r.costs.play(ctx, program, s.Package, known)
		},
	})
	deviates(fmt.Sprintf("%d deviations", r.deviations), r.deviations)
	searches(min(3000, r.schedules))
	all = append(all, step{
		"explorer", true, func(known *result) bool { return known.Explored || r.explore == 0 },
		func(ctx context.Context, program string, s *generate.Site, known *result) error {
			return r.scopes.explore(ctx, program, s.Package, known)
		},
	})
	searches(r.schedules)
	return all
}

// run does all steps; the file is open.
func (r *runner) run(ctx context.Context) (err error) {
	defer func() { err = errors.Join(err, r.file.Close()) }()
	to, err := os.MkdirTemp("", "mutants-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(to)
	r.began = time.Now()
	program := filepath.Join(to, "georegister")
	if err := r.build(ctx, program); err != nil {
		return err
	}
	for _, next := range r.steps() {
		if err := r.take(ctx, program, next); err != nil {
			return err
		}
	}
	if r.tests {
		return r.runTests(ctx, to)
	}
	return nil
}

// open opens the file of results for this run alone, and the page if there is to be one, and reads what earlier runs
// found out.
func (r *runner) open() (err error) {
	if r.page != "" {
		if err := checkPage(r.page); err != nil {
			return fmt.Errorf("-page: %w", err)
		}
	}
	if r.out == "" {
		r.out = filepath.Join(r.module, "bin", fmt.Sprintf("mutants-%d.jsonl", r.seed))
		if err := os.MkdirAll(filepath.Dir(r.out), 0o755); err != nil {
			return fmt.Errorf("name a file for the results with -out: %w", err)
		}
	}
	if r.file, err = os.OpenFile(r.out, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600); err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	if syscall.Flock(int(r.file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return fmt.Errorf("-out: another run writes its results to %s; wait for its end, or name another file", r.out)
	}
	return r.recall()
}

// checkPage reports why a file can not be written. What is there stays as it is.
func checkPage(name string) error {
	_, missing := os.Stat(name)
	file, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	err = file.Close()
	if missing != nil {
		err = errors.Join(err, os.Remove(name))
	}
	return err
}

// first is how the first line of a file of results begins.
const first = `{"name":`

// recall reads what earlier runs found out. A run that was killed may have left a line that is cut short: what follows
// gets a line of its own.
func (r *runner) recall() error {
	r.results = map[string]*result{}
	for _, s := range r.drawn {
		r.results[s.Name] = &result{Name: s.Name, Hash: s.Hash()}
	}
	text, err := io.ReadAll(r.file)
	if err != nil {
		return fmt.Errorf("-out: %w", err)
	}
	if !bytes.HasPrefix(text, []byte(first)[:min(len(first), len(text))]) {
		return fmt.Errorf("-out: %s has something else than results of mutants; name another file", r.out)
	}
	for line := range bytes.Lines(text) {
		var earlier result
		if json.Unmarshal(line, &earlier) != nil {
			continue
		}
		if known := r.results[earlier.Name]; known != nil && known.Hash == earlier.Hash {
			r.results[earlier.Name] = &earlier
		}
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		if _, err := r.file.WriteString("\n"); err != nil {
			return fmt.Errorf("-out: %w", err)
		}
	}
	return nil
}

// take takes a step with all that are not found yet.
func (r *runner) take(ctx context.Context, program string, now step) error {
	var todo, claimed []*generate.Site
	for _, s := range r.drawn {
		switch known := r.results[s.Name]; {
		case known.Found != "" || now.done(known):
		case !r.claimed(s):
			todo = append(todo, s)
		case !now.dear || r.claims:
			claimed = append(claimed, s)
		}
	}
	todo = append(todo, claimed...)
	parallel := r.parallel
	if parallel == 0 {
		parallel = runtime.GOMAXPROCS(0)
	}
	began, next, done, found := time.Now(), 0, 0, 0
	var group sync.WaitGroup
	var failed error
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	for range parallel {
		group.Go(func() {
			for {
				r.mu.Lock()
				if next == len(todo) || ctx.Err() != nil {
					r.mu.Unlock()
					return
				}
				s := todo[next]
				next++
				known := *r.results[s.Name]
				r.mu.Unlock()
				start := time.Now()
				err := now.do(ctx, program, s, &known)
				known.Seconds += time.Since(start).Seconds()
				r.mu.Lock()
				if err == nil {
					err = r.note(known)
				}
				if err != nil {
					failed = errors.Join(failed, err)
					stop()
					r.mu.Unlock()
					return
				}
				done++
				if known.Found != "" {
					found++
				}
				left := time.Duration(float64(time.Since(began)) / float64(done) * float64(len(todo)-done))
				fmt.Fprintf(os.Stderr, "%s: %d of %d mutants, %d found, about %v left of this step; %s\n",
					now.name, done, len(todo), found, left.Round(time.Second), known.line())
				r.mu.Unlock()
			}
		})
	}
	group.Wait()
	if failed != nil {
		return failed // that others were stopped for
	}
	return ctx.Err()
}

// claimed reports whether a mutant is said to be equivalent, which is searched after the others of a step.
func (r *runner) claimed(s *generate.Site) bool {
	j, judged := r.judgement(s)
	return judged && j.Equivalent
}

// search goes on with a mutant up to a budget. What many schedules cost is compared with what they cost without it.
func (r *runner) search(ctx context.Context, program string, s *generate.Site, known *result, budget int) error {
	hunts := huntsOf(s.Package)
	before, now := shares(hunts, known.Searched), shares(hunts, budget)
	var more comparison
	for i, h := range hunts {
		first, count := before[i]+1, now[i]-before[i]
		if count == 0 {
			continue
		}
		weighed := r.weighed && budget >= manySchedules && h.cost == 1 // --lose has no costs
		v, err := verdict{}, error(nil)
		if weighed {
			v, err = r.costs.add(ctx, program, s.Name, h, first, count, &more)
		} else {
			v, err = search(ctx, program, s.Name, h, first, count)
		}
		if err != nil {
			return err
		}
		known.Schedules += v.schedules * h.cost
		if v.how != "" {
			if err := control(ctx, program, h, first, v); err != nil {
				return err
			}
			known.Found, known.How, known.By, known.Reason = "search", v.how, h.by, v.reason
			break
		}
	}
	if why := more.verdict(overall); known.Found == "" && why != "" {
		known.Found, known.How, known.By, known.Reason = "costs", "costlier", "all hunts", why
	}
	known.Searched = budget
	return nil
}

// note keeps a result, in the file too.
func (r *runner) note(known result) error {
	r.results[known.Name] = &known
	text, err := json.Marshal(known)
	if err != nil {
		return err
	}
	_, err = r.file.Write(append(text, '\n'))
	return err
}

// line says to people what came of a mutant.
func (r *result) line() string {
	if r.Found == "" {
		return r.Name + " lives"
	}
	if r.Found != "search" {
		return fmt.Sprintf("%s: %s by the %s (%s)", r.Name, r.How, r.Found, r.By)
	}
	return fmt.Sprintf("%s: %s after %d schedules (%s)", r.Name, r.How, r.Schedules, r.By)
}
