package history

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"github.com/georegister/georegister/replica/history/precedence"
	"github.com/georegister/georegister/replica/register"
)

const (
	maxFilled  = 3      // operations without a carstamp in a row that are tried to explain one answer
	maxFilling = 20_000 // such trials, for each key, beyond a few for each of its operations
)

// rscGroup is a value that a key had: who left it, and who found it.
type rscGroup struct {
	changer   int32 // an operation; NoNode for the initial value
	value     register.Value
	observers []int32
}

// versions puts the operations of one key into an order that the carstamps propose.
type versions struct {
	ctx      context.Context
	registry *register.Registry
	ops      []*rscOp
	groups   []rscGroup
	loose    []int32 // rmws without a carstamp and operations of unknown outcome, by when they were invoked
	placed   []bool
	stray    []int32 // reads for which the carstamp is no help
	budget   int
	// Whether a gap between carstamps is taken for an operation of unknown outcome, even if no one needs one there.
	eager bool
	stamp register.Carstamp // of the last operation that had one
}

// orderKey proposes an order of the changes of one key, by the carstamps and, where there are none, by the values. It
// reports whether it has found a place for all that certainly happened, in which every answer fits. Operations of
// unknown outcome that are in no group never took effect.
func orderKey(ctx context.Context, registry *register.Registry, ops []*rscOp, key []int32) ([]rscGroup, bool) {
	if groups, ok := orderKeyOnce(ctx, registry, ops, key, false); ok {
		return groups, true
	}
	return orderKeyOnce(ctx, registry, ops, key, true)
}

func orderKeyOnce(
	ctx context.Context, registry *register.Registry, ops []*rscOp, key []int32, eager bool,
) ([]rscGroup, bool) {
	v := versions{
		ctx: ctx, registry: registry, ops: ops, groups: []rscGroup{{changer: precedence.NoNode}},
		budget: maxFilling + 4*len(key), eager: eager,
	}
	var order []int32
	for _, i := range key {
		o := ops[i]
		switch hinted := !o.Result.Carstamp.IsZero(); {
		case !o.known || !hinted && o.Request.Kind == register.RMW:
			v.loose = append(v.loose, i)
		case hinted:
			order = append(order, i)
		case o.Request.Kind == register.Write:
			return nil, false
		case o.Result.Value.Present():
			v.stray = append(v.stray, i)
		default:
			order = append(order, i)
		}
	}
	v.placed = make([]bool, len(v.loose))
	slices.SortStableFunc(order, func(a, b int32) int {
		s, t := ops[a].step, ops[b].step
		return cmp.Or(s.Result.Carstamp.Compare(t.Result.Carstamp), cmp.Compare(observes(s), observes(t)))
	})
	for _, i := range order {
		if ctx.Err() != nil || !v.next(i) {
			return nil, false
		}
	}
	return v.groups, v.finish()
}

func (v *versions) current() *rscGroup { return &v.groups[len(v.groups)-1] }

// next puts one operation behind all others.
func (v *versions) next(i int32) bool {
	o := v.ops[i]
	if o.Request.Kind == register.Write {
		v.settle(o.Returned, &v.budget)
	} else if !(v.eager && v.gap(o) && v.fill(o)) && !v.agrees(o, v.current().value) && !v.fill(o) {
		if o.Request.Kind == register.RMW {
			return false
		}
		v.stray = append(v.stray, i)
		return true
	}
	v.stamp = o.Result.Carstamp
	v.put(i)
	return true
}

// gap reports whether a carstamp says that something unobserved lies between the operations so far and an rmw or what
// found one.
func (v *versions) gap(o *rscOp) bool {
	c := o.Result.Carstamp
	if o.Request.Kind == register.RMW && c.RMWs > 0 {
		c.RMWs--
	}
	return v.stamp.Less(c)
}

func (v *versions) agrees(o *rscOp, value register.Value) bool {
	_, agrees := outcome(v.registry, value, o.step)
	return agrees
}

// put adds an operation whose answer fits, or one of unknown outcome.
func (v *versions) put(i int32) {
	o, current := v.ops[i], v.current()
	next, changes := outcome(v.registry, current.value, o.step)
	if o.known {
		changes = o.Request.Kind == register.Write || !next.Equal(current.value)
	}
	if changes {
		v.groups = append(v.groups, rscGroup{changer: i, value: next})
	} else {
		current.observers = append(current.observers, i)
	}
}

// settle gives rmws without a carstamp a place where they fit, before what returned at a time covers it.
func (v *versions) settle(returned time.Duration, budget *int) {
	for at := 0; at < len(v.loose) && *budget > 0 && v.ctx.Err() == nil; at++ {
		o := v.ops[v.loose[at]]
		*budget--
		if v.placed[at] || !o.known || o.Invoked > returned || !v.agrees(o, v.current().value) {
			continue
		}
		v.placed[at] = true
		v.put(v.loose[at])
		at = -1 // what it left may fit another one
	}
}

// fill puts operations without a carstamp behind all others, the fewest that explain an answer.
func (v *versions) fill(o *rscOp) bool {
	for most := 1; most <= maxFilled; most++ {
		if v.fillBy(most, v.current().value, o, nil) {
			return true
		}
	}
	return false
}

// fillBy tries runs of exactly so many operations from a value. It puts the first one that explains an answer.
func (v *versions) fillBy(count int, value register.Value, o *rscOp, run []int) bool {
	if count == 0 {
		if !v.agrees(o, value) {
			return false
		}
		for _, at := range run {
			v.placed[at] = true
			v.put(v.loose[at])
		}
		return true
	}
	for at, i := range v.loose {
		if v.placed[at] || slices.Contains(run, at) {
			continue
		}
		if v.budget--; v.budget < 0 {
			return false
		}
		next, fits := outcome(v.registry, value, v.ops[i].step)
		if fits && v.fillBy(count-1, next, o, append(run, at)) {
			return true
		}
	}
	return false
}

// finish gives a place to what has none yet.
func (v *versions) finish() bool {
	all := math.MaxInt
	v.settle(never, &all)
	for at, i := range v.loose {
		if !v.placed[at] && v.ops[i].known {
			return false
		}
	}
	if len(v.stray) == 0 {
		return true
	}
	byValue := map[string][]int{}
	for n, group := range v.groups {
		byValue[ValueKey(group.value)] = append(byValue[ValueKey(group.value)], n)
	}
	for _, i := range v.stray {
		candidates := byValue[ValueKey(v.ops[i].Result.Value)]
		if len(candidates) == 0 {
			return false
		}
		best := candidates[0]
		for _, n := range candidates {
			changer := v.groups[n].changer
			if changer == precedence.NoNode || v.ops[changer].Invoked < v.ops[i].Returned {
				best = n
			}
		}
		v.groups[best].observers = append(v.groups[best].observers, i)
	}
	return true
}

// ValueKey tells values apart, as keys of a map.
func ValueKey(v register.Value) string {
	if !v.Present() {
		return ""
	}
	return "=" + string(v)
}
