package history

import (
	"cmp"
	"maps"
	"slices"

	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

// rscOp is an operation as CheckRSC takes it: all records of an rmw ID are one. It was invoked by the client that did
// so first, and returned when the first answer came.
type rscOp struct {
	*step
	asker   string               // who invoked it first
	learned []precedence.Learned // who got the answer
}

// writes reports whether an operation is one of the model's writes, which real time orders.
func (o *rscOp) writes() bool { return o.Request.Kind != register.Read }

// collectRSC gives the operations that count, in the order of their invocation, and those of each key. Two different
// answers to one rmw are returned as a conflict.
func collectRSC(operations []Operation) (ops []*rscOp, keys [][]int32, conflict []Operation) {
	steps := partition(operations)
	for _, key := range slices.Sorted(maps.Keys(steps)) {
		merged, conflict := mergeRSC(steps[key])
		if conflict != nil {
			return nil, nil, conflict
		}
		ops = append(ops, merged...)
	}
	slices.SortStableFunc(ops, func(a, b *rscOp) int { return cmp.Compare(a.Invoked, b.Invoked) })
	return ops, keysOf(ops), nil
}

// keysOf lists the operations of each key, the keys in the order of their first operation.
func keysOf(ops []*rscOp) [][]int32 {
	var keys [][]int32
	number := map[string]int{}
	for i, o := range ops {
		at, ok := number[o.Request.Key]
		if !ok {
			at = len(keys)
			number[o.Request.Key] = at
			keys = append(keys, nil)
		}
		keys[at] = append(keys[at], int32(i))
	}
	return keys
}

// mergeRSC makes one operation of all records of one rmw ID.
func mergeRSC(steps []*step) ([]*rscOp, []Operation) {
	merged, became, conflict := mergeRetries(steps)
	ops := make([]*rscOp, len(merged))
	for i, s := range merged {
		ops[i] = &rscOp{step: s}
	}
	for i, at := range slices.Backward(became) { // of several that were invoked at one time, the first asked
		o, s := ops[at], steps[i]
		if s.Invoked == o.Invoked {
			o.asker = s.Client
		}
		if s.known {
			o.learned = append(o.learned, precedence.Learned{Client: s.Client, At: s.Returned})
		}
	}
	return ops, conflict
}
