package raft

import (
	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// hand hands over what waits for that: to the node, if this member leads, or to the leader.
func (p *Protocol) hand() {
	if p.elect.lead == 0 || p.elect.leads() && !p.extension.Serves() {
		return
	}
	first := p.firstIncomplete()
	var commands []*peerv1.RaftCommand
	for o := range p.operations.InProgress() {
		if o.waits {
			continue
		}
		o.sent, o.waits, o.far, o.refused = true, true, !p.elect.leads(), false
		o.due = p.Now.Add(2 * p.Config.Retry << min(o.again, 3))
		o.again++
		switch {
		case o.reads() && p.elect.leads():
			p.reads.add(reader{p.Config.Self, o.Number, peerv1.Kind_RAFT_READ_REPLY, []byte(o.Request.Operation.Key)})
		case o.reads():
			m := p.Message(peerv1.Kind_RAFT_READ, o.Number)
			if p.extended {
				m.Key = []byte(o.Request.Operation.Key)
			}
			p.Send(p.elect.lead, m)
		default:
			c := o.command.CloneVT() // what was sent never changes
			c.FirstIncomplete = first
			commands = append(commands, c)
			p.extension.Handed(c)
		}
	}
	if p.elect.leads() {
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
	m.Raft = p.Encode(&peerv1.RaftProposal{Commands: commands}, "commands", nil)
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
				p.clients.refused(commands[from : i+1])
			}
			size, from = 0, i+1
		}
	}
}

// onPropose takes commands of another coordinator.
func (p *Protocol) onPropose(m *peerv1.Message) {
	proposal := &peerv1.RaftProposal{}
	if p.elect.leads() && proposal.UnmarshalVT(m.Raft) == nil {
		p.proposals = append(p.proposals, proposal.Commands...)
	}
}

// apply executes committed entries in their order. What they made, and how far that is, is one batch.
func (p *Protocol) apply(entries []*raftpb.Entry) {
	if len(entries) == 0 {
		return
	}
	run := p.run()
	for _, e := range entries {
		entry := run.next(e)
		if entry == nil {
			continue
		}
		for i, c := range entry.Commands {
			at := register.Carstamp{Timestamp: e.GetIndex(), RMWs: uint64(i) + 1}
			state, answer := run.execute(c, at)
			switch o := p.clients.of(c); {
			case o == nil || state == nil:
			case answer == nil:
				p.finishUnseen(o, state)
			default:
				p.finish(o, at.Timestamp, wire.Result(answer, 0, false))
			}
		}
		p.extension.Executed(e.GetIndex(), entry)
	}
	run.end()
	p.extension.Advanced()
	p.releaseReads()
	p.answerReads()
}
