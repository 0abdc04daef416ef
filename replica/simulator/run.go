package simulator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Failure is a run that went wrong.
type Failure struct {
	Class    check.Class
	Reason   string // for people
	Schedule schedule.Schedule

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
func Run(s schedule.Schedule, start Start, count func(path string)) Outcome {
	outcome, _ := play(context.Background(), s, start, count, false)
	return outcome
}

// play runs the schedule, and draws its diagram if it is traced. If the context ends, the outcome means nothing.
func play(ctx context.Context, s schedule.Schedule, start Start, count func(string), traced bool) (Outcome, string) {
	w := scheduled(ctx, s, start, count, traced)
	var class check.Class
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
	if class == "" || class == check.Unbounded { // what clients saw tells more
		if seen, why := w.judge(w.manager.unspoilt(o.History), cmp.Or(s.Check, checkTimeout)); seen != "" && !(w.hopeless && seen == check.Miscount) {
			class, reason = seen, why
		}
	}
	if class == "" {
		since := check.WithoutUnseen(w.manager.since(o.History))
		class, reason = check.ClassOf(history.Check(w.Context, since, history.Options{Timeout: cmp.Or(s.Check, checkTimeout)}), check.Violation)
	}
	if class == "" {
		class, reason = w.trusted()
	}
	if class != "" {
		o.Failure = &Failure{Class: class, Reason: reason, Schedule: s, start: start}
	}
	return o, w.trace.String()
}

// scheduled makes the world of a schedule.
func scheduled(ctx context.Context, s schedule.Schedule, start Start, count func(string), traced bool) *world {
	w := newWorld(s.Seed, s.Environment, start, count, traced, newcomers(s.Faults))
	w.Context, w.Limit = ctx, eventLimit
	for _, plan := range s.Clients {
		w.addClient(plan.Home, &list{plan.Operations}, s.Abandon).asides = plan.Asides
	}
	w.inject(s.Faults)
	return w
}

// live runs the world through faults, recovery, final reads and quiescence.
func (w *world) live(settle time.Duration) (check.Class, string) {
	never := func() bool { return false }
	w.Run(settle, never)
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	w.settle()
	// Recovery takes rounds of suspicion, each after the other: this is generous, and cheap.
	bound := 120 * w.env.Retry
	if !w.finish(bound) {
		if w.Err == nil && w.manager.hopeless() {
			w.hopeless = true
			return "", ""
		}
		return w.stuck("")
	}
	if !w.Run(w.Now+bound, func() bool { return w.manager.missing() == "" }) {
		if w.Err != nil {
			return check.Broken, w.Err.Error()
		}
		if w.manager.hopeless() {
			w.hopeless = true
			return "", ""
		}
		return check.Stuck, w.manager.missing()
	}
	// Everything is read at every node, twice: values that come and go betray themselves.
	keys := w.keys()
	for site := range w.serving {
		var reads []schedule.Planned
		for i, key := range append(keys, keys...) {
			op := register.Operation{Kind: register.Read, Key: key, Regular: w.env.Regular && i < len(keys)}
			reads = append(reads, schedule.Planned{At: w.Now, Operation: op})
		}
		w.addClient(site, &list{reads}, 0)
	}
	if !w.finish(bound) {
		return w.stuck("at the end ")
	}
	if !w.Run(w.Now+bound, func() bool { return w.pending() == 0 && !w.transferring() }) {
		if w.Err != nil {
			return check.Broken, w.Err.Error()
		}
		return check.Unbounded, fmt.Sprintf("the protocols still hold %d operations or instances; records of transfers are left: %v",
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

func (w *world) stuck(when string) (check.Class, string) {
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	for _, c := range w.clients {
		if c.working {
			return check.Stuck, fmt.Sprintf("%s%s of %s at member %d is still not answered%s", when, diagram.OperationText(c.operation), c.name, c.target.index+1, w.manager.waiting())
		}
	}
	return check.Stuck, when + "clients wait"
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
type list struct{ left []schedule.Planned }

func (l *list) next(time.Duration) (register.Operation, time.Duration, bool) {
	if len(l.left) == 0 {
		return register.Operation{}, 0, false
	}
	p := l.left[0]
	l.left = l.left[1:]
	return p.Operation, p.At, true
}

// judge checks what clients saw.
func (w *world) judge(operations []history.Operation, patience time.Duration) (check.Class, string) {
	if w.env.Regular {
		return check.RegularSequential(w.Context, operations, history.RSCOptions{Messages: w.messages, Fences: w.fences}, patience)
	}
	return check.Linearizable(w.Context, operations, w.env.StaleBound(), patience)
}
