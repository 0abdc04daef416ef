// Package check holds what clients saw, and what members committed, against what a protocol promises.
package check

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Class is how a run went wrong.
type Class string

// The ways to go wrong.
const (
	Broken    Class = "broken"    // the protocol did what the contract forbids, or stopped with a fault
	Stuck     Class = "stuck"     // an operation did not finish though the faults were over
	Unbounded Class = "unbounded" // operations are over, but the protocol never let go of its own work
	// The history is not linearizable; of a regular protocol, not regular sequentially consistent.
	Violation Class = "violation"
	Stale     Class = "stale"     // a read that may be stale was older than its bound, or told of what was lost
	Believed  Class = "believed"  // a member voted on an older copy of its disk, and nobody saw harm of that yet
	Late      Class = "late"      // something took longer, or more messages, than what went wrong explains
	Undecided Class = "undecided" // the check of the history took too long
	// The carstamps of answers are not in the order of what clients saw.
	Disordered Class = "disordered"
	Miscount   Class = "miscount" // a counter or log does not hold each acknowledged rmw exactly once
	// A member, a witness, or whoever decides on members did what the protocol forbids, and nobody saw harm of that yet.
	Breach Class = "breach"
)

// Linearizable checks a history whose last reads follow everything else; patience bounds each check, in real time.
func Linearizable(ctx context.Context, operations []history.Operation, bound, patience time.Duration) (Class, string) {
	seen, options := WithoutUnseen(operations), history.Options{Timeout: patience}
	if class, why := ClassOf(history.Check(ctx, seen, options), Violation); class != "" {
		return class, why
	}
	if history.AnyStale(operations) {
		if class, why := ClassOf(history.CheckStale(ctx, seen, bound, options), Stale); class != "" {
			return class, why
		}
	}
	return recount(operations)
}

// ClassOf is what a verdict says, if a violation is one of that class.
func ClassOf(verdict history.Verdict, violation Class) (Class, string) {
	switch verdict.Outcome {
	case history.Linearizable:
		return "", ""
	case history.Violation:
		return violation, verdict.Explanation
	}
	return Undecided, fmt.Sprintf("the check ended with %q: %s", verdict.Outcome, verdict.Explanation)
}

// WithoutUnseen leaves out the appends to logs whose outcome nobody knows and that no read shows. Had one taken effect
// before the last reads, they would show it; so it comes after everything, and explains nothing. The check would try it
// in every place, and of several in every order.
func WithoutUnseen(operations []history.Operation) []history.Operation {
	shown := map[string][]byte{} // by key, all values that were read
	for _, o := range operations {
		if o.Request.Kind == register.Read && o.Result.Status == register.OK {
			shown[o.Request.Key] = append(shown[o.Request.Key], o.Result.Value...)
		}
	}
	return slices.DeleteFunc(slices.Clone(operations), func(o history.Operation) bool {
		return o.Request.Kind == register.RMW && o.Result.Status == register.Unknown && strings.HasPrefix(o.Request.Key, schedule.LogPrefix) &&
			!bytes.Contains(shown[o.Request.Key], o.Request.Call.Args[0])
	})
}

// recount compares the last value read of each counter and log with the rmws that were acknowledged. It is a
// second opinion, simple enough to be trusted, on what the check of the history implies.
func recount(operations []history.Operation) (Class, string) {
	last := map[string]register.Value{}
	for _, o := range operations {
		if o.Request.Kind == register.Read && !o.Request.Stale && o.Result.Status == register.OK {
			last[o.Request.Key] = o.Result.Value
		}
	}
	sure, perhaps := map[string]int{}, map[string]int{}
	for _, o := range operations {
		key := o.Request.Key
		if o.Request.Kind != register.RMW || o.Result.Status == register.Unsupported {
			continue
		}
		if o.Result.Status == register.OK {
			sure[key]++
		} else {
			perhaps[key]++
		}
		if !strings.HasPrefix(key, schedule.LogPrefix) {
			continue
		}
		token := o.Request.Call.Args[0]
		if n := bytes.Count(last[key], token); n > 1 || n == 0 && o.Result.Status == register.OK {
			return Miscount, fmt.Sprintf("%q, appended by %s (%s), is %d times in the last value read of %q", token, o.Client, o.Result.Status, n, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if !strings.HasPrefix(key, schedule.CounterPrefix) || sure[key]+perhaps[key] == 0 {
			continue
		}
		held := 0
		if last[key].Present() {
			held, _ = strconv.Atoi(string(last[key])) // what is no number counts as 0
		}
		if held < sure[key] || held > sure[key]+perhaps[key] {
			return Miscount, fmt.Sprintf("counter %q is %s, after %d acknowledged adds and %d of unknown outcome",
				key, diagram.ValueText(last[key]), sure[key], perhaps[key])
		}
	}
	return "", ""
}

// RegularSequential checks a history of sessions whose last reads are linearizable and follow everything else.
func RegularSequential(ctx context.Context, operations []history.Operation, options history.RSCOptions, patience time.Duration) (Class, string) {
	seen := WithoutUnseen(operations)
	verdict, err := history.CheckRSC(ctx, seen, options)
	switch {
	case err != nil:
		return Broken, err.Error()
	case verdict.Outcome == history.Violation:
		return Violation, verdict.Explanation
	case !verdict.OK():
		// Operations of unknown outcome can be too many for the search. What is linearizable is regular sequential, too.
		if class, _ := ClassOf(history.Check(ctx, seen, history.Options{Timeout: patience}), Violation); class != "" {
			return Undecided, fmt.Sprintf("the check ended with %q: %s", verdict.Outcome, verdict.Explanation)
		}
	}
	// What is not regular is linearizable among itself.
	strict := slices.DeleteFunc(seen, func(o history.Operation) bool { return o.Request.Regular })
	if class, why := ClassOf(history.Check(ctx, strict, history.Options{Timeout: patience}), Violation); class != "" {
		return class, "without regular reads: " + why
	}
	return recount(operations)
}
