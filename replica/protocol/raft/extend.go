package raft

import (
	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Extension is what a protocol adds to this one: a leader that executes commands before they are committed, and a time
// in which it leads and does not serve yet (replica/protocol/curpraft). Its methods are called within a step of the
// member, never two at once; what they send and put into the journal is of that step.
type Extension interface {
	// Receive takes a message of a kind that is not Raft's.
	Receive(from view.MemberID, m *peerv1.Message)
	Tick(now protocol.Instant)
	// Led says that another member leads, or nobody, or this one.
	Led(self bool)
	// Serves reports whether this member, which leads, takes commands and reads.
	Serves() bool
	// Handed says that a command of this member's client goes to the leader.
	Handed(c *peerv1.RaftCommand)
	// Appended says that an entry which this member, as the leader, has proposed is in its log. It is not committed.
	Appended(index uint64, entry *peerv1.RaftEntry)
	// Executed says that the commands of an entry are in the state.
	Executed(index uint64, entry *peerv1.RaftEntry)
	// Advanced says that the state is that of a later entry: some were executed, or it came from another member.
	Advanced()
	// Unsynced is the index of the last entry for a key that this member, which leads, has executed and not applied; or 0.
	Unsynced(key []byte) uint64
}

// Extended makes Raft with an extension, which add makes.
func Extended(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, tuning Tuning, mistakes Mistakes, add func(*Protocol) Extension,
) *Protocol {
	p := prepare(config, journal, known, tuning, mistakes)
	p.extension = add(p)
	p.restart()
	return p
}

// appended tells the extension of a leader's entries.
func (p *Protocol) appended(entries []*raftpb.Entry) {
	if p.extension == nil || !p.elect.leads {
		return
	}
	for _, e := range entries {
		entry := &peerv1.RaftEntry{}
		if e.GetType() != raftpb.EntryNormal || len(e.GetData()) == 0 {
			continue
		}
		if err := entry.UnmarshalVT(e.GetData()); err != nil {
			p.Fault("entry %d of the log is damaged: %w", e.GetIndex(), err)
			return
		}
		p.extension.Appended(e.GetIndex(), entry)
	}
}

// DefaultTuning is what Factory has.
func DefaultTuning() Tuning { return defaultTuning }

func (p *Protocol) serves() bool { return p.extension == nil || p.extension.Serves() }

// Term is the newest that this member knows of.
func (p *Protocol) Term() uint64 { return p.node.BasicStatus().GetTerm() }

// Leader is who leads in that term, or 0.
func (p *Protocol) Leader() view.MemberID { return p.elect.lead }

// Applied is how far the log is executed here. It must not be changed.
func (p *Protocol) Applied() *peerv1.RaftApplied { return p.state }

// Over reports whether a command must not be executed any more: it was, or its author has given it up.
func (p *Protocol) Over(author, number uint64) bool { return p.over(author, number) }

// Waits reports whether a client of this member waits for a command.
func (p *Protocol) Waits(number uint64) bool { return p.operations.Find(number) != nil }

// State is what a key has become by the entries that are applied. It is the caller's.
func (p *Protocol) State(key []byte) *peerv1.KeyState { return p.loadState(key) }

// Perform executes a command on a state, as the entry at that place will.
func (p *Protocol) Perform(state *peerv1.KeyState, c *peerv1.RaftCommand, at register.Carstamp) *peerv1.Answer {
	return p.perform(state, c, at)
}

// Answer ends an operation of this member's client before its command is applied, in one round trip, once the journal
// up to a mark is durable.
func (p *Protocol) Answer(number uint64, a *peerv1.Answer, mark uint64) {
	o := p.operations.Find(number)
	if o == nil {
		return
	}
	r := resultOf(a)
	r.RoundTrips, r.Fast = min(1, p.Config.View.Size()-1), true
	p.operations.End(o)
	p.CompleteWhen(p.Journal.Survives(mark), o.request.Handle, r)
}

// Recover proposes the entry with which a leader has recovered, and reports whether the node took it.
func (p *Protocol) Recover(commands []*peerv1.RaftCommand) bool {
	return p.proposeEntry(&peerv1.RaftEntry{Epoch: p.Config.View.Epoch, Commands: commands, Recovered: true})
}

// Hand gives commands of other members' clients to the leader, if there is one.
func (p *Protocol) Hand(commands []*peerv1.RaftCommand) {
	switch {
	case p.elect.leads:
		p.proposals = append(p.proposals, commands...)
	case p.elect.lead != 0:
		p.forward(commands)
	}
}

// Message begins a message, which never changes once it is sent. No message of Raft has a key.
func (p *Protocol) Message(kind peerv1.Kind, op uint64) *peerv1.Message {
	return p.Outbox.Message(kind, op, nil)
}

// stamp is the carstamp that clients see. An extension that tells of it before the log has its place goes by the number
// of commands on the key: it is the same wherever the command comes to be in the log.
func (p *Protocol) stamp(state *peerv1.KeyState, at register.Carstamp) register.Carstamp {
	if p.extension == nil {
		return at
	}
	state.Count++
	return register.Carstamp{Timestamp: state.Count}
}

// seen is the carstamp of a key's state.
func (p *Protocol) seen(state *peerv1.KeyState) register.Carstamp {
	if p.extension == nil {
		v := state.GetPrevious()
		return register.Carstamp{Timestamp: v.GetTimestamp(), RMWs: v.GetRmws()}
	}
	return register.Carstamp{Timestamp: state.Count}
}
