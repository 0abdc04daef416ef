package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/georegister/georegister/replica/protocol/catalog"
	"github.com/georegister/georegister/replica/register"
)

// scope is a few operations and faults that the explorer takes through every order.
type scope struct{ operations, faults string }

// scopes are those of protocols with reads and writes, with masters, and with rmws.
var (
	plainScopes = []scope{
		{"write; write, read", "crash,timeout"}, {"write; read, read", "loss,timeout"},
		{"write; read; read", "crash=2,timeout"},
	}
	partitionScopes = []scope{
		{"write; read", "takeover,timeout"}, {"write; write, read", "crash,timeout"}, {"write, read; read", "takeover"},
	}
	rmwScopes = []scope{{"rmw; rmw", "crash,timeout"}, {"rmw; read, read", "takeover,loss"}}
)

// How far each goes: orders that deviate so often from the plain one, with so much memory.
const (
	deviations = "3"
	exploreTop = "1500Mi"
)

// scopesOf are the scopes that are explored with a protocol.
func scopesOf(protocol string) (all []scope) {
	entry, err := catalog.Find(protocol)
	switch {
	case err != nil:
		return nil // a variant, which is not explored
	case entry.Partitioned != nil:
		return partitionScopes
	}
	if entry.Row.CheckOperation(register.Write) == nil {
		all = append(all, plainScopes...)
	}
	if entry.Row.CheckOperation(register.RMW) == nil {
		all = append(all, rmwScopes...)
	}
	return all
}

// scopes knows in which scopes the code without a mutant is right, as far as it was explored: the others say nothing of
// a mutant, and are left out. The zero scopes knows none.
type scopes struct {
	time  time.Duration // for each
	mu    sync.Mutex
	wrong map[string]string // what went wrong, empty if nothing did, by protocol, operations and faults
}

// leftOut lists the scopes that are left out, and why.
func (all *scopes) leftOut() (lines []string) {
	for name, why := range all.wrong { // sorted below
		if why != "" {
			lines = append(lines, name+": "+why)
		}
	}
	slices.Sort(lines)
	return lines
}

// counts reports whether the code without a mutant is right in a scope.
func (all *scopes) counts(ctx context.Context, program, protocol string, s scope) (bool, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	name := fmt.Sprintf("%s, %s, with %s", protocol, s.operations, s.faults)
	why, known := all.wrong[name]
	if !known {
		v, err := all.explored(ctx, program, "", protocol, s)
		if err != nil {
			return false, err
		}
		if v.how != "" {
			why = v.how + ", " + v.reason
		}
		if all.wrong == nil {
			all.wrong = map[string]string{}
		}
		all.wrong[name] = why
	}
	return why == "", nil
}

// explore explores the scopes of a package's protocols with a mutant, and notes what was found first. What was found
// counts only where the code without the mutant is right.
func (all *scopes) explore(ctx context.Context, program, folder string, known *result) error {
	for _, p := range protocolsOf[folder] {
		for _, s := range scopesOf(p) {
			v, err := all.explored(ctx, program, known.Name, p, s)
			if err != nil {
				return err
			}
			if v.how == "" {
				continue
			}
			if counts, err := all.counts(ctx, program, p, s); err != nil {
				return err
			} else if counts {
				known.Found, known.How, known.Reason = "explorer", v.how, v.reason
				known.By = fmt.Sprintf("%s, %s, with %s", p, s.operations, s.faults)
				return nil
			}
		}
	}
	known.Explored = true
	return nil
}

// explored explores one scope. What is not decided within its bounds is not found.
func (all *scopes) explored(ctx context.Context, program, mutant, protocol string, s scope) (verdict, error) {
	arguments := []string{"explore", "--protocol", protocol, "--operations", s.operations, "--faults", s.faults,
		"--deviations", deviations, "--for", all.time.String(), "--max-memory", exploreTop, "--output", "json"}
	out, err := run(ctx, program, mutant, arguments)
	switch {
	case ctx.Err() != nil:
		return verdict{}, ctx.Err()
	case errors.Is(err, errHung):
		return verdict{how: "hang", reason: fmt.Sprintf("a step does not end within %v", patience)}, nil
	}
	if v, ended := crashed(out); ended {
		return v, nil
	}
	var report struct{ Verdict, Failure string }
	begin := strings.Index(out, "{\n")
	if begin < 0 || json.NewDecoder(strings.NewReader(out[begin:])).Decode(&report) != nil || report.Verdict == "" {
		return verdict{}, fmt.Errorf("%s: %v: %w\n%s", mutant, arguments, err, out)
	}
	if slices.Contains([]string{"right", "not decided"}, report.Verdict) {
		return verdict{}, nil
	}
	return verdict{how: report.Verdict, reason: report.Failure}, nil
}

// outOfMemory is what the runtime says when there is no more.
var outOfMemory = regexp.MustCompile(`out of memory|cannot allocate memory|reservation exceeds`)

// crashed reports whether the explorer's process crashed, and what that says of a mutant: nothing if it had no memory
// left, since states take memory with any code.
func crashed(out string) (verdict, bool) {
	m := crash.FindStringSubmatch(out)
	if m == nil {
		return verdict{}, false
	}
	reason := strings.TrimSpace(m[1])
	if outOfMemory.MatchString(reason) {
		return verdict{}, true
	}
	return verdict{how: "panic", reason: reason}, true
}
