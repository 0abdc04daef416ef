package instance

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// clients has the requests of this member's clients, and answers them.
type clients struct{ *store }

// One instance carries a batch of the commands that wait for a key, within these bounds or those of the tuning.
const (
	batchCommands = 64
	batchBytes    = 1 << 20
)

// request is an operation of a client of this member.
type request struct {
	protocol.Request
	answered bool // given up at its deadline, or told before its execution
}

func (r *request) reads() bool { return r.Operation.Kind == register.Read }

// answer completes the requests of an executed instance, or puts reads whose results were forgotten into the queue
// again.
func (p *clients) answer(d *coordination) {
	var again []*request
	for k, r := range d.requests {
		if r.answered {
			continue
		}
		result := register.Result{
			Status: register.Unknown, RoundTrips: p.roundTrips(d), Fast: d.fastPath,
			Message: "the outcome was forgotten before it could be told",
		}
		if d.outcome != nil && k < len(d.outcome.Answers) {
			result = wire.Result(d.outcome.Answers[k], p.roundTrips(d), d.fastPath)
		}
		// Nobody keeps what a read returned, and a recovery does not validate reads.
		if r.reads() && (result.Status == register.Unknown || p.mayBeStale(d)) {
			again = append(again, r)
			continue
		}
		p.CompleteDurably(r.Handle, result)
	}
	if len(again) > 0 {
		p.took(pathReadAgain)
		d.object.queue = append(again, d.object.queue...)
	}
}

// answerCommitted tells clients of writes that are committed here and can't be executed yet. What begins from now on
// comes after them: it depends on them, and its seq is larger. A write with an id is not among them: execution may find
// that the id is too old to be told from a duplicate, and refuse it. Nor is any of an instance of which a member of the
// fast quorum knows a smaller seq: what begins now may be voted on by that one alone of them, and get no larger one.
// Nor, where recovery validates, any that few have accepted (acceptedWidely).
func (p *clients) answerCommitted(i *instance) {
	d := i.coordination
	if p.options.Registers != nil || d == nil || d.unordered || len(i.commands) == 0 {
		return
	}
	if p.validates() && !d.fastPath && !p.acceptedWidely(d) {
		return
	}
	for _, r := range d.requests {
		if r.answered || r.Operation.Kind != register.Write || r.Operation.ID.Session != 0 {
			continue
		}
		p.took(pathAnsweredOnCommit)
		r.answered = true
		p.CompleteDurably(r.Handle, register.Result{Status: register.OK, RoundTrips: p.roundTrips(d), Fast: d.fastPath})
	}
}

// freeLane returns the writer of the first lane in which nothing of the key is in progress.
func (p *clients) freeLane(o *object) (register.Writer, bool) {
	for k := range p.options.Lanes {
		if o.inLane(p.lane(k)) == nil {
			return p.lane(k), true
		}
	}
	return 0, false
}

// takeBatch takes what comes first, reads or others: among others, a read would interfere with reads.
func (o *object) takeBatch(t *protocol.Tuning) []*request {
	size, n, most := 0, 0, cmp.Or(t.Batch, batchCommands)
	for n < len(o.queue) && n < most && size < batchBytes && o.queue[n].reads() == o.queue[0].reads() {
		op := &o.queue[n].Operation
		size += len(op.Value)
		for _, a := range op.Call.Args {
			size += len(a)
		}
		n++
	}
	batch := o.queue[:n:n]
	o.queue = o.queue[n:]
	return batch
}

func command(op register.Operation) *peerv1.Command {
	c := wire.Command(op)
	switch op.Kind {
	case register.Read:
		c.Kind = peerv1.CommandKind_READ_COMMAND
	case register.Write:
		c.Kind, c.Present, c.Value = peerv1.CommandKind_WRITE_COMMAND, op.Value.Present(), op.Value
	}
	return c
}

// roundTrips is how many the answer waited for, but for those of other instances: one at least, as where another member
// has decided the instance. Where a quorum has to execute, the commit and the executions are one more. A member that is
// alone has none.
func (p *clients) roundTrips(d *coordination) int {
	trips := max(d.roundTrips, min(1, p.Config.View.Size()-1))
	if p.options.Registers != nil {
		return min(trips+1, trips*2)
	}
	return trips
}

// giveUpLate answers clients whose deadline is past. What is proposed goes on.
func (p *clients) giveUpLate(d *coordination) {
	for _, r := range d.requests {
		switch {
		case r.answered || !p.Late(&r.Request):
			continue
		case r.reads():
			p.Complete(r.Handle, base.Untaken(register.Read, 0, "what comes before the read was not known in time"))
		default:
			p.Complete(r.Handle, base.MayTake(r.Operation.Kind, 0, p.NoQuorum()))
		}
		r.answered = true
	}
	d.object.queue = slices.DeleteFunc(d.object.queue, func(r *request) bool {
		late := p.Late(&r.Request)
		if late {
			p.Complete(r.Handle,
				base.Untaken(r.Operation.Kind, 0, "the operations on the key before it were not finished in time"))
		}
		return late
	})
}
