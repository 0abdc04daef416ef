package simulator

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// barrier is an operation that waits for fences in other shards than its own (register.Barrier), as in the runtime.
type barrier struct {
	register.Barrier
	whole    register.Operation // as it was submitted
	who      asked
	deadline protocol.Instant
}

// submitAfter submits a fence, or an operation that comes after others: at once if these are of its own shard.
func (nd *node) submitAfter(op register.Operation, who asked, deadline, now protocol.Instant) {
	w := nd.world
	b, parts := register.NewBarrier(op, nd.place)
	if w.env.SessionMistakes.Unfenced && op.Kind != register.Fence {
		parts = nil
	}
	if len(parts) == 0 {
		nd.hand(b.Operation(), who, deadline, now)
		return
	}
	if len(nd.shards) > 1 {
		w.Took("session.barrier")
	}
	waits := &barrier{Barrier: b, whole: op, who: who, deadline: deadline}
	nd.barriers = append(nd.barriers, waits)
	for _, part := range parts {
		nd.request(part.Shard, part.Fence, asked{barrier: waits, shard: part.Shard}, deadline, now)
	}
}

// hand submits an operation to its shard.
func (nd *node) hand(op register.Operation, who asked, deadline, now protocol.Instant) {
	nd.request(nd.place(op.Key), op, who, deadline, now)
}

func (nd *node) request(shard int, op register.Operation, who asked, deadline, now protocol.Instant) {
	nd.handle++
	nd.asked[nd.handle] = who
	s := nd.shards[shard]
	s.protocol.Tick(now)
	s.protocol.Submit(protocol.Request{Handle: nd.handle, Operation: op, Deadline: deadline})
}

// fenced goes on when the last fence is done: the operation waits for the node's next turn.
func (nd *node) fenced(b *barrier, shard int, result register.Result) {
	step, ended := b.Fenced(shard, result)
	at := slices.Index(nd.barriers, b)
	switch {
	case at < 0 || step == register.BarrierWaits:
		return
	case step == register.BarrierEnds:
		nd.world.respond(nd, b.who, ended)
	case step == register.BarrierGoesOn:
		nd.inbox = append(nd.inbox, input{client: b.who.client, attempt: b.who.attempt, behind: b})
		if !nd.paused && !nd.armed {
			nd.armed = true
			nd.after(0, nd.turn)
		}
	}
	nd.barriers = slices.Delete(nd.barriers, at, at+1)
}

// carryBarriers begins those that wait for fences anew, in another view, or ends them if the node is in none.
func (nd *node) carryBarriers(now protocol.Instant) {
	left := nd.barriers
	nd.barriers = nil
	for _, b := range left {
		if !nd.acts {
			nd.world.respond(nd, b.who, register.Result{Status: register.Unavailable, Message: "this member was removed"})
			continue
		}
		nd.world.Took("session.barrier-resumed")
		nd.submitAfter(b.whole, b.who, b.deadline, now)
	}
}
