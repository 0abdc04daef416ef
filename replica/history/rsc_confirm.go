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
	for _, part := range [][]rscOp{c.weakest(core), c.whole(core)} {
		if len(part) == 0 || len(part) > confirmMax || len(part) == len(c.ops) {
			continue
		}
		if found, done := c.search(part, min(confirmStates, c.MaxStates)); done && !found {
			return true
		}
	}
	return false
}

// whole lists the operations of the keys of some operations.
func (c *rscChecker) whole(core []int) []rscOp {
	wanted := map[string]bool{}
	for _, i := range core {
		wanted[c.ops[i].Request.Key] = true
	}
	var part []rscOp
	for i := range c.ops {
		if wanted[c.ops[i].Request.Key] {
			if len(part) > confirmMax {
				return nil
			}
			part = append(part, c.ops[i])
		}
	}
	return part
}

// weakest lists some operations and those that may have left what they found, which become plain writes. It is nil
// where that can't be told from the answers.
func (c *rscChecker) weakest(core []int) []rscOp {
	type found struct{ key, value string }
	needs, keys := map[found]bool{}, map[string]bool{}
	for _, i := range core {
		o := &c.ops[i]
		keys[o.Request.Key] = true
		if value, ok := finds(o); ok && o.known {
			needs[found{o.Request.Key, valueKey(value)}] = true
		}
	}
	var part []rscOp
	for i := range c.ops {
		o := &c.ops[i]
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
			part = append(part, *o)
		case kind == leavesValue && (asked || needs[found{o.Request.Key, valueKey(value)}]):
			part = append(part, plainWrite(o))
		}
	}
	return part
}

// plainWrite is a write of what an operation leaves.
func plainWrite(o *rscOp) rscOp {
	w := *o
	value, _ := leaves(o)
	w.Request.Kind, w.Request.Value = register.Write, value
	return w
}

// shrink leaves out and opens what a history without any order can do without, if it is small.
func (c *rscChecker) shrink() []Operation {
	ops := slices.Clone(c.ops)
	fails := func(part []rscOp) bool {
		found, done := c.search(part, min(confirmStates, c.MaxStates))
		return done && !found
	}
	for i := 0; i < len(ops) && len(c.ops) <= shrinkMax; {
		if o := &ops[i]; o.Request.Kind == register.Read {
			if part := slices.Delete(slices.Clone(ops), i, i+1); fails(part) {
				ops = part
				continue
			}
		} else if o.known {
			part := slices.Clone(ops)
			part[i].step, _ = open(o.step)
			part[i].learned = nil
			if fails(part) {
				ops = part
			}
		}
		// One that is open may not be needed at all.
		if !ops[i].known {
			if part := slices.Delete(slices.Clone(ops), i, i+1); fails(part) && !c.seenBy(ops, i) {
				ops = part
				continue
			}
		}
		i++
	}
	operations := make([]Operation, len(ops))
	for i := range ops {
		operations[i] = ops[i].Operation
	}
	return operations
}

// seenBy reports whether somebody may have seen what an operation left.
func (c *rscChecker) seenBy(ops []rscOp, i int) bool {
	value, kind := leaves(&ops[i])
	for j := range ops {
		o := &ops[j]
		if j == i || o.Request.Key != ops[i].Request.Key || !o.known || o.Request.Kind == register.Write {
			continue
		}
		found, ok := finds(o)
		if kind != leavesValue || !ok || found.Equal(value) {
			return true
		}
	}
	return false
}
