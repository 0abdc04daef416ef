package raft

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/session"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// operation is one of a client of this member. A write or rmw is handed to the leader as a command of this author's
// number; this member answers its client when it applies the command itself. It may be handed over again, to whoever
// leads: a command of the same number is executed once.
type operation struct {
	base.Operation
	request protocol.Request
	command *peerv1.RaftCommand // of a write or rmw

	told  bool             // it was handed over: others may know of it
	waits bool             // for whom it was handed to; else it is handed over at the next Ready
	due   protocol.Instant // when to hand it over again; of what waits
	again uint             // how often it was
	far   bool             // handed to another member

	index     uint64 // of a read: the state after this entry may answer it
	confirmed bool   // index is known
}

func (o *operation) reads() bool { return o.command == nil }

// begin takes up an operation.
func (p *Protocol) begin(r protocol.Request) {
	o := &operation{request: r}
	if done, resumed := r.Resume.(resume); resumed && r.Operation.Kind != register.Read && !p.mistakes.ResumeAsNew {
		if done.author != p.author {
			p.Complete(r.Handle, register.Result{Status: register.Unknown, Message: "the disk that knew of the operation is lost; it may have taken effect"})
			return
		}
		p.Took(pathResumed)
		o.Number, o.told = done.number, true
	} else {
		o.Number = p.Op()
	}
	if r.Operation.Kind != register.Read {
		o.command = p.command(o)
	}
	p.operations.Begin(o)
	if o.told && p.over(uint64(p.author), o.Number) {
		p.finishUnseen(o, p.loadState(o.command.Key))
	}
}

func (p *Protocol) command(o *operation) *peerv1.RaftCommand {
	op := o.request.Operation
	c := &peerv1.RaftCommand{Author: uint64(p.author), Number: o.Number, Key: []byte(op.Key)}
	if op.Kind == register.Write {
		c.Present, c.Value = op.Value.Present(), op.Value
		return c
	}
	c.Rmw = &peerv1.Command{
		Function: op.Call.Function, Args: op.Call.Args, MaxValueBytes: uint64(op.Call.MaxValueBytes),
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
	}
	return c
}

// hand hands over what waits for that: to the node, if this member leads, or to the leader.
func (p *Protocol) hand() {
	if p.elect.lead == 0 || p.elect.leads && !p.serves() {
		return
	}
	first := p.firstIncomplete()
	var commands []*peerv1.RaftCommand
	for o := range p.operations.InProgress() {
		if o.waits {
			continue
		}
		o.told, o.waits, o.far = true, true, !p.elect.leads
		o.due = p.Now.Add(2 * p.Config.Retry << min(o.again, 3))
		o.again++
		switch {
		case o.reads() && p.elect.leads:
			p.read.asked = append(p.read.asked, reader{p.Config.Self, o.Number, peerv1.Kind_RAFT_READ_REPLY, []byte(o.request.Operation.Key)})
		case o.reads():
			m := p.Message(peerv1.Kind_RAFT_READ, o.Number)
			if p.extension != nil {
				m.Key = []byte(o.request.Operation.Key)
			}
			p.Send(p.elect.lead, m)
		default:
			c := o.command.CloneVT() // what was sent never changes
			c.FirstIncomplete = first
			commands = append(commands, c)
			if p.extension != nil {
				p.extension.Handed(c)
			}
		}
	}
	if p.elect.leads {
		if commands = append(p.proposals, commands...); len(commands) > 0 {
			p.proposals = nil
			p.proposeBatches(commands)
		}
		p.askReads()
	} else if len(commands) > 0 {
		p.Took(pathForward)
		p.forward(commands)
	}
}

// forward sends commands to the leader.
func (p *Protocol) forward(commands []*peerv1.RaftCommand) {
	m := p.Message(peerv1.Kind_RAFT_PROPOSE, 0)
	raw, err := (&peerv1.RaftProposal{Commands: commands}).MarshalVT()
	if err != nil {
		p.Fault("encode commands: %w", err)
		return
	}
	m.Raft = raw
	p.Send(p.elect.lead, m)
}

// batchBytes bounds the commands of one entry, but for the last of them.
const batchBytes = 256 << 10

func (p *Protocol) proposeBatches(commands []*peerv1.RaftCommand) {
	size, from := 0, 0
	for i, c := range commands {
		size += c.SizeVT()
		if size >= batchBytes || i == len(commands)-1 {
			if !p.propose(commands[from : i+1]) {
				p.Took(pathDropped) // their coordinators hand them over again
			}
			size, from = 0, i+1
		}
	}
}

// firstIncomplete is the lowest number of a command that a client waits for, or could be issued.
func (p *Protocol) firstIncomplete() uint64 {
	for o := range p.operations.InProgress() {
		if !o.reads() {
			return o.Number
		}
	}
	return p.LastOp() + 1
}

// onPropose takes commands of another coordinator.
func (p *Protocol) onPropose(m *peerv1.Message) {
	proposal := &peerv1.RaftProposal{}
	if p.elect.leads && proposal.UnmarshalVT(m.Raft) == nil {
		p.proposals = append(p.proposals, proposal.Commands...)
	}
}

// routeAgain hands everything to another leader.
func (p *Protocol) routeAgain() {
	for o := range p.operations.InProgress() {
		o.waits, o.again = false, 0
	}
}

// tickOperations gives up what is late, and hands over again what has not been answered.
func (p *Protocol) tickOperations() {
	p.operations.Sweep(nil)
	for o := range p.operations.InProgress() {
		switch {
		case p.Late(&o.request):
			p.expire(o)
		case o.waits && p.Now >= o.due && (o.far || o.reads()):
			p.Took(pathRetry)
			o.waits = false
		case o.waits && p.Now >= o.due && p.elect.leads && o.again < 2:
			o.waits = false // the node may have refused it
		}
	}
}

func (p *Protocol) expire(o *operation) {
	const why = "no leader with a quorum executed the operation in time"
	path, result := pathUnavailable, base.Untaken(o.request.Operation.Kind, 0, why)
	if o.told && !o.reads() {
		path, result = pathUnknown, base.MayTake(o.request.Operation.Kind, 0, why)
	}
	p.Took(path)
	p.finish(o, result)
}

// trips is how many wide-area round trips an answer waits for: from the leader to a quorum, and to the leader.
func (p *Protocol) trips(o *operation) int {
	n := min(1, p.Config.View.Size()-1)
	if o.far {
		n++
	}
	return n
}

// finishAt answers a client with what rests on the log up to an index.
func (p *Protocol) finishAt(o *operation, index uint64, r register.Result) {
	r.RoundTrips = p.trips(o)
	p.operations.End(o)
	p.completeAt(index, o.request.Handle, r)
}

func (p *Protocol) finish(o *operation, r register.Result) {
	r.RoundTrips = p.trips(o)
	p.operations.End(o)
	p.Complete(o.request.Handle, r)
}

// finishUnseen answers a client whose command was executed, but not by this member: it took the state from another one.
func (p *Protocol) finishUnseen(o *operation, state *peerv1.KeyState) {
	switch c := o.command.Rmw; {
	case c == nil:
		p.finish(o, register.Result{Status: register.OK})
		return
	case c.Session != 0:
		if answer := session.Recall(state, c); answer != nil {
			p.finish(o, resultOf(answer))
			return
		}
	}
	p.Took(pathUnseen)
	p.finish(o, register.Result{Status: register.Unknown, Message: "the rmw was executed while this member was behind, and what it returned is not known here"})
}

// lookUnseen ends the commands that were executed by entries which this member did not apply.
func (p *Protocol) lookUnseen() {
	for o := range p.operations.InProgress() {
		if !o.reads() && p.over(uint64(p.author), o.Number) {
			p.finishUnseen(o, p.loadState(o.command.Key))
		}
	}
}

// reader waits for the index from which on the state may answer its read.
type reader struct {
	from   view.MemberID
	op     uint64
	answer peerv1.Kind
	key    []byte // of a read, for an extension
}
