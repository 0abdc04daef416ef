package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/simulator"
)

// deviated is what came of the deviations of a kind from a plain run, as `simulate --deviations -o json` tells it.
type deviated struct {
	Plain, Kind      string
	Runs             int
	Slower, Slowest  time.Duration
	Unready, Longest time.Duration
	Behind, Furthest time.Duration
	Messages, Most   int
}

// plainRuns are those of the code without a mutant and their deviations, by protocol and how many deviations they are.
// The zero value has none.
type plainRuns struct{ once[played] }

// played is what plain runs cost, and what came of deviations from them.
type played struct {
	costs    []simulator.Cost
	deviated []deviated
}

// seeds are those of plain runs in which something has to cost more with a mutant, each time: whatever changes the order
// of events has operations meet in another way, and some of them take longer by that in one run.
var seeds = []int{1, 2, 3}

// least is how many deviations of each plain run are tried where only what plain runs cost is compared.
const least = 1

// try runs the deviations of a package's protocols with a mutant, so many of each plain run, and notes the first that
// goes wrong, or else what costs more than without, with each seed. Of the least, only the plain runs themselves do.
func (all *plainRuns) try(ctx context.Context, program, folder string, known *result, runs int) error {
	for _, p := range protocolsOf[folder] {
		var cost map[string]string
		for _, seed := range seeds {
			was, err := all.without(ctx, program, p, runs, seed)
			if err != nil {
				return err
			}
			is, v, err := deviate(ctx, program, known.Name, p, runs, seed)
			if err != nil {
				return err
			}
			if v.how != "" {
				known.Found, known.How, known.By, known.Reason = "deviation", v.how, p, v.reason
				return nil
			}
			more := costlierRuns(was.costs, is.costs)
			if runs > least {
				maps.Copy(more, costlier(was.deviated, is.deviated))
			}
			if seed == seeds[0] {
				cost = more
			}
			maps.DeleteFunc(cost, func(what, _ string) bool { return more[what] == "" })
			if len(cost) == 0 {
				break
			}
		}
		if len(cost) > 0 {
			first := slices.Min(slices.Collect(maps.Keys(cost)))
			known.Found, known.How, known.By, known.Reason = "deviation", "slower", p, cost[first]
			return nil
		}
	}
	known.Deviated = runs
	return nil
}

func (all *plainRuns) without(ctx context.Context, program, protocol string, runs, seed int) (played, error) {
	return all.of(fmt.Sprint(protocol, " ", runs, " ", seed), func() (played, error) {
		d, v, err := deviate(ctx, program, "", protocol, runs, seed)
		if err == nil && v.how != "" {
			err = fmt.Errorf("the code without a mutant goes wrong too, with %d deviations of %s and seed %d: %s: %s",
				runs,
				protocol, seed, v.how, v.reason)
		}
		return d, err
	})
}

var wrong = regexp.MustCompile(`(?m)^(?:Error: |georegister: )?(.*): seed \d+: ([a-z]+): (.*)$`)

func deviate(ctx context.Context, program, mutant, protocol string, runs, seed int) (
	all played, v verdict, err error,
) {
	to, err := os.MkdirTemp("", "costs-")
	if err != nil {
		return all, v, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(to)) }()
	path := filepath.Join(to, "costs")
	arguments := []string{"simulate", "--shrink=false", "--protocol", protocol, "--deviations", strconv.Itoa(runs),
		"--seed", strconv.Itoa(seed), "--output", "json", "--costs", path}
	out, err := run(ctx, program, mutant, arguments)
	if ctx.Err() != nil {
		return all, v, ctx.Err()
	}
	if err == nil {
		begin := strings.Index(out, "[")
		if begin < 0 {
			return all, v, fmt.Errorf("%s: %v: no figures\n%s", mutant, arguments, out)
		}
		if all.costs, err = readCosts(path); err != nil {
			return all, v, err
		}
		return all, v, json.NewDecoder(strings.NewReader(out[begin:])).Decode(&all.deviated)
	}
	if m := wrong.FindStringSubmatch(out); m != nil {
		return all, verdict{how: m[2], reason: m[1] + ": " + m[3]}, nil
	}
	if m := crash.FindStringSubmatch(out); m != nil {
		return all, verdict{how: "panic", reason: strings.TrimSpace(m[1])}, nil
	}
	return all, v, fmt.Errorf("%s: %v: %w\n%s", mutant, arguments, err, out)
}

// Of the deviations of a kind, operations have to be so much slower than without the mutant in the mean, or one of them,
// and a change or a member not done for so much longer.
const (
	slowerOnce = 40 * time.Millisecond
	slowerMean = 4 * time.Millisecond
	moreOnce   = 12
	moreMean   = 2
)

// quarter is how many times what it was a cost of a plain run has to be. Where it had as many messages and batches, it
// has gone the same way, and nothing else differs by chance: then costlierAlike.
const quarter = 1.25

// costlierRuns says what plain runs cost more of with a mutant, by what it is.
func costlierRuns(was, is []simulator.Cost) map[string]string {
	before, found := map[string]simulator.Cost{}, map[string]string{}
	for _, a := range was {
		before[a.Plain] = a
	}
	for _, b := range is {
		a, known := before[b.Plain]
		if !known {
			continue
		}
		more := quarter
		if a.Messages == b.Messages && a.Batches == b.Batches {
			more = costlierAlike
		}
		for _, m := range measures {
			if x, y := m.of(a), m.of(b); y > more*x+m.little {
				name := b.Plain + ": " + m.what
				found[name] = fmt.Sprintf("%s: %s, not %s", name, figure(y), figure(x))
			}
		}
	}
	return found
}

// costlier says what costs more with a mutant, by what it is.
func costlier(was, is []deviated) map[string]string {
	before, found := map[string]deviated{}, map[string]string{}
	for _, d := range was {
		before[d.Plain+d.Kind] = d
	}
	for _, b := range is {
		a, known := before[b.Plain+b.Kind]
		if !known || a.Runs == 0 || b.Runs == 0 {
			continue
		}
		tell := func(more bool, what string, was, is any) {
			if more {
				name := fmt.Sprintf("%s, %s: %s", b.Plain, b.Kind, what)
				found[name] = fmt.Sprintf("%s: %v, not %v", name, is, was)
			}
		}
		took := func(what string, was, is, least time.Duration) {
			tell(is > was*5/4+least, what, was.Round(time.Millisecond), is.Round(time.Millisecond))
		}
		mean := func(total time.Duration, d deviated) time.Duration { return total / time.Duration(d.Runs) }
		took("the most that an operation takes longer", a.Slowest, b.Slowest, slowerOnce)
		took("by how much operations take longer", mean(a.Slower, a), mean(b.Slower, b), slowerMean)
		took("the most for which members are longer not done", a.Longest, b.Longest, 2*slowerOnce)
		took("for how much longer members are not done", mean(a.Unready, a), mean(b.Unready, b), 2*slowerMean)
		took("the most for which members are longer behind others", a.Furthest, b.Furthest, 2*slowerOnce)
		took("for how much longer members are behind others", mean(a.Behind, a), mean(b.Behind, b), 2*slowerMean)
		tell(float64(b.Most) > 1.5*float64(a.Most)+moreOnce, "the most messages that there are more", a.Most, b.Most)
		x, y := float64(a.Messages)/float64(a.Runs), float64(b.Messages)/float64(b.Runs)
		tell(y > x+math.Abs(x)/4+moreMean, "how many messages there are more", x, y)
	}
	return found
}
