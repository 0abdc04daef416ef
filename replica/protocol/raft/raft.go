// Package raft is Raft by go.etcd.io/raft: one leader orders all writes and rmws of a shard in a log, and answers reads
// once a quorum has confirmed that it still leads. It is the baseline that the other protocols are compared with.
//
// The library is a state machine too, and does what the paper does: terms, votes, the log (node.go wraps it, log.go is
// its disk). What it leaves to others is here: when to suspect a leader (elect.go), what an entry does (apply.go),
// clients of members that do not lead (coordinate.go, read.go), who is too far behind for the log (pull.go), lost disks
// (settle.go), and changes of the view (change.go).
//
// docs/protocols.md, section Raft, says why lost disks and changes of the view do no harm.
package raft

import (
	"slices"

	lib "go.etcd.io/raft/v3"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Tuning says how much of the log is kept for those that are behind.
type Tuning struct {
	Entries int // that are applied, and kept
	Bytes   int // of all of these, at most
}

// defaultTuning keeps what a member misses in some seconds of heavy traffic.
var defaultTuning = Tuning{Entries: 8192, Bytes: 16 << 20}

// Protocol is one member's part of Raft, for one shard.
type Protocol struct {
	*base.Base
	mistakes Mistakes
	tuning   Tuning
	author   register.Writer // of this member's commands; their numbers grow over restarts

	extension Extension // nil: it is Raft alone

	ticked bool

	node  *lib.RawNode
	log   *log
	known []view.Incarnation // that the node has counted with, by position in the view
	read  reads
	elect election
	pull  *pull  // nil: this member follows the log
	join  settle // of a newcomer

	state *peerv1.RaftApplied

	operations base.Operations[*operation]
	proposals  []*peerv1.RaftCommand // handed to this member as the leader, until Ready
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes Raft for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, known, defaultTuning, Mistakes{})
}

// FactoryWith is Factory with another tuning, and with known bugs put back, for tests.
func FactoryWith(tuning Tuning, mistakes Mistakes) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
		return newProtocol(config, journal, known, tuning, mistakes)
	}
}

func newProtocol(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, tuning Tuning, mistakes Mistakes) *Protocol {
	p := prepare(config, journal, known, tuning, mistakes)
	p.restart()
	return p
}

// prepare loads a member's part, which has no node yet.
func prepare(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, tuning Tuning, mistakes Mistakes) *Protocol {
	p := &Protocol{
		Base:     base.New("raft", config, journal, known),
		mistakes: mistakes,
		tuning:   tuning,
		known:    make([]view.Incarnation, config.View.Size()),
	}
	p.author = p.Author()
	p.AckBeforePersist = mistakes.AckBeforePersist
	p.log = newLog(p)
	p.loadApplied()
	return p
}

// Submit implements protocol.Protocol.
func (p *Protocol) Submit(r protocol.Request) {
	if !p.Invalid(r) {
		p.begin(r)
	}
}

// Receive implements protocol.Protocol.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	p.recount()
	p.elect.heard(p, from)
	switch m.Kind {
	case peerv1.Kind_RAFT:
		p.step(from, m)
	case peerv1.Kind_RAFT_PROPOSE:
		p.onPropose(m)
	case peerv1.Kind_RAFT_READ:
		p.onRead(from, m)
	case peerv1.Kind_RAFT_READ_REPLY:
		p.onReadReply(m)
	case peerv1.Kind_RAFT_SETTLE:
		p.onSettle(from, m)
	case peerv1.Kind_RAFT_PULL:
		p.onPull(from, m)
	case peerv1.Kind_EXECUTED:
		p.onExecuted(from, m)
	default:
		if p.extension != nil && p.ticked {
			p.extension.Receive(from, m)
		}
	}
}

// Tick implements protocol.Protocol.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now = now
	p.recount()
	if !p.ticked {
		p.ticked = true
		p.elect.begin(p)
	}
	p.tickElection()
	p.tickPull()
	p.tickOperations()
	if p.extension != nil {
		p.extension.Tick(now)
	}
}

// Ready implements protocol.Protocol.
func (p *Protocol) Ready() protocol.Effects {
	if p.ticked {
		p.recount()
		p.drain()
	}
	return p.Outbox.Ready()
}

// Pending is how many operations of its clients this member holds unfinished.
func (p *Protocol) Pending() int { return p.operations.Len() }

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
	if news && p.counts() && !p.mistakes.CountDeadDisks {
		p.Took(pathRecount)
		if p.elect.leads {
			p.elect.patience = p.Now // it is as good a leader as before
		}
		p.restart()
	}
}

// completeAt completes what rests on the log up to an index: this member is one of those that hold it.
func (p *Protocol) completeAt(index uint64, handle uint64, r register.Result) {
	p.CompleteWhen(p.log.durable() >= index || p.mistakes.AckBeforePersist, handle, r)
}

// others lists the other members in the view's order.
func (p *Protocol) others() []view.MemberID {
	var ids []view.MemberID
	for _, m := range p.Config.View.Members {
		if m.ID != p.Config.Self {
			ids = append(ids, m.ID)
		}
	}
	return slices.Clip(ids)
}
