// Package raft is Raft by go.etcd.io/raft: one leader orders all writes and rmws of a shard in a log, and answers reads
// once a quorum has confirmed that it still leads. It is the baseline that the other protocols are compared with.
//
// The library is a state machine too, and does what the paper does: terms, votes, the log. What it leaves to others is
// here, in parts of which each knows those before it:
//
//   - records (records.go): what a member keeps in its journal
//   - machine (machine.go): what the entries of the log have made of the keys
//   - log (log.go): the log's copy on disk, by which the library restarts
//   - clients (clients.go): the operations of this member's clients, until they are answered
//   - Protocol: the library's node (node.go), the way of commands to the leader and of entries to the machine
//     (commands.go), reads (read.go), elections (elect.go), a state for who is too far behind for the log (pull.go), and
//     lost disks (settle.go)
//
// docs/protocols.md, section Raft, says why lost disks and changes of the view do no harm.
package raft

import (
	lib "go.etcd.io/raft/v3"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

// How much of the log is kept that is applied, for those that are behind, unless the tuning says otherwise: what a member
// misses in some seconds of heavy traffic.
const (
	keptEntries = 8192
	keptBytes   = 16 << 20
)

// Protocol is one member's part of Raft, for one shard: the library's node, and what has it go on.
type Protocol struct {
	*clients
	node      *lib.RawNode
	known     []view.Incarnation // that the node has counted with, by position in the view
	elect     election
	reads     reads
	proposals []*peerv1.RaftCommand // handed to this member as the leader, until Ready
	extension Extension
	fetch     *pull // nil: this member follows the log
	join      newcomer
	ticked    bool
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes Raft for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return New(config, journal, known, nil)
}

// New makes Raft for a member, with the extension that add makes, if any.
func New(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, add func(*Protocol) Extension,
) *Protocol {
	b := base.New("raft", config, journal, known)
	p := &Protocol{
		clients:   &clients{log: newLog(newMachine(records{b})), author: b.Numberer()},
		known:     make([]view.Incarnation, config.View.Size()),
		elect:     election{Base: b},
		extension: none{},
	}
	if add != nil {
		p.extended, p.extension = true, add(p)
	}
	p.restart()
	return p
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	if !p.Invalid(r) {
		p.clients.begin(r)
	}
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	p.recount()
	if p.ticked {
		p.elect.alive[from] = p.Now
	}
	switch m.Kind {
	case peerv1.Kind_RAFT:
		p.step(from, m)
	case peerv1.Kind_RAFT_PROPOSE:
		p.onPropose(m)
	case peerv1.Kind_RAFT_READ:
		p.onRead(from, m, peerv1.Kind_RAFT_READ_REPLY)
	case peerv1.Kind_RAFT_READ_REPLY:
		p.confirm(m.Op, m.Timestamp)
		p.answerReads()
	case peerv1.Kind_RAFT_SETTLE:
		p.onRead(from, m, peerv1.Kind_EXECUTED)
	case peerv1.Kind_RAFT_PULL:
		p.onPull(from, m)
	case peerv1.Kind_EXECUTED:
		p.onExecuted(from, m)
	default:
		if p.ticked {
			p.extension.Receive(from, m)
		}
	}
}

// Tick implements protocol.Machine.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now = now
	p.recount()
	if !p.ticked {
		p.ticked = true
		p.elect.begin()
	}
	p.tickElection()
	p.tickPull()
	p.clients.tick(p.elect.leads())
	p.extension.Tick(now)
}

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	if p.ticked {
		p.recount()
		p.drain()
	}
	return p.Outbox.Ready()
}

// recount starts the node anew when it may have counted a disk that is lost: what that one had promised or held is
// void. Only a leader or candidate counts; but a follower of a term is never asked twice, so nothing is lost by it
// either.
func (p *Protocol) recount() {
	news := false
	for i, m := range p.Config.View.Members {
		if now := p.Incarnations.Of(m.ID); now != p.known[i] {
			p.known[i] = now
			news = news || m.ID != p.Config.Self
		}
	}
	if news && p.counts() {
		p.Took(pathRecount)
		if p.elect.leads() {
			p.elect.patience = p.Now // it is as good a leader as before
		}
		p.restart()
	}
}
