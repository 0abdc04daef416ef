package history

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sort"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/georegister/georegister/replica/register"
)

const (
	explainFor = 3 * time.Second // all attempts to make a violation smaller together
	attemptFor = time.Second     // one attempt
	explainMax = 20              // operations that an explanation lists
)

// explain makes a violation of one key small: the shortest prefix in time that fails, then without what it
// can fail without. Everything it leaves out it leaves open, so that what stays fails for the same reason.
func (c checker) explain(key string, steps []*step) ([]Operation, string) {
	name := DescribeValue(register.Value(key))
	if _, _, conflict := mergeRetries(steps); conflict != nil {
		return conflict, fmt.Sprintf("one rmw on key %s, retried with its id, got two different answers:\n%s",
			name, list(conflict))
	}
	end := time.Now().Add(explainFor)
	fails := func(part []*step) bool {
		if time.Now().After(end) || c.ctx.Err() != nil {
			return false
		}
		outcome, _ := c.check(part, attemptFor)
		return outcome == Violation
	}
	steps = weaken(shortestPrefix(steps, fails), open, fails)
	merged, _, _ := mergeRetries(steps)
	var failing []Operation
	for _, s := range prepare(c.ctx, c.registry, merged) {
		failing = append(failing, s.Operation)
	}
	return failing, fmt.Sprintf("no order of these operations on key %s explains all their answers:\n%s",
		name, list(failing))
}

// shortestPrefix cuts the steps at the earliest answer by which they fail. What is still open at the cut has
// an unknown outcome.
func shortestPrefix(steps []*step, fails func([]*step) bool) []*step {
	var answers []time.Duration
	for _, s := range steps {
		if s.known {
			answers = append(answers, s.Returned)
		}
	}
	slices.Sort(answers)
	at := sort.Search(len(answers), func(i int) bool { return fails(prefix(steps, answers[i])) })
	if at == len(answers) {
		return steps
	}
	return prefix(steps, answers[at])
}

// prefix is what was known of the steps at a time.
func prefix(steps []*step, t time.Duration) []*step {
	var part []*step
	for _, s := range steps {
		switch {
		case s.Returned <= t:
			part = append(part, s)
		case s.Invoked <= t:
			part = append(part, open(s)...)
		}
	}
	return part
}

// open is a step without its answer: nothing if it is a read.
func open(s *step) []*step {
	if s.Request.Kind == register.Read {
		return nil
	}
	opened := *s
	opened.known, opened.Returned, opened.Result = false, never, register.Result{Status: register.Unknown}
	return []*step{&opened}
}

// weaken opens ever smaller runs of steps as long as what is left fails.
func weaken[S any](steps []S, open func(S) []S, fails func([]S) bool) []S {
	for size := len(steps) / 2; size > 0; size /= 2 {
		for from := 0; from < len(steps); {
			to := min(from+size, len(steps))
			var middle []S
			for _, s := range steps[from:to] {
				middle = append(middle, open(s)...)
			}
			weaker := slices.Concat(steps[:from], middle, steps[to:])
			if fails(weaker) {
				steps, to = weaker, from+len(middle)
			}
			from = to
		}
	}
	return steps
}

// list renders operations in the order of their invocation, the last ones if they are many.
func list(operations []Operation) string {
	operations = slices.Clone(operations)
	slices.SortStableFunc(operations, func(a, b Operation) int { return cmp.Compare(a.Invoked, b.Invoked) })
	var b strings.Builder
	if more := len(operations) - explainMax; more > 0 {
		fmt.Fprintf(&b, "  (%d earlier operations)\n", more)
		operations = operations[more:]
	}
	for _, o := range operations {
		until := "..."
		if o.Known() {
			until = o.Returned.String()
		}
		fmt.Fprintf(&b, "  [%v, %s] %s: %s\n", o.Invoked, until, o.Client, describe(o))
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// Picture writes porcupine's page for the failing operations of a violation. Once the context ends, the page has less.
func (v Verdict) Picture(ctx context.Context, w io.Writer) error {
	if len(v.Failing) == 0 {
		return errors.New("there is a picture for an explained violation only")
	}
	// Two answers to one id are not a matter of order; without the ids they are shown as they are.
	steps := partition(v.Failing)[v.Key]
	if merged, _, conflict := mergeRetries(steps); conflict == nil {
		steps = merged
	}
	registry := register.NewRegistry()
	steps = prepare(ctx, registry, steps)
	m := newModel(ctx, registry, steps)
	_, info := porcupine.CheckOperationsVerbose(m.porcupine(), toPorcupine(steps), explainFor)
	if err := porcupine.Visualize(m.porcupine(), info, w); err != nil {
		return fmt.Errorf("write the picture: %w", err)
	}
	return nil
}
