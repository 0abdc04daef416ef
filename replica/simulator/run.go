package simulator

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/simulator/clients"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/coverage"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/simulator/injection"
	"github.com/georegister/georegister/replica/simulator/members"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/kernel"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/schedule"
)

// Failure is a run that went wrong.
type Failure struct {
	Class    check.Class
	Reason   string // for people
	Schedule schedule.Schedule
	Number   int // of a search that learns: which of its schedules, from 1 on; 0: its schedule is that of its seed

	start Start
}

// Error implements error.
func (f *Failure) Error() string {
	if f.Number > 0 {
		return fmt.Sprintf("schedule %d: %s: %s", f.Number, f.Class, f.Reason)
	}
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

	course  *course       // nil: nobody asked
	covered *coverage.Run // nil: nobody asked
	cost    Cost          // zero: nobody asked
	sent    uint64        // messages, until faults were over
}

// watch is what is wanted of a run beside its outcome.
type watch struct {
	count    func(path string) // may be nil
	traced   bool              // its diagram
	observed bool              // what is covered
	timed    bool              // its course
	weighed  bool              // its cost
}

// checkTimeout bounds the check of one schedule's history, in real time. It is far above what one takes, so
// that the outcome does not depend on the machine.
const checkTimeout = 5 * time.Minute

// eventLimit bounds the events of one schedule, many times above what the longest take: members that answer each
// message with two would go on until memory is used up.
const eventLimit = 1_000_000

// Run runs the schedule. count, which may be nil, is told the paths that the protocol takes.
func Run(s schedule.Schedule, start Start, count func(path string)) Outcome {
	outcome, _ := play(context.Background(), s, start, watch{count: count})
	return outcome
}

// play runs the schedule, and draws its diagram if it is traced. If the context ends, the outcome means nothing.
func play(ctx context.Context, s schedule.Schedule, start Start, wanted watch) (Outcome, string) {
	w := scheduled(ctx, s, start, wanted)
	var c *course
	if wanted.timed || wanted.weighed {
		c = w.follow()
	}
	w.Network.Timed, w.Network.Weighed = wanted.timed, wanted.weighed
	var class check.Class
	var reason string
	switch {
	case s.Lost != nil:
		class, reason = w.liveWithout(s.Lost, s.Settle)
	case s.Outage == nil:
		class, reason = w.live(s.Settle)
	default:
		class, reason = w.liveUntil(s)
	}
	o := Outcome{Events: w.Events, Elapsed: w.Now, History: w.Clients.Recorder.Operations(), Messages: w.Clients.Messages, Fences: w.Clients.Fences}
	o.Operations = len(o.History)
	for _, f := range w.Network.Faults {
		if f.Hit {
			o.Hits++
		}
	}
	if w.hopeless {
		w.Took("hopeless")
	}
	if class == "" || class == check.Unbounded { // what clients saw tells more
		if seen, why := w.judge(w.Manager.QuorumLoss.OfWholePartitions(o.History), cmp.Or(s.Check, checkTimeout)); seen != "" && !(w.hopeless && seen == check.Miscount) {
			class, reason = seen, why
		}
	}
	if class == "" {
		since := check.WithoutUnseen(w.Manager.QuorumLoss.Since(o.History))
		class, reason = check.ClassOf(history.Check(w.Context, since, history.Options{Timeout: cmp.Or(s.Check, checkTimeout)}), check.Violation)
	}
	if class == "" && s.Environment.Partitioned == nil { // what witnesses replay gets other positions than it had
		class, reason = check.Ordered(check.WithoutUnseen(o.History))
	}
	if class == "" {
		class, reason = w.Trusted()
	}
	if class == "" {
		class, reason = w.Breach()
	}
	if class == "" && w.quiet {
		class, reason = w.rest()
	}
	if class != "" {
		o.Failure = &Failure{Class: class, Reason: reason, Schedule: s, start: start}
	}
	o.covered, o.sent = w.Coverage, w.Network.Sent
	if wanted.timed {
		o.course = c.end(w)
	}
	if wanted.weighed {
		o.cost = w.cost(s.Seed, o.History, c)
	}
	return o, w.Diagram.String()
}

// run is a world with the manager of its members, what goes wrong in it, and how it ends.
type run struct {
	*injection.Injector
	quiet    bool // nothing is in progress any more
	hopeless bool // something was lost, by more losses than there may be at once: nothing is read at the end
}

// newRun makes a run and starts its members; spares are how many members may join.
func newRun(k *kernel.Kernel, env schedule.Environment, start Start, traced bool, spares int) *run {
	w, first := cluster.New(k, &env, start, traced, spares)
	r := &run{Injector: injection.New(w, members.New(w, first, len(env.Network.Sites)))}
	w.Start()
	return r
}

// scheduled makes the run of a schedule.
func scheduled(ctx context.Context, s schedule.Schedule, start Start, wanted watch) *run {
	k := &kernel.Kernel{Context: ctx, Seed: s.Seed, Count: wanted.count, Limit: eventLimit, Observed: wanted.observed}
	w := newRun(k, s.Environment, start, wanted.traced, faults.Newcomers(s.Faults))
	for _, plan := range s.Clients {
		operations := clients.Planned(plan.Operations)
		w.Clients.Add(plan.Home, &operations, s.Abandon).Asides = plan.Asides
	}
	w.Inject(s.Faults)
	if len(s.Strikes) > 0 {
		w.Network.Strikes = map[uint64]schedule.Strike{}
	}
	for _, strike := range s.Strikes {
		w.Network.Strikes[strike.Message] = strike
	}
	if len(s.Stops) > 0 {
		w.Stops = map[uint64]schedule.Stop{}
	}
	for _, stop := range s.Stops {
		w.Stops[stop.Sync] = stop
	}
	for _, r := range s.Redraws {
		w.After(r.At, func() { w.Network.Redraw(r.Seed) })
	}
	return w
}

// bound is how long one operation, or what is left of work, may take when the faults are over. Recovery takes rounds of
// suspicion, each after the other, and a page of a transfer a write to a slow disk: this is generous, and cheap.
func (w *run) bound() time.Duration {
	e := w.Environment
	return max(120*e.Retry, 40*e.Suspect, 240*e.Slowest())
}

// live has the run go through faults, recovery, final reads and quiescence.
func (w *run) live(settle time.Duration) (check.Class, string) {
	w.Run(settle, func() bool { return false })
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	w.Settle()
	if !w.finish() {
		if w.hopeless = w.Err == nil && w.Manager.Hopeless(); w.hopeless {
			return "", ""
		}
		return w.stuck("")
	}
	if !w.Run(w.Now+w.bound(), func() bool { return w.Manager.Missing() == "" }) {
		if w.Err != nil {
			return check.Broken, w.Err.Error()
		}
		if w.hopeless = w.Manager.Hopeless(); w.hopeless {
			return "", ""
		}
		return check.Stuck, w.Manager.Missing()
	}
	// Everything is read at every node, twice: values that come and go betray themselves.
	keys := w.keys()
	if !w.readAll(keys, 2) {
		return w.stuck("at the end ")
	}
	if !w.Run(w.Now+w.bound(), func() bool { return w.Pending() == 0 && !w.Transferring() }) {
		if w.Err != nil {
			return check.Broken, w.Err.Error()
		}
		return check.Unbounded, fmt.Sprintf("the protocols still hold %d operations or instances; records of transfers are left: %v",
			w.Pending(), w.Transferring())
	}
	w.JudgeStates()
	w.quiet = true
	return "", ""
}

// restBounds is how many times as long as one operation it may take until members rest: who follows a log far behind
// may be sent one entry in each round trip.
const restBounds = 10

// rest has members do what they do once all is quiet. It is no part of the run's diagram: nobody asks for anything.
func (w *run) rest() (check.Class, string) {
	w.Diagram.End()
	why := w.Unrested()
	for until := w.Now + restBounds*w.bound(); why != "" && w.Now < until; why = w.Unrested() {
		w.Run(w.Now+w.Environment.Retry, func() bool { return false })
		if w.Err != nil {
			return check.Broken, w.Err.Error()
		}
	}
	if why != "" {
		return check.Unbounded, "all has been quiet for long, and " + why
	}
	w.JudgeKept()
	if class, reason := w.Breach(); class != "" {
		return class, reason
	}
	w.Breaches(w.Misunderstood())
	return w.Breach()
}

// readers is how many clients of a site read at the end, side by side.
const readers = 16

// readAll has every site read each key some times, and reports whether all were read. Where clients are sessions, one
// of a site reads all, since the order in which a session reads must be seen: first regularly, then not.
func (w *run) readAll(keys []string, times int) bool {
	parts := [][]string{keys}
	if !w.Environment.Regular {
		parts = slices.Collect(slices.Chunk(keys, 1+(len(keys)-1)/readers))
	}
	for site := range w.FirstAsked {
		for _, part := range parts {
			var reads clients.Planned
			for i, key := range slices.Repeat(part, times) {
				op := register.Operation{
					Kind: register.Read, Key: key, Regular: w.Environment.Regular && i < len(part)*(times-1),
				}
				reads = append(reads, schedule.Planned{At: w.Now, Operation: op})
			}
			w.Clients.Add(site, &reads, 0)
		}
	}
	return w.finish()
}

// finish runs until every client is done. It reports false if one of them waits for an operation longer than
// the bound: each operation has its own, so that a run may be long if it only moves.
func (w *run) finish() bool {
	from, idle := w.Now, false
	w.Run(math.MaxInt64, func() (over bool) {
		idle, over = w.Clients.Idle(from, w.bound())
		return idle || over
	})
	return idle
}

func (w *run) stuck(when string) (check.Class, string) {
	if w.Err != nil {
		return check.Broken, w.Err.Error()
	}
	for _, c := range w.Clients.All {
		if c.Working {
			return check.Stuck, fmt.Sprintf("%s%s of %s at member %d is still not answered%s", when, diagram.OperationText(c.Operation), c.Name, c.Target+1, w.Manager.Waiting())
		}
	}
	return check.Stuck, when + "clients wait"
}

// keys lists the keys that clients touched, sorted.
func (w *run) keys() []string {
	var keys []string
	for _, o := range w.Clients.Recorder.Operations() {
		keys = append(keys, o.Request.Key)
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// judge checks what clients saw.
func (w *run) judge(operations []history.Operation, patience time.Duration) (check.Class, string) {
	if w.Environment.Regular {
		return check.RegularSequential(w.Context, operations, history.RSCOptions{Messages: w.Clients.Messages, Fences: w.Clients.Fences}, patience)
	}
	return check.Linearizable(w.Context, operations, w.Environment.StaleBound(), patience)
}
