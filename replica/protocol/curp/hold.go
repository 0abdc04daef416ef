package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// hold is what a master of a new term asks first: who holds the very view that makes it one. A view that a quorum holds is
// found again when its record is lost; one that few were told may be forgotten, and another one be made with its epoch, whose
// terms have the same numbers, or in which an earlier term goes on. So before that nobody takes part in the term: its master
// asks no witness, names no entry of the log and serves nobody, and its backups and learners change nothing on their disks
// until they hear of the master.
type hold struct {
	due protocol.Instant
}

// entered reports whether the member has taken part in the view's term before.
func (p *Protocol) entered() bool {
	return p.own.Term == p.partition.Term || p.options.Mistakes.ServeUncommitted
}

// tickHold asks until a quorum has answered, and then begins the term.
func (p *Protocol) tickHold() {
	if p.config.View.Quorum(func(id view.MemberID) bool { return id == p.config.Self || slices.Contains(p.holders, id) }) {
		p.hold = nil
		p.beginMaster()
		p.tickMaster()
		return
	}
	if p.now < p.hold.due {
		return
	}
	p.hold.due = p.now.Add(p.config.Retry)
	for _, m := range p.config.View.Members {
		if m.ID != p.config.Self && !slices.Contains(p.holders, m.ID) {
			p.send(m.ID, p.message(peerv1.Kind_HOLD, p.op(), &peerv1.Curp{}))
		}
	}
}

// tellHeld tells a master that may ask, or has asked before this member was told of the view, that it is held here.
func (p *Protocol) tellHeld() {
	if p.partition.Master != p.config.Self && (len(p.partition.Formers) > 0 || p.partition.Term == p.config.View.Epoch) {
		p.send(p.partition.Master, p.message(peerv1.Kind_HOLD_REPLY, 0, &peerv1.Curp{}))
	}
}

// onHoldReply notes that a member holds this view: the answer carries its digest, as every message does.
func (p *Protocol) onHoldReply(from view.MemberID) {
	if slices.Contains(p.holders, from) {
		return
	}
	p.holders = append(p.holders, from)
	switch {
	case !p.ticked:
	case p.hold != nil:
		p.tickHold()
	case p.recovery != nil:
		p.tickRecovery()
	}
}
