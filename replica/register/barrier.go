package register

import (
	"fmt"
	"slices"
)

// Barrier is an operation that waits until other shards than its own have what its session read there: each shard is a
// service of its own, which orders its operations for itself, so there is a fence between them (Helt et al., Regular
// Sequential Serializability and Regular Sequential Consistency, section 4.1). A fence of a client is one that ends
// then. What waits has had no effect.
type Barrier struct {
	operation Operation // with what it comes after that is not fenced
	waiting   int       // for fences
	trips     int       // round trips of the longest one
	failed    bool
}

// Part is what an operation comes after of one shard, to be fenced there.
type Part struct {
	Shard int
	Fence Operation
}

// NewBarrier says what is to be fenced, shard by shard, before an operation may go to its own: at says in which one a
// key is. A fence has no shard of its own. Without parts there is nothing to wait for: what the operation comes after
// is of its own shard alone, whose protocol sees to it. If anything is of another one, the operation's shard fences
// its part, too, at the same time, or the operation would wait there once more. Only what a read or a write comes after
// of its very key need not be fenced.
func NewBarrier(op Operation, at func(key string) int) (Barrier, []Part) {
	if op.Kind != Fence && !slices.ContainsFunc(op.After, func(d Dependency) bool { return at(d.Key) != at(op.Key) }) {
		return Barrier{operation: op}, nil
	}
	var parts []Part
	var own []Dependency
	for _, d := range op.After {
		if d.Key == op.Key && (op.Kind == Read || op.Kind == Write) {
			own = append(own, d)
			continue
		}
		shard := at(d.Key)
		i := slices.IndexFunc(parts, func(p Part) bool { return p.Shard == shard })
		if i < 0 {
			i = len(parts)
			parts = append(parts, Part{Shard: shard, Fence: Operation{Kind: Fence}})
		}
		parts[i].Fence.After = append(parts[i].Fence.After, d)
	}
	op.After = own
	return Barrier{operation: op, waiting: len(parts)}, parts
}

// BarrierStep is what comes after a fence.
type BarrierStep uint8

// The steps.
const (
	BarrierWaits  BarrierStep = iota // other fences are awaited, or one has failed before
	BarrierEnds                      // with a result: the operation had no effect, or was a fence
	BarrierGoesOn                    // the operation goes to its shard (Operation)
)

// Fenced counts a fence that has ended in a shard. The first that fails ends the operation, as Unavailable.
func (b *Barrier) Fenced(shard int, r Result) (BarrierStep, Result) {
	b.waiting--
	b.trips = max(b.trips, r.RoundTrips)
	switch {
	case b.failed:
		return BarrierWaits, Result{}
	case r.Status != OK:
		b.failed = true
		return BarrierEnds, Result{Status: Unavailable, Message: fmt.Sprintf(
			"what the session read before could not be fenced in shard %d, and it was not begun: %s", shard, r.Message)}
	case b.waiting > 0:
		return BarrierWaits, Result{}
	case b.operation.Kind == Fence:
		return BarrierEnds, Result{Status: OK, RoundTrips: b.trips}
	}
	return BarrierGoesOn, Result{}
}

// Operation is what goes on, with what is left of the dependencies.
func (b *Barrier) Operation() Operation { return b.operation }

// RoundTrips is how many the longest fence took.
func (b *Barrier) RoundTrips() int { return b.trips }
