package history

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// rscOp is an operation as CheckRSC takes it: all records of an rmw ID are one. It was invoked by the client that did
// so first, and returned when the first answer came.
type rscOp struct {
	step
	asker   string    // who invoked it first
	learned []learned // who got the answer
}

// learned is when a client got an answer.
type learned struct {
	client string
	at     time.Duration
}

// writes reports whether an operation is one of the model's writes, which real time orders.
func (o *rscOp) writes() bool { return o.Request.Kind != register.Read }

// collectRSC gives the operations that count, in the order of their invocation, and those of each key. Two different
// answers to one rmw are returned as a conflict.
func collectRSC(operations []Operation) (ops []rscOp, keys [][]int, conflict []Operation) {
	steps := partition(operations)
	for _, key := range slices.Sorted(maps.Keys(steps)) {
		merged, conflict := mergeRSC(steps[key])
		if conflict != nil {
			return nil, nil, conflict
		}
		ops = append(ops, merged...)
	}
	slices.SortStableFunc(ops, func(a, b rscOp) int { return cmp.Compare(a.Invoked, b.Invoked) })
	return ops, keysOf(ops), nil
}

// keysOf lists the operations of each key, the keys in the order of their first operation.
func keysOf(ops []rscOp) [][]int {
	var keys [][]int
	number := map[string]int{}
	for i := range ops {
		key := ops[i].Request.Key
		at, ok := number[key]
		if !ok {
			at = len(keys)
			number[key] = at
			keys = append(keys, nil)
		}
		keys[at] = append(keys[at], i)
	}
	return keys
}

func mergeRSC(steps []step) (merged []rscOp, conflict []Operation) {
	type id struct{ session, number uint64 }
	first := map[id]int{}
	for _, s := range steps {
		o := rscOp{step: s, asker: s.Client}
		if s.known {
			o.learned = []learned{{s.Client, s.Returned}}
		}
		this := id{s.Request.ID.Session, s.Request.ID.Number}
		at, again := first[this]
		if s.Request.Kind != register.RMW || this.session == 0 || !again {
			first[this] = len(merged)
			merged = append(merged, o)
			continue
		}
		m := &merged[at]
		if m.known && s.known && (m.Result.Status != s.Result.Status || !m.Result.Value.Equal(s.Result.Value)) {
			return nil, []Operation{m.Operation, s.Operation}
		}
		o.learned = slices.Concat(m.learned, o.learned)
		if m.Invoked <= s.Invoked {
			o.asker = m.asker
		}
		invoked, returned := min(m.Invoked, s.Invoked), min(m.Returned, s.Returned)
		if m.known {
			o.step = m.step
		}
		o.Invoked, o.Returned = invoked, returned
		*m = o
	}
	return merged, nil
}
