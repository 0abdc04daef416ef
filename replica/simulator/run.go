package simulator

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
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
	Undecided Class = "undecided" // the check of the history took too long
	Miscount  Class = "miscount"  // a counter or log does not hold each acknowledged rmw exactly once
)

// Failure is a run that went wrong.
type Failure struct {
	Class    Class
	Reason   string // for people
	Schedule Schedule

	start Start
}

// Error implements error.
func (f *Failure) Error() string {
	return fmt.Sprintf("seed %d: %s: %s", f.Schedule.Seed, f.Class, f.Reason)
}

// Outcome is what came of a run.
type Outcome struct {
	Failure    *Failure // nil: everything was as it must be
	Operations int      // that clients started
	Hits       int      // faults that hit work in flight
	Events     uint64
	Elapsed    time.Duration // virtual
	History    []history.Operation
	Messages   []history.Message // that clients of a regular protocol sent each other
	Fences     []history.Fence   // of theirs
}

// checkTimeout bounds the check of one schedule's history, in real time. It is far above what one takes, so
// that the outcome does not depend on the machine.
const checkTimeout = 5 * time.Minute

// eventLimit bounds the events of one schedule, many times above what the longest take: members that answer each
// message with two would go on until memory is used up.
const eventLimit = 1_000_000

// Run runs the schedule. count, which may be nil, is told the paths that the protocol takes.
func (s Schedule) Run(start Start, count func(path string)) Outcome {
	outcome, _ := s.play(context.Background(), start, count, false)
	return outcome
}

// play runs the schedule, and draws its diagram if it is traced. If the context ends, the outcome means nothing.
func (s Schedule) play(ctx context.Context, start Start, count func(string), traced bool) (Outcome, string) {
	w := s.world(ctx, start, count, traced)
	var class Class
	var reason string
	if s.Lost == nil {
		class, reason = w.live(s.Settle)
	} else {
		class, reason = w.liveWithout(s.Lost, s.Settle)
	}
	o := Outcome{Events: w.Events, Elapsed: w.Now, History: w.recorder.Operations(), Messages: w.messages, Fences: w.fences}
	o.Operations = len(o.History)
	for _, f := range w.faults {
		if f.hit {
			o.Hits++
		}
	}
	if w.hopeless {
		w.Took("hopeless")
	}
	if class == "" || class == Unbounded { // what clients saw tells more
		if seen, why := w.judge(w.manager.unspoilt(o.History), cmp.Or(s.check, checkTimeout)); seen != "" && !(w.hopeless && seen == Miscount) {
			class, reason = seen, why
		}
	}
	if class == "" {
		since := withoutUnseen(w.manager.since(o.History))
		class, reason = judged(history.Check(w.Context, since, history.Options{Timeout: cmp.Or(s.check, checkTimeout)}), Violation)
	}
	if class == "" {
		class, reason = w.trusted()
	}
	if class != "" {
		o.Failure = &Failure{Class: class, Reason: reason, Schedule: s, start: start}
	}
	if w.trace == nil {
		return o, ""
	}
	return o, w.trace.text.String()
}

// world makes the world of the schedule.
func (s Schedule) world(ctx context.Context, start Start, count func(string), traced bool) *world {
	w := newWorld(s.Seed, s.env, start, count, traced, newcomers(s.Faults))
	w.Context, w.Limit = ctx, eventLimit
	for _, plan := range s.Clients {
		w.addClient(plan.Home, &list{plan.Operations}, s.abandon).asides = plan.Asides
	}
	w.inject(s.Faults)
	return w
}

// live runs the world through faults, recovery, final reads and quiescence.
func (w *world) live(settle time.Duration) (Class, string) {
	never := func() bool { return false }
	w.Run(settle, never)
	if w.Err != nil {
		return Broken, w.Err.Error()
	}
	w.settle()
	// Recovery takes rounds of suspicion, each after the other: this is generous, and cheap.
	bound := 120 * w.env.retry
	if !w.finish(bound) {
		if w.Err == nil && w.manager.hopeless() {
			w.hopeless = true
			return "", ""
		}
		return w.stuck("")
	}
	if !w.Run(w.Now+bound, func() bool { return w.manager.missing() == "" }) {
		if w.Err != nil {
			return Broken, w.Err.Error()
		}
		if w.manager.hopeless() {
			w.hopeless = true
			return "", ""
		}
		return Stuck, w.manager.missing()
	}
	// Everything is read at every node, twice: values that come and go betray themselves.
	keys := w.keys()
	for site := range w.serving {
		var reads []Planned
		for i, key := range append(keys, keys...) {
			op := register.Operation{Kind: register.Read, Key: key, Regular: w.env.regular && i < len(keys)}
			reads = append(reads, Planned{w.Now, op})
		}
		w.addClient(site, &list{reads}, 0)
	}
	if !w.finish(bound) {
		return w.stuck("at the end ")
	}
	if !w.Run(w.Now+bound, func() bool { return w.pending() == 0 && !w.transferring() }) {
		if w.Err != nil {
			return Broken, w.Err.Error()
		}
		return Unbounded, fmt.Sprintf("the protocols still hold %d operations or instances; records of transfers are left: %v",
			w.pending(), w.transferring())
	}
	return "", ""
}

// finish runs until every client is done. It reports false if one of them waits for an operation longer than
// the bound: each operation has its own, so that a run may be long if it only moves.
func (w *world) finish(bound time.Duration) bool {
	from := w.Now
	idle, late := false, false
	w.Run(math.MaxInt64, func() bool {
		idle, late = true, false
		for _, c := range w.clients {
			idle = idle && c.stopped
			late = late || c.working && w.Now > max(c.since, from)+bound
		}
		return idle || late
	})
	return idle
}

func (w *world) stuck(when string) (Class, string) {
	if w.Err != nil {
		return Broken, w.Err.Error()
	}
	for _, c := range w.clients {
		if c.working {
			return Stuck, fmt.Sprintf("%s%s of %s at member %d is still not answered%s", when, operationText(c.operation), c.name, c.target.index+1, w.manager.waiting())
		}
	}
	return Stuck, when + "clients wait"
}

// keys lists the keys that clients touched, sorted.
func (w *world) keys() []string {
	var keys []string
	for _, o := range w.recorder.Operations() {
		keys = append(keys, o.Request.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// list is a source of planned operations.
type list struct{ left []Planned }

func (l *list) next(time.Duration) (register.Operation, time.Duration, bool) {
	if len(l.left) == 0 {
		return register.Operation{}, 0, false
	}
	p := l.left[0]
	l.left = l.left[1:]
	return p.Operation, p.At, true
}

// judge checks what clients saw.
func (w *world) judge(operations []history.Operation, patience time.Duration) (Class, string) {
	if w.env.regular {
		return judgeRegular(w.Context, operations, history.RSCOptions{Messages: w.messages, Fences: w.fences}, patience)
	}
	return judge(w.Context, operations, w.env.staleBound(), patience)
}

// judge checks a history whose last reads follow everything else; patience bounds each check, in real time.
func judge(ctx context.Context, operations []history.Operation, bound, patience time.Duration) (Class, string) {
	seen, options := withoutUnseen(operations), history.Options{Timeout: patience}
	if class, why := judged(history.Check(ctx, seen, options), Violation); class != "" {
		return class, why
	}
	if history.AnyStale(operations) {
		if class, why := judged(history.CheckStale(ctx, seen, bound, options), Stale); class != "" {
			return class, why
		}
	}
	if wrong := recount(operations); wrong != "" {
		return Miscount, wrong
	}
	return "", ""
}

// judged is what a verdict says, if a violation is one of that class.
func judged(verdict history.Verdict, violation Class) (Class, string) {
	switch verdict.Outcome {
	case history.Linearizable:
		return "", ""
	case history.Violation:
		return violation, verdict.Explanation
	}
	return Undecided, fmt.Sprintf("the check ended with %q: %s", verdict.Outcome, verdict.Explanation)
}

// staleBound is how old a read that may be stale can be.
func (e *environment) staleBound() time.Duration {
	if e.parted == nil {
		return 0 // only masters have more than one answer
	}
	return e.parted.sync.WithDefaults().Lease
}

// withoutUnseen leaves out the appends to logs whose outcome nobody knows and that no read shows. Had one taken effect
// before the last reads, they would show it; so it comes after everything, and explains nothing. The check would try it
// in every place, and of several in every order.
func withoutUnseen(operations []history.Operation) []history.Operation {
	shown := map[string][]byte{} // by key, all values that were read
	for _, o := range operations {
		if o.Request.Kind == register.Read && o.Result.Status == register.OK {
			shown[o.Request.Key] = append(shown[o.Request.Key], o.Result.Value...)
		}
	}
	return slices.DeleteFunc(slices.Clone(operations), func(o history.Operation) bool {
		return o.Request.Kind == register.RMW && o.Result.Status == register.Unknown && strings.HasPrefix(o.Request.Key, logPrefix) &&
			!bytes.Contains(shown[o.Request.Key], o.Request.Call.Args[0])
	})
}

// recount compares the last value read of each counter and log with the rmws that were acknowledged. It is a
// second opinion, simple enough to be trusted, on what the check of the history implies.
func recount(operations []history.Operation) string {
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
		if !strings.HasPrefix(key, logPrefix) {
			continue
		}
		token := o.Request.Call.Args[0]
		if n := bytes.Count(last[key], token); n > 1 || n == 0 && o.Result.Status == register.OK {
			return fmt.Sprintf("%q, appended by %s (%s), is %d times in the last value read of %q", token, o.Client, o.Result.Status, n, key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(last)) {
		if !strings.HasPrefix(key, counterPrefix) || sure[key]+perhaps[key] == 0 {
			continue
		}
		held := 0
		if last[key].Present() {
			held, _ = strconv.Atoi(string(last[key])) // what is no number counts as 0
		}
		if held < sure[key] || held > sure[key]+perhaps[key] {
			return fmt.Sprintf("counter %q is %s, after %d acknowledged adds and %d of unknown outcome",
				key, valueText(last[key]), sure[key], perhaps[key])
		}
	}
	return ""
}
