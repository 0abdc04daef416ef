package history

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// never is when operations of unknown outcome return.
const never = time.Duration(math.MaxInt64)

// step is an operation of one key as the model takes it.
type step struct {
	Operation
	known bool          // the answer constrains the value
	from  time.Duration // when it is tried first, at the earliest when it was invoked
	class int           // unknown: steps of one class do the same to any value
	rank  int           // unknown: its position in the class by from
}

// partition gives each key its steps: what says something about its value or may have changed it.
func partition(operations []Operation) map[string][]*step {
	keys := map[string][]*step{}
	for _, o := range operations {
		s := &step{Operation: o, known: o.Known()}
		kind := o.Request.Kind
		switch {
		case stale(o):
			continue
		case !s.known && kind != register.Read:
			s.Returned = never
		case o.Result.Status == register.OK:
		case o.Result.Status == register.Failed && kind == register.RMW: // a refusal observes the value
		default:
			continue
		}
		keys[o.Request.Key] = append(keys[o.Request.Key], s)
	}
	return keys
}

// mergeRetries makes one step of all records of one rmw ID: it is executed at most once, not before the first of them
// was invoked, and before the first answer. It also tells which step each record became. Two different answers are
// returned as a conflict.
func mergeRetries(steps []*step) (merged []*step, became []int, conflict []Operation) {
	type id struct{ session, number uint64 }
	first := map[id]int{}
	for _, s := range steps {
		this := id{s.Request.ID.Session, s.Request.ID.Number}
		at, again := first[this]
		if s.Request.Kind != register.RMW || this.session == 0 || !again {
			at = len(merged)
			first[this] = at
			one := *s
			merged = append(merged, &one)
		}
		became = append(became, at)
		m := merged[at]
		if m.known && s.known && (m.Result.Status != s.Result.Status || !m.Result.Value.Equal(s.Result.Value)) {
			return nil, nil, []Operation{m.Operation, s.Operation}
		}
		invoked, returned := min(m.Invoked, s.Invoked), min(m.Returned, s.Returned)
		if !m.known {
			*m = *s
		}
		m.Invoked, m.Returned = invoked, returned
	}
	return merged, became, nil
}

// prepare orders steps by when they are tried first, and makes the search smaller without changing its outcome.
//
// An unknown effect matters only if an operation that depends on the value follows directly; otherwise it
// may as well come last, where nothing sees it. So an unknown write that nothing known agrees with is left
// out, and another one is not tried before the first operation that does. Unknown steps that do the same
// are numbered, since it is enough to try them in that order. If the context ends, some are missing.
func prepare(ctx context.Context, registry *register.Registry, steps []*step) []*step {
	prepared := make([]*step, 0, len(steps))
	for _, s := range steps {
		if ctx.Err() != nil {
			break
		}
		s.from = s.Invoked
		if !s.known && s.Request.Kind == register.Write {
			s.from = max(s.from, firstAgreeing(registry, steps, s))
		}
		if s.from < never {
			prepared = append(prepared, s)
		}
	}
	slices.SortStableFunc(prepared, func(a, b *step) int { return cmp.Compare(a.from, b.from) })
	classes, sizes := map[string]int{}, map[int]int{}
	for _, s := range prepared {
		if s.known {
			continue
		}
		effect := effectOf(s.Request)
		if _, ok := classes[effect]; !ok {
			classes[effect] = len(classes)
		}
		s.class = classes[effect]
		s.rank = sizes[s.class]
		sizes[s.class]++
	}
	return prepared
}

// firstAgreeing is when the first operation begins that may directly follow an unknown write; never if none.
func firstAgreeing(registry *register.Registry, steps []*step, write *step) time.Duration {
	earliest := never
	for _, s := range steps {
		if s.Request.Kind == register.Write || s.Returned < write.Invoked || s.Invoked >= earliest {
			continue
		}
		if _, fits := outcome(registry, write.Request.Value, s); fits || !s.known {
			earliest = s.Invoked
		}
	}
	return earliest
}

// effectOf is equal for requests that do the same to any value.
func effectOf(r register.Operation) string {
	return fmt.Sprintf("%d %t %q %s %q %d", r.Kind, r.Value.Present(), r.Value, r.Call.Function, r.Call.Args,
		r.Call.MaxValueBytes)
}
