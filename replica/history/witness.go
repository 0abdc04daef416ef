package history

import (
	"cmp"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/register"
)

// proved reports whether the order of the carstamps is a linearization of the steps. That is for the values
// and times to decide: every step is applied in that order and its answer compared, and no step may come
// before one that had returned when it was invoked. A wrong carstamp can only make the proof fail. False
// says nothing about the history.
func proved(registry *register.Registry, steps []step) bool {
	var order, unknown []*step
	for i := range steps {
		s := &steps[i]
		switch {
		case !s.known:
			unknown = append(unknown, s)
		case s.Result.Carstamp.IsZero() && (s.Request.Kind != register.Read || s.Result.Value.Present()):
			return false
		default:
			order = append(order, s)
		}
	}
	slices.SortStableFunc(order, func(a, b *step) int {
		return cmp.Or(a.Result.Carstamp.Compare(b.Result.Carstamp), cmp.Compare(observes(a), observes(b)),
			cmp.Compare(a.from, b.from))
	})
	// begun[i] is the latest that a step may begin that comes at or before order[i].
	begun := make([]time.Duration, len(order))
	latest := never
	for i, s := range slices.Backward(order) {
		latest = min(latest, s.Returned)
		begun[i] = latest
		if s.from > latest {
			return false
		}
	}
	r := replay{
		registry: registry, order: order, begun: begun, unknown: unknown,
		used: make([]int, len(unknown)), budget: tries + 20*len(order),
	}
	return r.from(0, nil)
}

// observes is 1 for steps that take the carstamp of what they found, and so come after it.
func observes(s *step) int {
	if s.Request.Kind == register.Read || s.Result.Status == register.Failed {
		return 1
	}
	return 0
}

const (
	tries     = 100_000 // calls of functions that a replay may take before the search does better
	maxHidden = 3       // unknown effects in a row that are tried to explain one answer
)

// replay applies known steps in a given order, with unknown ones between them where answers need them.
type replay struct {
	registry *register.Registry
	order    []*step
	begun    []time.Duration
	unknown  []*step // by when they may begin
	used     []int   // by class
	budget   int
}

// from reports whether the steps from order[i] agree with the value before them.
func (r *replay) from(i int, value register.Value) bool {
	for ; i < len(r.order); i++ {
		r.budget--
		next, agrees := answer(r.registry, value, r.order[i])
		if !agrees {
			for hidden := 1; hidden <= maxHidden; hidden++ {
				if r.explained(i, value, hidden) {
					return true
				}
			}
			return false
		}
		value = next
	}
	return true // the unknown steps that are left never took effect
}

// explained reports whether so many unknown steps before order[i] make all from there agree.
func (r *replay) explained(i int, value register.Value, hidden int) bool {
	if hidden == 0 {
		next, agrees := answer(r.registry, value, r.order[i])
		return agrees && r.from(i+1, next)
	}
	for _, u := range r.unknown {
		if r.budget--; r.budget < 0 || u.from > r.begun[i] {
			return false
		}
		changed, changes := effect(r.registry, value, u)
		if !changes || r.used[u.class] != u.rank {
			continue
		}
		r.used[u.class]++
		if r.explained(i, changed, hidden-1) {
			return true
		}
		r.used[u.class]--
	}
	return false
}
