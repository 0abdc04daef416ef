package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// confirmation is what members say of the view that begins a term, and of terms before it.
//
// The master of a new term asks first who holds the very view that makes it the master. A view that a quorum holds is
// found again when its record is lost; one that few were told may be forgotten, and another one be made with its epoch,
// whose terms have the same numbers, or in which an earlier term goes on. So before that no member takes part in the
// term: its master asks no witness, names no entry of the log and serves no client, and its backups and learners change
// nothing on their disks until they hear of the master.
//
// It asks, too, what the highest term is of which they ever had all that was to be recovered. A master that had no part
// in a former term misses what was answered in it, and would have the others drop it. So it begins only if that term
// never served: serving, all who had a part in it would have noted before that they had recovered
// (recovery.backupsHoldAll), and one says that it has not. Holding this view, that one will not, either.
type confirmation struct {
	*member
	holders []view.MemberID // other members that have said that they hold the view
	// By member: the highest term of which it ever had all that was to be recovered, as it said; never ranged over.
	recoveredTerms map[view.MemberID]uint64
}

// holds reports whether a member is known to hold the view.
func (c *confirmation) holds(id view.MemberID) bool {
	return id == c.Config.Self || slices.Contains(c.holders, id)
}

// askHolder asks a member whether it holds the view.
func (c *confirmation) askHolder(id view.MemberID) {
	c.send(id, c.message(peerv1.Kind_HOLD, c.Op(), &peerv1.Curp{}))
}

// onHold answers that this member holds the view, unless its disk may have forgotten: then it is no record of views.
func (c *confirmation) onHold(from view.MemberID, m *peerv1.Message) {
	if !c.Doubted() {
		c.tellHeld(from, m.Op)
	}
}

// announce tells a master that may ask, or has asked before this member was told of the view, that it is held here.
func (c *confirmation) announce() {
	master := c.partition.Master
	if master != c.Config.Self && (len(c.partition.Formers) > 0 || c.partition.Term == c.Config.View.Epoch) {
		c.tellHeld(master, 0)
	}
}

// tellHeld says that this member holds the view, and what it has recovered. A lost disk tells nothing of former terms,
// nor does one of those before it was new.
func (c *confirmation) tellHeld(to view.MemberID, op uint64) {
	c.send(to, c.message(peerv1.Kind_HOLD_REPLY, op, &peerv1.Curp{
		WholeTerm: c.store.Own.NotedTerm, Lacking: !c.testifies(),
	}))
}

// onReply notes that a member holds this view, and reports whether that is news: the answer carries the view's digest,
// as every message does.
func (c *confirmation) onReply(from view.MemberID, m *peerv1.Message) bool {
	if slices.Contains(c.holders, from) {
		return false
	}
	if !m.Curp.Lacking {
		c.recoveredTerms[from] = m.Curp.WholeTerm
	}
	c.holders = append(c.holders, from)
	return true
}

// neverServed reports whether a member that had a part in a former term says that it did not get what the term was to
// recover.
func (c *confirmation) neverServed(f view.Former) bool {
	return slices.ContainsFunc(append([]view.MemberID{f.Master}, f.Backups...), func(id view.MemberID) bool {
		recovered, told := c.recoveredTerms[id]
		return told && recovered < f.Term
	})
}

// unknownTerm is a former term that may have served, and of which this member knows nothing; 0: there is none.
func (c *confirmation) unknownTerm() uint64 {
	for _, f := range c.partition.Formers {
		if !f.Has(c.Config.Self) && !c.recovered(f) && !c.neverServed(f) {
			return f.Term
		}
	}
	return 0
}
