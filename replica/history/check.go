package history

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/georegister/georegister/replica/register"
)

// Check decides whether a store of linearizable registers can have given these answers. Every key is a register of its
// own, absent at first. What certainly had no effect and says nothing about a value (Invalid, Unsupported, Unavailable,
// reads of unknown outcome) is left out; a refusal by an rmw function (Failed) is an observation; an operation of
// unknown outcome may take effect at any time after its invocation, or never. All records of one rmw ID, which retries
// share, are one operation. Reads that may be stale are left to CheckStale.
//
// For each key an order is proposed from the carstamps, where there are any, and proved or rejected by the
// values and times alone; what is not proved so is searched by porcupine. The search keeps one bit for each
// pair of operations of a key: 100,000 operations on one key without carstamps need more than a gigabyte. A search that
// would hold more than 4 GiB ends as one that takes too long does.
//
// It ends soon after the context does. Unless a violation was found until then, the outcome is Stopped.
func Check(ctx context.Context, operations []Operation, options Options) Verdict {
	c := checker{ctx: ctx, registry: register.NewRegistry(), most: cmp.Or(options.most, maxSearched)}
	if options.Timeout > 0 {
		c.deadline = time.Now().Add(options.Timeout)
	}
	keys := partition(operations)
	v := Verdict{Outcome: Linearizable, Operations: len(operations), Keys: len(keys)}
	for _, steps := range keys {
		v.Checked += len(steps)
		for _, s := range steps {
			if !s.known {
				v.Unknown++
			}
		}
	}
	// A violation anywhere is worth more than a timeout elsewhere, so the keys after a timeout are checked too.
	names := slices.Sorted(maps.Keys(keys))
	for i, key := range names {
		found, searched := c.check(keys[key], c.share(len(names)-i))
		if searched {
			v.Searched++
		}
		if found == Linearizable || found == v.Outcome { // the first key that timed out is named
			continue
		}
		v.Outcome, v.Key = found, key
		if found == Stopped {
			v.Explanation = fmt.Sprintf("the check was stopped: %v", context.Cause(ctx))
			return v
		}
		if found == Violation {
			if !options.Brief {
				v.Failing, v.Explanation = c.explain(key, keys[key])
			}
			return v
		}
		v.Explanation = fmt.Sprintf("the search for an order of the %d operations on key %s did not end within %v, or "+
			"holds more than %d MiB; record fewer operations on one key, or allow more time",
			len(keys[key]), DescribeValue(register.Value(key)), options.Timeout, c.most>>20)
	}
	return v
}

// checker decides about single keys.
type checker struct {
	ctx      context.Context
	registry *register.Registry
	deadline time.Time // zero: none
	most     int       // bytes that each search may hold
}

// maxSearched is how many bytes a search may hold, about.
const maxSearched = 4 << 30

// share is how long one of the keys that are left may be searched for; 0 is no bound. It is half of the
// time left, so that a hard key leaves some for the others, and all of it for the last one.
func (c checker) share(keys int) time.Duration {
	if c.deadline.IsZero() {
		return 0
	}
	left := time.Until(c.deadline)
	if keys > 1 {
		left /= 2
	}
	return max(left, time.Nanosecond)
}

// check decides about one key, and reports whether it had to search.
func (c checker) check(steps []*step, timeout time.Duration) (Outcome, bool) {
	merged, _, conflict := mergeRetries(steps)
	if conflict != nil {
		return Violation, false
	}
	prepared := prepare(c.ctx, c.registry, merged)
	if c.ctx.Err() != nil {
		return Stopped, false
	}
	if proved(c.ctx, c.registry, prepared, len(merged)-len(prepared)) {
		return Linearizable, false
	}
	m := newModel(c.ctx, c.registry, prepared)
	m.most = c.most
	found := porcupine.CheckOperationsTimeout(m.porcupine(), toPorcupine(prepared), timeout)
	switch {
	case found == porcupine.Ok:
		return Linearizable, true
	case c.ctx.Err() != nil: // whatever was found then: no step was taken any more
		return Stopped, true
	case found == porcupine.Illegal && !m.full():
		return Violation, true
	}
	return Timeout, true
}

// toPorcupine gives every client a row, and a new one after an unknown outcome, which never ends.
func toPorcupine(steps []*step) []porcupine.Operation {
	rows, count := map[string]int{}, 0
	operations := make([]porcupine.Operation, len(steps))
	for i, s := range steps {
		row, begun := rows[s.Client]
		if !begun {
			row, count = count, count+1
		}
		if rows[s.Client] = row; !s.known {
			delete(rows, s.Client)
		}
		operations[i] = porcupine.Operation{
			ClientId: row, Input: s, Call: int64(s.from), Return: int64(s.Returned),
		}
	}
	return operations
}
