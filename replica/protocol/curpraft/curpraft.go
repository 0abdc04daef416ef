// Package curpraft is CURP on consensus (Park and Ousterhout, appendix A.2): the leader of a Raft group executes
// commands and answers before they are committed, and each member has a witness inside, which saves commands for their
// clients. A command that commutes with what is not committed yet completes in one round trip, when the leader has
// answered and a superquorum of the witnesses holds it; any other one completes when it is committed, as in Raft.
//
// Package raft is the group, and this one its extension: the member that coordinates an operation is CURP's client
// (client.go); the leader speculates (leader.go); a witness accepts commands of the present term (witness.go); a new
// leader replays what they hold before it serves (recover.go).
//
// docs/protocols.md, section CURPRaft, says why.
package curpraft

import (
	"cmp"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/raft"
	"github.com/georegister/georegister/replica/view"
)

// defaultSlots, unless the tuning has another number, let a witness hold what some thousand updates a second leave in
// it over the longest round trips. Together they take 2 MiB at most, so that they fit into a message, and into an entry
// of the log.
const defaultSlots = 1024

// Protocol is what one member does beside Raft, for one shard.
type Protocol struct {
	raft     *raft.Protocol
	attempts map[uint64]*attempt // at one round trip, of this member's clients, by the command's number
	witness  witness
	reign    *reign // nil: this member does not lead
}

var _ raft.Extension = (*Protocol)(nil)

// Factory makes CURPRaft for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return raft.New(config, journal, known, func(r *raft.Protocol) raft.Extension {
		p := &Protocol{raft: r, attempts: map[uint64]*attempt{}}
		p.loadWitness(cmp.Or(config.Tuning.Slots, defaultSlots))
		return p
	})
}

// gathered is from how many witnesses of a group of n a new leader learns what they hold: f + 1.
func gathered(n int) int { return n/2 + 1 }

// threshold is in how many of these a command must be to be replayed: ceil(f/2) + 1, which is more than half of them.
// So no two of those that are replayed touch the same key, since no witness holds two that do.
func threshold(n int) int { return gathered(n)/2 + 1 }

// superquorum is how many witnesses must hold a command, lest fewer than threshold of those that are gathered do:
// f + ceil(f/2) + 1.
func superquorum(n int) int { return n - gathered(n) + threshold(n) }

// group are the members whose witnesses hold what a leader may have answered: in a joint view those before the change,
// since there is no answer before the commit until the change is over.
func (p *Protocol) group() view.View { return p.raft.Config.View.Before() }

// Receive implements raft.Extension.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_RECORD:
		p.onRecord(from, m)
	case peerv1.Kind_RECORD_REPLY:
		p.onRecordReply(from, m)
	case peerv1.Kind_SPECULATED:
		p.onSpeculated(m)
	case peerv1.Kind_GATHER:
		p.onGather(from, m)
	case peerv1.Kind_GATHERED:
		p.onGathered(from, m)
	}
}

// Tick implements raft.Extension.
func (p *Protocol) Tick(protocol.Instant) {
	p.tickAttempts()
	p.tickWitness()
	p.tickReign()
}

// Executed implements raft.Extension: what is committed and executed needs no record.
func (p *Protocol) Executed(index uint64, entry *peerv1.RaftEntry) {
	for _, c := range entry.Commands {
		p.drop(c)
		p.settle(index, c)
	}
}

// Advanced implements raft.Extension.
func (p *Protocol) Advanced() {
	p.beginLife(p.raft.Applied().Served)
	p.tryRecover()
}

// message begins a message of a term.
func (p *Protocol) message(kind peerv1.Kind, op, term uint64) *peerv1.Message {
	m := p.raft.Message(kind, op)
	m.Timestamp = term
	return m
}
