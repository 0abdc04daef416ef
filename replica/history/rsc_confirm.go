package history

import (
	"slices"

	"github.com/georegister/georegister/replica/register"
)

const (
	confirmMax    = 200    // operations with which a cycle is confirmed
	confirmStates = 20_000 // states of such a search
	shrinkMax     = 40     // operations of a history that an explanation is made smaller for
)

// effectKind is what is known of what an operation leaves, whatever it finds.
type effectKind uint8

const (
	leavesNothing  effectKind = iota // the value stays as it is
	leavesValue                      // this value, or, of unknown outcome, perhaps
	leavesAnything                   // it depends on what it finds
)

func notOne(reply register.Value) bool { return string(reply) != "1" }

func foundNone(reply register.Value) bool { return !reply.Present() }

// replacing are the functions that leave their last argument, and which replies say that they changed nothing.
var replacing = map[string]func(reply register.Value) (refused bool){
	register.CompareAndSwap: notOne, register.SetIfAbsent: notOne, register.SetIfPresent: notOne,
	register.GetAndSetIfAbsent: register.Value.Present, register.GetAndSetPresent: foundNone,
	register.GetAndSet: func(register.Value) bool { return false },
}

// leaves tells what an operation leaves on its key in every order in which its answer is right.
func leaves(o *rscOp) (register.Value, effectKind) {
	call, reply := o.Request.Call, o.Result.Value
	switch refused, replaces := replacing[call.Function]; {
	case o.Request.Kind == register.Read || o.known && o.Result.Status == register.Failed:
		return nil, leavesNothing
	case o.Request.Kind == register.Write:
		return o.Request.Value, leavesValue
	case replaces && o.known && refused(reply):
		return nil, leavesNothing
	case replaces && len(call.Args) > 0:
		return append(register.Value{}, call.Args[len(call.Args)-1]...), leavesValue
	case call.Function == register.Delete || call.Function == register.GetAndDelete:
		return nil, leavesValue
	case o.known && (call.Function == register.Add || call.Function == register.AddFloat):
		return reply, leavesValue
	}
	return nil, leavesAnything
}

// finds tells what a known operation has found, if its answer says so.
func finds(o *rscOp) (register.Value, bool) {
	switch {
	case o.Request.Kind == register.Read:
		return o.Result.Value, true
	case o.Request.Kind != register.RMW || o.Result.Status == register.Failed:
		return nil, false
	}
	switch o.Request.Call.Function {
	case register.GetAndSet, register.GetAndDelete, register.GetAndSetIfAbsent, register.GetAndSetPresent:
		return o.Result.Value, true
	case register.CompareAndSwap:
		if string(o.Result.Value) == "1" && len(o.Request.Call.Args) > 0 {
			return append(register.Value{}, o.Request.Call.Args[0]...), true
		}
	}
	return nil, false
}

// impossible reports whether some operations can't be explained by themselves, by values alone: first together with
// those that may have left what they found, then with all of their keys. What is left out or made weaker could only
// have made it harder to explain them.
func (c *rscChecker) impossible(core []int) bool {
	for _, part := range [][]*rscOp{c.weakest(core), c.whole(core)} {
		if 0 < len(part) && len(part) <= confirmMax && len(part) < len(c.ops) && c.refuted(part) {
			return true
		}
	}
	return false
}

// refuted reports whether a short search has found that operations have no order.
func (c *rscChecker) refuted(part []*rscOp) bool {
	found, done := c.search(part, min(confirmStates, c.MaxStates))
	return done && !found
}

// whole lists the operations of the keys of some operations.
func (c *rscChecker) whole(core []int) []*rscOp {
	wanted := map[string]bool{}
	for _, i := range core {
		wanted[c.ops[i].Request.Key] = true
	}
	return slices.DeleteFunc(slices.Clone(c.ops), func(o *rscOp) bool { return !wanted[o.Request.Key] })
}

// weakest lists some operations and those that may have left what they found, which become plain writes. It is nil
// where that can't be told from the answers.
func (c *rscChecker) weakest(core []int) []*rscOp {
	type found struct{ key, value string }
	needs, keys := map[found]bool{}, map[string]bool{}
	for _, i := range core {
		o := c.ops[i]
		keys[o.Request.Key] = true
		if value, ok := finds(o); ok && o.known {
			needs[found{o.Request.Key, ValueKey(value)}] = true
		}
	}
	var part []*rscOp
	for i, o := range c.ops {
		if !keys[o.Request.Key] {
			continue
		}
		value, kind := leaves(o)
		_, finds := finds(o)
		asked := slices.Contains(core, i)
		switch {
		case kind == leavesAnything:
			return nil
		case asked && finds && o.known:
			part = append(part, o)
		case kind == leavesValue && (asked || needs[found{o.Request.Key, ValueKey(value)}]):
			w := *o.step // a plain one, of what the operation leaves
			w.Request.Kind, w.Request.Value = register.Write, value
			part = append(part, &rscOp{&w, o.asker, o.learned})
		}
	}
	return part
}

// shrink opens and leaves out what a history without any order can do without, if it is small.
func (c *rscChecker) shrink() []Operation {
	ops := c.ops
	if len(ops) <= shrinkMax {
		ops = weaken(ops, openRSC, c.refuted)
	}
	var operations []Operation
	for _, o := range ops {
		if o.known || slices.ContainsFunc(ops, o.seenBy) {
			operations = append(operations, o.Operation)
		}
	}
	return operations
}

// openRSC is an operation that no one got the answer of: nothing if it is a read.
func openRSC(o *rscOp) []*rscOp {
	var opened []*rscOp
	for _, s := range open(o.step) {
		opened = append(opened, &rscOp{step: s, asker: o.asker})
	}
	return opened
}

// seenBy reports whether another operation may have seen what this one left.
func (o *rscOp) seenBy(other *rscOp) bool {
	if other == o || other.Request.Key != o.Request.Key || !other.known || other.Request.Kind == register.Write {
		return false
	}
	value, kind := leaves(o)
	found, ok := finds(other)
	return kind != leavesValue || !ok || found.Equal(value)
}
