package main

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"time"
)

// deviated is what came of the deviations of a kind from a plain run, as `simulate --deviations -o json` tells it.
type deviated struct {
	Plain, Kind      string
	Runs             int
	Slower, Slowest  time.Duration
	Unready, Longest time.Duration
	Messages, Most   int
}

// plainRuns are the deviations of the code without a mutant, by protocol and how many they are. The zero value has none.
type plainRuns struct {
	mu    sync.Mutex
	known map[string][]deviated
}

// try runs the deviations of a package's protocols with a mutant, so many of each plain run, and notes the first that
// goes wrong, or else the first kind of them that costs more than without.
func (all *plainRuns) try(ctx context.Context, program, folder string, known *result, runs int) error {
	for _, p := range protocolsOf[folder] {
		was, err := all.without(ctx, program, p, runs)
		if err != nil {
			return err
		}
		is, v, err := deviate(ctx, program, known.Name, p, runs)
		if err != nil {
			return err
		}
		if v.how == "" {
			v.how, v.reason = costlier(was, is)
		}
		if v.how != "" {
			known.Found, known.How, known.Reason = "deviation", v.how, v.reason
			known.By = p
			return nil
		}
	}
	known.Deviated = runs
	return nil
}

func (all *plainRuns) without(ctx context.Context, program, protocol string, runs int) ([]deviated, error) {
	all.mu.Lock()
	defer all.mu.Unlock()
	key := fmt.Sprint(protocol, runs)
	if d, known := all.known[key]; known {
		return d, nil
	}
	d, v, err := deviate(ctx, program, "", protocol, runs)
	if err == nil && v.how != "" {
		err = fmt.Errorf("the code without a mutant goes wrong too, with %d deviations of %s: %s: %s", runs, protocol,
			v.how, v.reason)
	}
	if err != nil {
		return nil, err
	}
	if all.known == nil {
		all.known = map[string][]deviated{}
	}
	all.known[key] = d
	return d, nil
}

var wrong = regexp.MustCompile(`(?m)^(?:Error: |georegister: )?(.*): seed \d+: ([a-z]+): (.*)$`)

func deviate(ctx context.Context, program, mutant, protocol string, runs int) (all []deviated, v verdict, err error) {
	arguments := []string{"simulate", "--shrink=false", "--protocol", protocol, "--deviations", strconv.Itoa(runs),
		"--output", "json"}
	out, err := run(ctx, program, mutant, arguments)
	if ctx.Err() != nil {
		return nil, v, ctx.Err()
	}
	if err == nil {
		begin := strings.Index(out, "[")
		if begin < 0 {
			return nil, v, fmt.Errorf("%s: %v: no figures\n%s", mutant, arguments, out)
		}
		return all, v, json.NewDecoder(strings.NewReader(out[begin:])).Decode(&all)
	}
	if m := wrong.FindStringSubmatch(out); m != nil {
		return nil, verdict{how: m[2], reason: m[1] + ": " + m[3]}, nil
	}
	if m := crash.FindStringSubmatch(out); m != nil {
		return nil, verdict{how: "panic", reason: strings.TrimSpace(m[1])}, nil
	}
	return nil, v, fmt.Errorf("%s: %v: %w\n%s", mutant, arguments, err, out)
}

// Of the deviations of a kind, operations have to be so much slower than without the mutant in the mean, or one of them, and
// a change or a member not done for so much longer: a mutant may change the order of events, and so any of these a little.
const (
	slowerOnce = 40 * time.Millisecond
	slowerMean = 4 * time.Millisecond
	moreOnce   = 12
	moreMean   = 2
)

// costlier says what costs more with a mutant, or nothing.
func costlier(was, is []deviated) (how, why string) {
	before := map[string]deviated{}
	for _, d := range was {
		before[d.Plain+d.Kind] = d
	}
	for _, b := range is {
		a, known := before[b.Plain+b.Kind]
		if !known || a.Runs == 0 || b.Runs == 0 {
			continue
		}
		tell := func(what string, was, is any) (string, string) {
			return "slower", fmt.Sprintf("%s, %s: %s is %v, not %v", b.Plain, b.Kind, what, is, was)
		}
		mean := func(d deviated, total time.Duration) time.Duration { return total / time.Duration(d.Runs) }
		more := func(d deviated) float64 { return float64(d.Messages) / float64(d.Runs) }
		switch {
		case longer(a.Slowest, b.Slowest, slowerOnce):
			return tell("the most that an operation takes longer", a.Slowest, b.Slowest)
		case longer(mean(a, a.Slower), mean(b, b.Slower), slowerMean):
			return tell("how much longer operations take", mean(a, a.Slower), mean(b, b.Slower))
		case longer(a.Longest, b.Longest, 2*slowerOnce):
			return tell("the most for which members are longer not done", a.Longest, b.Longest)
		case longer(mean(a, a.Unready), mean(b, b.Unready), 2*slowerMean):
			return tell("for how much longer members are not done", mean(a, a.Unready), mean(b, b.Unready))
		case float64(b.Most) > 1.5*float64(a.Most)+moreOnce:
			return tell("the most messages that there are more", a.Most, b.Most)
		case more(b) > more(a)+math.Abs(more(a))/4+moreMean && b.Kind != silentKind:
			return tell("how many messages there are more", more(a), more(b))
		}
	}
	return "", ""
}

// silentKind are the deviations in which a part of the members is alone for long.
const silentKind = "a member is silent"

// longer reports whether a duration is a quarter longer than another one, and by more than so much.
func longer(was, is, least time.Duration) bool { return is > was*5/4+least }
