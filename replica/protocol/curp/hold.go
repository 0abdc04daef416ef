package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// hold is what a master of a new term asks first: who holds the very view that makes it one. A view that a quorum holds
// is found again when its record is lost; one that few were told may be forgotten, and another one be made with its
// epoch, whose terms have the same numbers, or in which an earlier term goes on. So before that nobody takes part in
// the term: its master asks no witness, names no entry of the log and serves nobody, and its backups and learners
// change nothing on their disks until they hear of the master.
//
// It asks, too, what the highest term is of which they ever had all that was to be recovered. A master that had no
// part in a former term misses what was answered in it, and would have the others drop it. So it begins only if that
// term never served: serving, all who had a part in it would have noted before that they were whole (heldByAll), and
// one says that it is not. Holding this view, that one will not be, either.
type hold struct {
	due protocol.Instant
}

// entered reports whether the member has taken part in the view's term before.
func (p *Protocol) entered() bool {
	return p.store.Own.Term == p.partition.Term || p.mistakes.ServeUncommitted
}

// tickHold asks until a quorum has answered, and then begins the term.
func (p *Protocol) tickHold() {
	quorum := p.config.View.Quorum(func(id view.MemberID) bool { return id == p.config.Self || slices.Contains(p.holders, id) })
	if quorum && (p.strange() == 0 || p.mistakes.AnyMaster) {
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
			p.send(m.ID, p.message(peerv1.Kind_HOLD, p.Op(), &peerv1.Curp{}))
		}
	}
}

// strange is a former term that may have served, and of which this member knows nothing; 0: there is none.
func (p *Protocol) strange() uint64 {
	for _, f := range p.partition.Formers {
		if !f.Has(p.config.Self) && !p.knows(f) && !p.neverServed(f) {
			return f.Term
		}
	}
	return 0
}

// neverServed reports whether one who had a part in a former term says that it did not get what the term was to
// recover.
func (p *Protocol) neverServed(f view.Former) bool {
	return slices.ContainsFunc(append([]view.MemberID{f.Master}, f.Backups...), func(id view.MemberID) bool {
		noted, told := p.noted[id]
		return told && noted < f.Term
	})
}

// held says that this member holds the view. A lost disk tells nothing of former terms, nor does one of those before
// it was born.
func (p *Protocol) held(op uint64) *peerv1.Message {
	return p.message(peerv1.Kind_HOLD_REPLY, op, &peerv1.Curp{WholeTerm: p.store.Own.NotedTerm, Lacking: !p.testifies()})
}

// testifies reports whether what the disk has noted of terms counts: an empty one has forgotten it, and an older copy
// has noted less. One that is lost for its part, such as for a state that it was still copying, has forgotten nothing.
func (p *Protocol) testifies() bool { return !p.Doubted() && (p.known || p.lost == "") }

// tellHeld tells a master that may ask, or has asked before this member was told of the view, that it is held here.
func (p *Protocol) tellHeld() {
	if p.partition.Master != p.config.Self && (len(p.partition.Formers) > 0 || p.partition.Term == p.config.View.Epoch) {
		p.send(p.partition.Master, p.held(0))
	}
}

// onHoldReply notes that a member holds this view: the answer carries its digest, as every message does.
func (p *Protocol) onHoldReply(from view.MemberID, m *peerv1.Message) {
	if slices.Contains(p.holders, from) {
		return
	}
	if !m.Curp.Lacking {
		p.noted[from] = m.Curp.WholeTerm
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
