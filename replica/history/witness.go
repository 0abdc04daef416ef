package history

import (
	"cmp"
	"slices"

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
	order, ok := replay(registry, order, unknown)
	return ok && inRealTime(order)
}

// observes is 1 for steps that take the carstamp of what they found, and so come after it.
func observes(s *step) int {
	if s.Request.Kind == register.Read || s.Result.Status == register.Failed {
		return 1
	}
	return 0
}

// replay applies the steps in order. Where an answer does not agree, it puts in one of the unknown steps,
// which are ordered by invocation, if that makes it agree.
func replay(registry *register.Registry, order, unknown []*step) ([]*step, bool) {
	var value register.Value
	taken := make([]*step, 0, len(order)+len(unknown))
	for _, s := range order {
		next, agrees := answer(registry, value, s)
		for i := 0; !agrees && i < len(unknown); i++ {
			changed, changes := effect(registry, value, unknown[i])
			if !changes {
				continue
			}
			if next, agrees = answer(registry, changed, s); agrees {
				taken = append(taken, unknown[i])
				unknown = slices.Delete(unknown, i, i+1)
			}
		}
		if !agrees {
			return nil, false
		}
		value = next
		taken = append(taken, s)
	}
	return taken, true // the unknown steps that are left never took effect
}

// inRealTime reports whether no step comes before one that had returned when it was invoked.
func inRealTime(order []*step) bool {
	returned := never
	for _, s := range slices.Backward(order) {
		if returned < s.from {
			return false
		}
		returned = min(returned, s.Returned)
	}
	return true
}
