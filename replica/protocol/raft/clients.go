package raft

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// operation is one of a client of this member. A write or rmw is handed to the leader as a command of this author's
// number; this member answers its client when it applies the command itself. It may be handed over again, to whoever
// leads: a command of the same number is executed once.
type operation struct {
	base.Operation
	command *peerv1.RaftCommand // of a write or rmw

	sent  bool             // it was handed over: others may know of it
	waits bool             // for whom it was handed to; else it is handed over at the next Ready
	due   protocol.Instant // when to hand it over again; of what waits
	again uint             // how often it was
	far   bool             // handed to another member
	// refused: this member's own node did not take it, since too much of the log is not committed.
	refused bool

	index     uint64 // of a read: the state after this entry may answer it
	confirmed bool   // index is known
}

func (o *operation) reads() bool { return o.command == nil }

// clients are the operations of this member's clients, from their beginning to their answers. Which member leads, and
// what is handed to it, is for Protocol to say.
type clients struct {
	*log
	author     register.Writer // of this member's commands; their numbers grow over restarts
	operations base.Operations[*operation]
}

// begin takes up an operation.
func (c *clients) begin(r protocol.Request) {
	o := &operation{Operation: base.Operation{Request: r}}
	if done, resumed := r.Resume.(resume); resumed && r.Operation.Kind != register.Read {
		if done.author != c.author {
			c.Complete(r.Handle, base.MayTake(r.Operation.Kind, 0, "this member numbers operations anew after many starts"))
			return
		}
		c.Took(pathResumed)
		o.Number, o.sent = done.number, true
	} else {
		o.Number = c.Op()
	}
	if r.Operation.Kind != register.Read {
		o.command = c.command(o)
	}
	c.operations.Begin(o)
	if o.sent {
		c.finishIfUnseen(o)
	}
}

func (c *clients) command(o *operation) *peerv1.RaftCommand {
	op := o.Request.Operation
	command := &peerv1.RaftCommand{Author: uint64(c.author), Number: o.Number, Key: []byte(op.Key)}
	if op.Kind == register.Write {
		command.Present, command.Value = op.Value.Present(), op.Value
		return command
	}
	command.Rmw = wire.Command(op)
	return command
}

// of finds the operation that waits for a command, if its client is this member's.
func (c *clients) of(command *peerv1.RaftCommand) *operation {
	o := c.operations.Find(command.Number)
	if register.Writer(command.Author) != c.author || o == nil || o.reads() {
		return nil
	}
	return o
}

// firstIncomplete is the lowest number of a command that a client waits for, or could be issued.
func (c *clients) firstIncomplete() uint64 {
	for o := range c.operations.InProgress() {
		if !o.reads() {
			return o.Number
		}
	}
	return c.LastOp() + 1
}

// handAgain has everything handed to another leader.
func (c *clients) handAgain() {
	for o := range c.operations.InProgress() {
		o.waits, o.again = false, 0
	}
}

// tick gives up what is late, and has what was not answered handed over again.
func (c *clients) tick(leads bool) {
	c.operations.Tick(c.Base, c.Now, c.expire, func(o *operation) {
		switch {
		case !o.waits || c.Now < o.due:
		case o.far || o.reads() || o.refused:
			c.Took(pathRetry)
			o.waits = false
		case leads && o.again < 2:
			o.waits = false // it is in the log here, where once more does no harm
		}
	})
}

// refused notes commands that this member's node did not take.
func (c *clients) refused(commands []*peerv1.RaftCommand) {
	for _, command := range commands {
		if o := c.of(command); o != nil {
			o.refused = true
		}
	}
}

func (c *clients) expire(o *operation) {
	c.operations.End(o)
	c.GiveUp(&o.Request, o.sent && !o.reads(), c.trips(o), "no leader with a quorum executed the operation in time")
}

// trips are the wide-area round trips from the leader to a quorum, and to the leader.
func (c *clients) trips(o *operation) int {
	trips := min(1, c.Config.View.Size()-1)
	if o.far {
		trips++
	}
	return trips
}

// finish answers a client with what rests on the log up to an index: this member is one of those that hold it.
func (c *clients) finish(o *operation, index uint64, r register.Result) {
	r.RoundTrips = c.trips(o)
	c.operations.End(o)
	c.CompleteWhen(c.durable() >= index, o.Request.Handle, r)
}

// finishUnseen answers a client whose command was executed, but not by this member: it took the state from another one.
func (c *clients) finishUnseen(o *operation, state *peerv1.KeyState) {
	result := register.Result{
		Status:  register.Unknown,
		Message: "the rmw was executed while this member was behind, and what it returned is not known here",
	}
	rmw := o.command.Rmw
	if rmw == nil {
		result = register.Result{Status: register.OK}
	} else if answer := session.Recall(state, rmw); answer != nil {
		result = wire.Result(answer, 0, false)
	} else {
		c.Took(pathUnseen)
	}
	c.finish(o, 0, result)
}

// finishIfUnseen ends a write or rmw that was executed by an entry which this member did not apply.
func (c *clients) finishIfUnseen(o *operation) {
	if !o.reads() && c.Over(uint64(c.author), o.Number) {
		c.finishUnseen(o, c.State(o.command.Key))
	}
}

// confirm notes that a read may be answered by the state after an entry: any that was committed when one confirmation
// of it began.
func (c *clients) confirm(number, index uint64) {
	if o := c.operations.Find(number); o != nil && o.reads() && !o.confirmed {
		o.index, o.confirmed = index, true
	}
}

// answerReads answers those whose entry is applied here. What they see may be later than that, and rests on all of the
// log that is applied.
func (c *clients) answerReads() {
	for o := range c.operations.InProgress() {
		if !o.confirmed || o.index > c.applied.Index {
			continue
		}
		state := c.State([]byte(o.Request.Operation.Key))
		c.finish(o, c.applied.Index, register.Result{
			Status: register.OK, Value: wire.OfRecord(state.Previous).Value, Carstamp: c.seen(state),
		})
	}
}

// Waits reports whether a client of this member waits for a command.
func (c *clients) Waits(number uint64) bool { return c.operations.Find(number) != nil }

// Answer ends an operation of this member's client before its command is applied, in one round trip, once the journal
// up to a mark is durable.
func (c *clients) Answer(number uint64, a *peerv1.Answer, mark uint64) {
	o := c.operations.Find(number)
	if o == nil {
		return
	}
	c.operations.End(o)
	c.CompleteWhen(c.Journal.Survives(mark), o.Request.Handle, wire.Result(a, min(1, c.Config.View.Size()-1), true))
}

// Pending is how many operations of its clients this member holds unfinished.
func (c *clients) Pending() int { return c.operations.Len() }

// resume is a protocol.Resume: it names a command in the log.
type resume struct {
	author register.Writer
	number uint64 // of the author's commands
}

// Unfinished implements protocol.Machine. Reads begin again. A write or rmw that was handed over keeps its number, by
// which it is recognised if it is, or comes to be, in the log.
func (c *clients) Unfinished() []protocol.Request {
	return c.operations.Unfinished(func(o *operation) protocol.Resume {
		if o.sent && !o.reads() {
			return resume{c.author, o.Number}
		}
		return nil
	})
}
