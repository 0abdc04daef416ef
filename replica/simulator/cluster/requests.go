package cluster

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/simulator/clients"
)

// asked is whom a completion is for.
type asked struct {
	client  *clients.Client
	attempt uint32
	barrier *barrier      // which waits for it; nil: the client does
	shard   int           // that it was handed to
	kind    register.Kind // of what the shard was asked for
	key     string        // of that
	plain   bool          // it is a read that is not regular
	waited  int           // round trips of what the client's operation waited for before it came to its shard

	deadline protocol.Instant // by the node's clock; 0: none
	served   bool             // the member voted, or asked whether it may, when the operation came
	goesOn   bool             // from an earlier view: the round trips there are not counted
	known    bool             // and others may know of it
	floor    uint64           // of a read: what its member had answered of its key when it came (reads.go)
}

// requested handles the arrival of an attempt of a client.
func (nd *Node) requested(c *clients.Client, attempt uint32) {
	if !c.Arrived(attempt, !nd.Down) {
		return
	}
	if nd.Down {
		nd.respond(asked{client: c, attempt: attempt}, register.Result{Status: register.Unavailable, Message: "connection refused"})
		return
	}
	nd.Input(Input{client: c, attempt: attempt})
}

// respond sends a result to a client.
func (nd *Node) respond(who asked, result register.Result) {
	nd.World.Coverage.Took(nd.Index, result.Status.String())
	who.client.Receive(nd.Index, who.attempt, result)
}

func (nd *Node) submit(in *Input, now protocol.Instant) {
	if in.client.Attempt != in.attempt && in.behind == nil {
		return // the client has given up meanwhile, and its connection is gone
	}
	who := asked{client: in.client, attempt: in.attempt}
	if !nd.Acts {
		nd.respond(who, register.Result{Status: register.Unavailable, Message: "no member"})
		return
	}
	if b := in.behind; b != nil {
		who.waited = b.RoundTrips()
		nd.hand(b.Operation(), who, b.deadline, now)
		return
	}
	deadline := protocol.Instant(0)
	if d := nd.World.Environment.Deadline; d > 0 && !nd.World.Settled { // then clients wait for ever, and so must the protocol
		deadline = now.Add(d)
	}
	op := in.client.Operation
	nd.World.Coverage.Took(nd.Index, op.Kind.String())
	if op.Kind == register.Fence || len(op.After) > 0 {
		nd.submitAfter(op, who, deadline, now)
		return
	}
	nd.hand(op, who, deadline, now)
}

// complete answers clients. A completion of an unknown handle, or a second one, must not happen.
func (nd *Node) complete(completions []protocol.Completion) {
	for i := range completions {
		c := &completions[i]
		who, ok := nd.Asked[c.Handle]
		if !ok {
			nd.World.Fail("member %d completes operation %d, which is not in progress", nd.Index+1, c.Handle)
			return
		}
		if c.Result.More {
			continue // clients wait for the last part
		}
		delete(nd.Asked, c.Handle)
		nd.judgePatience(&who, c.Result)
		nd.judgeRefusal(&who, c.Result)
		nd.judgeRead(&who, c.Result)
		nd.holdAnswer(&who, c)
		nd.holdTrips(&who, c)
		if who.barrier != nil {
			nd.fenced(who.barrier, who.shard, c.Result)
			continue
		}
		if who.client.Attempt == who.attempt { // else its operation is another one by now
			nd.World.judgeAnswered(nd, who.client.Operation, c.Result)
		}
		nd.judgeOutcome(who, c.Result)
		nd.respond(who, c.Result.Behind(who.waited))
	}
}

// barrier is an operation that waits for fences in other shards than its own (register.Barrier), as in the runtime.
type barrier struct {
	register.Barrier
	whole    register.Operation // as it was submitted
	who      asked
	deadline protocol.Instant
}

// submitAfter submits a fence, or an operation that comes after others: at once if these are of its own shard.
func (nd *Node) submitAfter(op register.Operation, who asked, deadline, now protocol.Instant) {
	w := nd.World
	b, parts := register.NewBarrier(op, nd.place)
	if len(parts) == 0 {
		nd.hand(b.Operation(), who, deadline, now)
		return
	}
	if len(nd.Shards) > 1 {
		w.Took("session.barrier")
	}
	waits := &barrier{Barrier: b, whole: op, who: who, deadline: deadline}
	nd.barriers = append(nd.barriers, waits)
	for _, part := range parts {
		nd.request(part.Shard, part.Fence, asked{barrier: waits}, deadline, now)
	}
}

// hand submits an operation to its shard.
func (nd *Node) hand(op register.Operation, who asked, deadline, now protocol.Instant) {
	nd.request(nd.place(op.Key), op, who, deadline, now)
}

func (nd *Node) request(shard int, op register.Operation, who asked, deadline, now protocol.Instant) {
	w := nd.World
	w.requests.Asks(op.ID, op.Key)
	w.largest = max(w.largest, op.Size())
	if op.Kind == register.Write && w.judged() {
		w.invariants.Asks(op.Key, op.Value, op.After)
	}
	if op.Kind == register.Write || op.Kind == register.RMW {
		w.invariants.Updates(op.Key)
	}
	nd.handle++
	s := nd.Shards[shard]
	who.shard, who.kind, who.key, who.deadline, who.served = shard, op.Kind, op.Key, deadline, nd.serves(s)
	who.plain = op.Kind == register.Read && !op.Regular
	who.floor = nd.answeredUpTo(shard, &op)
	nd.Asked[nd.handle] = who
	nd.tell(s, now)
	s.Protocol.Submit(protocol.Request{Handle: nd.handle, Operation: op, Deadline: deadline})
}

// fenced goes on when the last fence is done: the operation waits for the node's next turn.
func (nd *Node) fenced(b *barrier, shard int, result register.Result) {
	step, ended := b.Fenced(shard, result)
	at := slices.Index(nd.barriers, b)
	switch {
	case at < 0 || step == register.BarrierWaits:
		return
	case step == register.BarrierEnds:
		nd.respond(b.who, ended)
	case step == register.BarrierGoesOn:
		nd.Inbox = append(nd.Inbox, Input{client: b.who.client, attempt: b.who.attempt, behind: b})
		if !nd.Paused && !nd.armed {
			nd.armed = true
			nd.After(0, nd.timers.turn)
		}
	}
	nd.barriers = slices.Delete(nd.barriers, at, at+1)
}

// carryBarriers begins those that wait for fences anew, in another view, or ends them if the node is in none.
func (nd *Node) carryBarriers(now protocol.Instant) {
	left := nd.barriers
	nd.barriers = nil
	for _, b := range left {
		if !nd.Acts {
			nd.respond(b.who, register.Result{Status: register.Unavailable, Message: "this member was removed"})
			continue
		}
		nd.World.Took("session.barrier-resumed")
		nd.submitAfter(b.whole, b.who, b.deadline, now)
	}
}
