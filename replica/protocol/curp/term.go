package curp

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// term is the view's term at its master, from the beginning: it confirms the view, recovers what former terms left, and
// serves.
type term struct {
	*confirmation
	master     *master
	recovery   *recovery        // nil: nothing is to be recovered, or the view is not confirmed
	confirming bool             // the view is not known to be held
	askAt      protocol.Instant // when members that have not said that they hold it are asked again
}

func newTerm(m *member) *term {
	c := &confirmation{member: m, recoveredTerms: map[view.MemberID]uint64{}}
	return &term{confirmation: c, master: newMaster(m)}
}

// prepare begins the term, or to confirm the view, if this member has not begun the term before.
func (t *term) prepare() {
	own := t.store.Own
	anotherDisk := func(f view.Former) bool { return f.Has(t.Config.Self) && f.Term < own.Born }
	switch {
	case slices.ContainsFunc(t.partition.Formers, anotherDisk):
		t.lose("it recovers from a term of an earlier disk of this member")
	case !t.complete():
		t.lose("it has a part of the state only")
	case own.Recovered == t.partition.Term:
		t.begin()
	default:
		t.confirming = true
		t.recoveredTerms[t.Config.Self] = own.NotedTerm
	}
}

// tick goes on with the term.
func (t *term) tick() {
	if t.confirming {
		t.confirm()
		return
	}
	t.master.tickSyncs()
	t.recover()
	t.master.tick()
}

// confirm asks until a quorum has answered, and then begins the term.
func (t *term) confirm() {
	if t.Config.View.Quorum(t.holds) && t.unknownTerm() == 0 {
		t.confirming = false
		t.begin()
		t.tick()
		return
	}
	if t.Now < t.askAt {
		return
	}
	t.askAt = t.Now.Add(t.Config.Retry)
	for _, m := range t.Config.View.Members {
		if !t.holds(m.ID) {
			t.askHolder(m.ID)
		}
	}
}

// begin takes part in the term as its master.
func (t *term) begin() {
	t.dropGivenUp()
	s := t.store
	t.master.begin()
	switch {
	case s.Own.Recovered != t.partition.Term:
		t.recovery = newRecovery(t.confirmation, t.master)
	case t.speculative() && s.Own.Broken == t.partition.Term:
		// It needs a later term, which recovers from this one.
	default:
		t.master.serve()
	}
}

// onHoldReply goes on with what waited for members to hold the view.
func (t *term) onHoldReply(from view.MemberID, m *peerv1.Message) {
	switch {
	case !t.onReply(from, m), !t.ticked:
	case t.confirming:
		t.confirm()
	default:
		t.recover()
	}
}

// onSyncReply goes on with what waited for what a follower stored, or for one that may answer reads for a former term
// to hear of this one.
func (t *term) onSyncReply(from view.MemberID, m *peerv1.Message) {
	if f := t.master.follower(from); f != nil && !t.master.onSyncReply(f, m) {
		return
	}
	if t.recovery != nil {
		t.recovery.heard(from, m.Op)
	}
	t.recover()
}

// onRecoveryData is what a witness of a former term had saved.
func (t *term) onRecoveryData(from view.MemberID, w *witnessv1.Message) {
	if t.recovery != nil {
		t.recovery.onData(from, w)
	}
}

func (t *term) recover() {
	if t.recovery != nil {
		t.recovery.tick()
	}
}

// waitsFor says what the master waits for until it serves.
func (t *term) waitsFor() string {
	switch unknown := t.unknownTerm(); {
	case !t.confirming:
		return t.recovery.waitsFor()
	case unknown != 0:
		return fmt.Sprintf("it had no part in term %d, and nobody who had says that this never served", unknown)
	}
	return "its view is not known to be held by a quorum of members"
}
