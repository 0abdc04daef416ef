package raft

import (
	"go.etcd.io/raft/v3/raftpb"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
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
	// Unsynced is the index of the last entry for a key that this member, which leads, has executed and not applied; or
	// 0.
	Unsynced(key []byte) uint64
}

// none is the Extension of Raft alone.
type none struct{}

func (none) Receive(view.MemberID, *peerv1.Message) {}
func (none) Tick(protocol.Instant)                  {}
func (none) Led(bool)                               {}
func (none) Serves() bool                           { return true }
func (none) Handed(*peerv1.RaftCommand)             {}
func (none) Appended(uint64, *peerv1.RaftEntry)     {}
func (none) Executed(uint64, *peerv1.RaftEntry)     {}
func (none) Advanced()                              {}
func (none) Unsynced([]byte) uint64                 { return 0 }

// appended tells the extension of a leader's entries.
func (p *Protocol) appended(entries []*raftpb.Entry) {
	if !p.extended || !p.elect.leads() {
		return
	}
	for _, e := range entries {
		if entry := p.commandsOf(e); entry != nil {
			p.extension.Appended(e.GetIndex(), entry)
		}
	}
}

// Term is the newest that this member knows of.
func (p *Protocol) Term() uint64 { return p.node.BasicStatus().GetTerm() }

// Enter puts that term into the journal. The node hands it over at the next Ready only, and may begin anew before that:
// what is told of the term must hold all the same.
func (p *Protocol) Enter() {
	if s := p.node.BasicStatus().HardState; s.GetTerm() > p.log.hard.Term {
		p.log.promise(s.GetTerm(), s.GetVote(), p.log.hard.Commit)
	}
}

// Leader is who leads in that term, or 0.
func (p *Protocol) Leader() view.MemberID { return p.elect.lead }

// Recover proposes the entry with which a leader has recovered, and reports whether the node took it.
func (p *Protocol) Recover(commands []*peerv1.RaftCommand) bool {
	return p.proposeEntry(&peerv1.RaftEntry{Epoch: p.Config.View.Epoch, Commands: commands, Recovered: true})
}

// Hand gives commands of other members' clients to the leader, if there is one.
func (p *Protocol) Hand(commands []*peerv1.RaftCommand) {
	switch {
	case p.elect.leads():
		p.proposals = append(p.proposals, commands...)
	case p.elect.lead != 0:
		p.forward(commands)
	}
}

// Message begins a message, which never changes once it is sent. No message of Raft has a key.
func (p *Protocol) Message(kind peerv1.Kind, op uint64) *peerv1.Message {
	return p.Outbox.Message(kind, op, nil)
}
