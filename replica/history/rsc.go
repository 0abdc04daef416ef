package history

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// The outcomes that only CheckRSC has, beside Violation. Only RegularSequential is success.
const (
	RegularSequential Outcome = "regular-sequential"
	// Undecided: the carstamps prove nothing, and the answers alone would take too long. It counts as a failure.
	Undecided Outcome = "undecided"
)

// Message is what a process told another one outside of the store.
type Message = precedence.Message

// Fence is a real-time fence that ended without an error.
type Fence = precedence.Fence

// RSCOptions say how CheckRSC checks, and what it is told beside the operations.
type RSCOptions struct {
	Messages []Message
	Fences   []Fence
	// MaxStates bounds each search for an order by values alone, as a number of states; 0 is 200,000, which takes
	// seconds for hundreds of operations and tens of seconds for many thousands.
	MaxStates int
	most      int // of moves that a search holds; 0 is maxHeld
}

// RSCEdge is a reason why one operation comes before another.
type RSCEdge struct {
	From, To Operation
	Why      string // for people
}

// RSCVerdict is the outcome of CheckRSC and what there is to say about it.
type RSCVerdict struct {
	Outcome    Outcome
	Operations int  // how many were in the history
	Checked    int  // how many of them say something about a value or may have changed one; retries count as one
	Unknown    int  // how many of the checked ones have an unknown outcome
	Keys       int  // of the checked ones
	Searched   bool // whether the order that the carstamps propose was no proof, so that others were searched

	// Cycle is the shortest that was found in the order that carstamps, processes and real time give. A Violation may
	// have none, where the carstamps give no order; with Undecided, one of the carstamps may be wrong instead.
	Cycle       []RSCEdge
	Failing     []Operation // Violation: some operations that no order explains
	Explanation string      // for people; empty if the history is regular sequential
}

// OK reports whether the history was proved to be regular sequentially consistent.
func (v RSCVerdict) OK() bool { return v.Outcome == RegularSequential }

// CheckRSC decides whether a regular sequentially consistent store can have given these answers (Helt et al., Regular
// Sequential Serializability and Regular Sequential Consistency, section 3.4): whether there is one order of all
// operations, over all keys,
//
//   - that is legal: every answer is the one that a single copy gives in this order;
//   - that keeps causal order: what a process did one after the other, what a message tells of, and what was read; and
//   - in which a write or rmw that had returned comes before each write or rmw of any key, and each read of its own
//     key, that was invoked later; and
//   - in which nothing is read before it is written: what left the value that a read found was invoked before the read
//     returned. The definition says no such thing, and every store keeps it.
//
// A read that has returned is no reason for others to see what it saw, unless they know of it: that is what makes the
// model weaker than linearizability. An rmw counts as a write whatever it did. What certainly had no effect and says
// nothing is left out, as are reads that may be stale, as in Check. An operation of unknown outcome comes after what
// its process did before and after every write that had returned when it was invoked; nothing comes after it but what
// it is read by, or it never took effect. Operations of one client that overlap are not ordered by their process.
//
// Carstamps propose for every key an order of its writes. With it the question is one for a cycle in a graph, which
// takes time nearly linear in the history, and an order without a cycle is then replayed: values decide, and a wrong
// carstamp can't make a history pass. Where there is a cycle, or carstamps are missing, the answers alone are searched
// for another order, first for a few operations that can't be explained by themselves, and then for all; each search
// ends at MaxStates. Values that were written twice make that harder, since it is open then which of the writes was
// read.
//
// It ends soon after the context does. Unless an answer was found until then, the outcome is Stopped.
//
// An error names a message or a fence that can't have been.
func CheckRSC(ctx context.Context, operations []Operation, options RSCOptions) (RSCVerdict, error) {
	if err := options.validate(); err != nil {
		return RSCVerdict{}, err
	}
	if options.MaxStates <= 0 {
		options.MaxStates = 200_000
	}
	v := RSCVerdict{Outcome: RegularSequential, Operations: len(operations)}
	ops, keys, conflict := collectRSC(operations)
	if conflict != nil {
		v.Outcome, v.Failing = Violation, conflict
		v.Explanation = fmt.Sprintf("one rmw, retried with its id, got two different answers:\n%s", list(conflict))
		return v, nil
	}
	v.Checked, v.Keys = len(ops), len(keys)
	for _, o := range ops {
		if !o.known {
			v.Unknown++
		}
	}
	c := rscChecker{ctx: ctx, registry: register.NewRegistry(), RSCOptions: options, ops: ops, keys: keys}
	c.decide(&v)
	if ctx.Err() != nil && v.Outcome == Undecided {
		v.Outcome, v.Explanation = Stopped, fmt.Sprintf("the check was stopped: %v", context.Cause(ctx))
	}
	return v, nil
}

func (o RSCOptions) validate() error {
	for i, m := range o.Messages {
		if m.Received <= m.Sent {
			return fmt.Errorf("check regular sequential consistency: Messages[%d] was received at %v and sent at %v; "+
				"give readings of the history's clock, Received after Sent", i, m.Received, m.Sent)
		}
	}
	for i, f := range o.Fences {
		if f.Returned < f.Invoked {
			return fmt.Errorf("check regular sequential consistency: Fences[%d] returned at %v and was invoked at %v; "+
				"give readings of the history's clock, Returned not before Invoked", i, f.Returned, f.Invoked)
		}
	}
	return nil
}

// rscChecker is one check.
type rscChecker struct {
	ctx      context.Context
	registry *register.Registry // the rmw functions of histories
	RSCOptions
	ops  []*rscOp
	keys [][]int32 // the operations of each key
}

func (c *rscChecker) decide(v *RSCVerdict) {
	if o := c.unwritten(); o != nil {
		v.Outcome, v.Failing = Violation, []Operation{o.Operation}
		v.Explanation = fmt.Sprintf("no write that was invoked before the answer came has left this value:\n%s",
			list(v.Failing))
		return
	}
	g := newRSCGraph(c.ops, c.RSCOptions)
	ordered, effects := true, make([]bool, len(c.ops))
	for _, key := range c.keys {
		if c.ctx.Err() != nil {
			ordered = false
			break
		}
		groups, ok := orderKey(c.ctx, c.registry, c.ops, key)
		if !ok {
			ordered = false
			continue
		}
		addVersions(g, groups)
		for _, group := range groups[1:] {
			effects[group.changer] = true
		}
	}
	order, acyclic := g.Sort()
	if acyclic && ordered && c.replays(order, effects) {
		return
	}
	v.Searched = true
	var cycles []precedence.Cycle
	if !acyclic {
		cycles = g.Cycles(c.ctx)
	}
	if len(cycles) > 0 {
		v.Cycle = c.edgesOf(g, cycles[0])
	}
	for _, cycle := range cycles {
		if c.impossible(cycle.Operations()) {
			v.Outcome, v.Cycle = Violation, c.edgesOf(g, cycle)
			v.Failing, v.Explanation = failing(v.Cycle), explainCycle(v.Cycle, "")
			return
		}
	}
	switch found, done := c.search(c.ops, c.MaxStates); {
	case found:
		v.Cycle = nil
	case done && len(v.Cycle) > 0:
		v.Outcome, v.Failing = Violation, failing(v.Cycle)
		v.Explanation = explainCycle(v.Cycle,
			"other orders of the writes don't explain all answers of the history either")
	case done:
		v.Outcome, v.Failing = Violation, c.shrink()
		v.Explanation = fmt.Sprintf("no order of these operations explains all their answers:\n%s", list(v.Failing))
	case len(v.Cycle) > 0:
		v.Outcome = Undecided
		v.Explanation = explainCycle(v.Cycle, fmt.Sprintf(
			"the order of the writes is that of the carstamps; whether the answers allow another one was not found "+
				"within %d states",
			c.MaxStates))
	default:
		v.Outcome = Undecided
		v.Explanation = fmt.Sprintf(
			"the carstamps give no order of the writes that explains the answers, and the search for one by values "+
				"alone did not end within %d states, or had more to remember than it may; allow more, or record fewer "+
				"operations",
			c.MaxStates)
	}
}

// unwritten finds an operation that found a value that no operation can have written by then, or nil.
func (c *rscChecker) unwritten() *rscOp {
	for _, key := range c.keys {
		written, anything := map[string]time.Duration{}, never // by value, when a write of it was invoked first
		for _, i := range key {
			o := c.ops[i]
			switch value, kind := leaves(o); kind {
			case leavesAnything:
				anything = min(anything, o.Invoked)
			case leavesValue:
				first, again := written[ValueKey(value)]
				if !again || o.Invoked < first {
					written[ValueKey(value)] = o.Invoked
				}
			}
		}
		for _, i := range key {
			o := c.ops[i]
			value, ok := finds(o)
			if !ok || !o.known || !value.Present() {
				continue
			}
			if first, known := written[ValueKey(value)]; anything > o.Returned && (!known || first > o.Returned) {
				return o
			}
		}
	}
	return nil
}

// replays applies the operations in an order, and reports whether all answers are those that were given. Operations of
// unknown outcome are applied if they have an effect.
func (c *rscChecker) replays(order []int32, effects []bool) bool {
	values, since := map[string]register.Value{}, map[string]invocation{}
	for _, i := range order {
		o := c.ops[i]
		key := o.Request.Key
		if !o.known && !effects[i] {
			continue
		}
		next, agrees := outcome(c.registry, values[key], o.step)
		if _, changed := since[key]; !changed {
			since[key] = initially
		}
		if o.known && (!agrees || !since[key].before(o)) {
			return false
		}
		since[key] = since[key].after(o, next, next.Equal(values[key]))
		values[key] = next
	}
	return true
}

// invocation is when an operation was invoked that left the value which a key has: of several that left the same one
// after another, the first.
type invocation time.Duration

// initially is that of the value which a key has at first.
const initially = invocation(math.MinInt64)

// before reports whether an operation may find the value: not if it is a read that had returned by then.
func (since invocation) before(o *rscOp) bool {
	return o.writes() || time.Duration(since) <= o.Returned
}

// after is the invocation after one more operation, which has left a value, perhaps the same as before.
func (since invocation) after(o *rscOp, value register.Value, same bool) invocation {
	switch left, kind := leaves(o); {
	case !same:
		return invocation(o.Invoked)
	case kind == leavesValue && left.Equal(value):
		return min(since, invocation(o.Invoked))
	}
	return since
}

// failing lists the operations of a cycle.
func failing(edges []RSCEdge) []Operation {
	var operations []Operation
	for _, e := range edges {
		operations = append(operations, e.From)
	}
	return slices.Clip(operations)
}
