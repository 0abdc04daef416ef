// Package transactions decides whether a store of transactions can have given the answers of a history: one that is
// strictly serializable, or regular sequentially serializable.
package transactions

import (
	"context"
	"fmt"

	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// Model is what a store promises.
type Model uint8

const (
	// Strict: one order of all transactions explains every answer, and has each transaction that had returned come
	// before each one that was invoked later.
	Strict Model = iota
	// Regular: one order explains every answer and keeps causal order, and has each read-write transaction that had
	// returned come before those that were invoked later and are read-write ones, or read-only ones that read what it
	// wrote (Helt et al., Regular Sequential Serializability and Regular Sequential Consistency, section 3.4).
	Regular
)

func (m Model) String() string {
	if m == Regular {
		return "regular sequentially serializable"
	}
	return "strictly serializable"
}

// The outcomes that only Check has, beside those of package history. Only these are success.
const (
	StrictlySerializable  history.Outcome = "strictly-serializable"
	RegularlySerializable history.Outcome = "regular-sequentially-serializable"
)

// Options say what to check.
type Options struct {
	Model Model
	// MaxStates bounds the search for an order by values alone, as a number of states; 0 is 200,000.
	MaxStates int
}

// Edge is a reason why one transaction comes before another.
type Edge struct {
	From, To history.Transaction
	Why      string // for people
}

// Verdict is the outcome of a check and what there is to say about it.
type Verdict struct {
	Outcome      history.Outcome
	Transactions int  // how many were in the history
	Checked      int  // how many of them were committed, or left what a checked one found
	Unknown      int  // how many of the checked ones have an unknown outcome
	Keys         int  // that the checked ones found or left a value of
	Searched     bool // whether the proposed order did not explain all answers, so that others were searched

	// Cycle is the shortest that was found: of a Violation, by values and clocks alone; of Undecided, by timestamps.
	Cycle       []Edge
	Failing     []history.Transaction // Violation: some transactions that no order explains
	Explanation string                // for people; empty if the history is what the model says
}

// OK reports whether the history was proved to be what the model says.
func (v Verdict) OK() bool {
	return v.Outcome == StrictlySerializable || v.Outcome == RegularlySerializable
}

// Check decides whether a store of a model can have given the answers of a record's transactions: whether there is one
// order of them that has real time as the model says, keeps what clients did one after the other, and in which each
// transaction finds what the latest one before it left, of all keys at once. Nothing is found before it is written: who
// left a value was invoked before who found it returned. Clients' messages and fences count as in history.CheckRSC. An
// aborted transaction had no effect; one of unknown outcome had one if, and only if, a checked one found it.
//
// Who left what was found is known by values, so write values that differ. Timestamps propose an order of each key's
// values; where there are none, returns do. With it the question is one for a cycle in a graph, in time nearly linear
// in the history, and an order without a cycle is replayed: values decide, and a wrong timestamp can't make a history
// pass. Where there is a cycle, one is sought that follows from values and clocks alone, which is a violation; then an
// order by values alone, up to MaxStates.
//
// It ends soon after the context does. Unless an answer was found until then, the outcome is history.Stopped.
func Check(ctx context.Context, record history.Record, options Options) Verdict {
	if options.MaxStates <= 0 {
		options.MaxStates = 200_000
	}
	c := checker{ctx: ctx, options: options, record: record}
	v := Verdict{Outcome: StrictlySerializable, Transactions: len(record.Transactions)}
	if options.Model == Regular {
		v.Outcome = RegularlySerializable
	}
	wrong := c.collect()
	v.Keys = len(c.keys)
	for i, counts := range c.effect {
		if counts {
			v.Checked++
		}
		if counts && !c.known(int32(i)) {
			v.Unknown++
		}
	}
	if wrong != nil {
		v.Outcome, v.Failing = history.Violation, []history.Transaction{wrong.transaction}
		v.Explanation = fmt.Sprintf("%s:\n%s", wrong.why, list(v.Failing))
		return v
	}
	c.decide(&v)
	if ctx.Err() != nil && v.Outcome == history.Undecided {
		v.Outcome, v.Explanation = history.Stopped, fmt.Sprintf("the check was stopped: %v", context.Cause(ctx))
	}
	return v
}

// checker is one check.
type checker struct {
	ctx     context.Context
	options Options
	record  history.Record

	all    []history.Transaction // that count, by when they were invoked; a place here is the transaction's number
	keys   map[string]*key
	reads  [][]found // of each transaction
	effect []bool    // of each transaction: it is committed, or taken to have left what one with an effect found
	sure   []bool    // of each transaction: it has an effect whoever left the values that several can have left
}

// Reasons why one transaction comes before another, beside what precedence knows.
const (
	byReading  precedence.Reason = precedence.ByPoint + 1 + iota // the later one found what the earlier one left
	byReplaced                                                   // the later one replaced what the earlier one found
	byVersion                                                    // both left a value of a key, in the proposed order
)

func (c *checker) known(i int32) bool { return c.all[i].Outcome == history.Committed }

func (c *checker) decide(v *Verdict) {
	g := c.graph()
	c.addFound(g, false)
	c.propose(g)
	c.addVersions(g)
	order, acyclic := g.Sort()
	if acyclic && c.replays(order) {
		return
	}
	v.Searched = true
	var cycles []precedence.Cycle
	if !acyclic {
		cycles = g.Cycles(c.ctx)
	}
	if len(cycles) > 0 {
		v.Cycle = c.edges(g, cycles[0])
	}
	certain, cycle := c.infer(cycles)
	if cycle != nil {
		v.Outcome, v.Cycle = history.Violation, c.edges(certain, *cycle)
		v.Failing, v.Explanation = failing(v.Cycle), explain(v.Cycle, "")
		return
	}
	switch exists, done := c.search(certain); {
	case exists:
		v.Cycle = nil
	case done:
		v.Outcome, v.Cycle, v.Failing = history.Violation, nil, c.all
		v.Explanation = fmt.Sprintf("no order of these transactions explains all their answers:\n%s", list(v.Failing))
	default:
		v.Outcome = history.Undecided
		remark := fmt.Sprintf("whether the answers allow an order was not found within %d states; record timestamps, "+
			"write values that differ, or allow more", c.options.MaxStates)
		if v.Explanation = remark; len(v.Cycle) > 0 {
			v.Explanation = explain(v.Cycle, "the order of the values is the proposed one; "+remark)
		}
	}
}

// graph draws what holds whatever was found.
func (c *checker) graph() *precedence.Graph {
	operations := make([]precedence.Operation, len(c.all))
	for i, t := range c.all {
		o := precedence.Operation{
			Client: t.Client, Invoked: t.Invoked, Returned: t.Returned, Known: c.known(int32(i)), Writes: !t.ReadOnly,
		}
		if o.Known {
			o.Learned = []precedence.Learned{{Client: t.Client, At: t.Returned}}
		}
		accesses := t.Writes
		if t.ReadOnly {
			accesses = t.Reads
		}
		for _, a := range accesses {
			o.Keys = append(o.Keys, a.Key)
		}
		operations[i] = o
	}
	order := precedence.Strict
	if c.options.Model == Regular {
		order = precedence.Regular
	}
	return precedence.New(operations, c.record.Messages, c.record.Fences, order)
}

// current is a key's value after some transactions. The zero value is that at first.
type current struct {
	written bool
	writer  int32
	value   register.Value
}

// explains reports whether a transaction that comes next finds what it found.
func (c *checker) explains(now current, reader int32, f found) bool {
	return now.value.Equal(f.value) && (!now.written || c.inTime(now.writer, reader))
}

// replays applies the transactions in an order, and reports whether each finds what it found.
func (c *checker) replays(order []int32) bool {
	values := map[string]current{}
	for _, i := range order {
		if !c.effect[i] {
			continue
		}
		for _, f := range c.reads[i] {
			if !c.explains(values[f.key], i, f) {
				return false
			}
		}
		for _, w := range c.all[i].Writes {
			values[w.Key] = current{true, i, w.Value}
		}
	}
	return true
}
