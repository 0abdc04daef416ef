package curp

import (
	"fmt"
	"slices"

	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// recovery is what a master does before it serves in a term (sections 3.3 and 4.6): it replays what the witnesses of
// former terms saved, and has all backups hold the result. Without former terms to recover from, the latter is all.
type recovery struct {
	*confirmation
	master  *master
	terms   []view.Former // former terms that are not replayed yet, oldest first
	sources []*source     // the witnesses of the first one
	askAt   protocol.Instant
	leases  formerLeases
}

// source is a witness that is asked for what it saved.
type source struct {
	id       view.MemberID
	op       uint64 // number of the question for the next page; 0: it was not asked for yet
	requests []*witnessv1.Request
}

// formerLeases are those of former terms. They end after a time, and before that when all members that may have one
// have said that they are in this view: the masters that they were granted to, with their backups, and the backups that
// this member delegated them to as the master.
type formerLeases struct {
	granted   bool // members may have granted some
	foreign   bool // one in a term that this member was no backup of, so that its master needed no lease of it
	lessees   []view.MemberID
	askAt     protocol.Instant // when the lessees are asked again
	delegates []*follower
	waited    bool
}

func newRecovery(c *confirmation, m *master) *recovery {
	r := &recovery{confirmation: c, master: m}
	own := r.store.Own
	r.leases.granted = own.Granted
	for _, id := range own.Backups {
		f := m.follower(view.MemberID(id))
		if f == nil {
			f = &follower{id: view.MemberID(id)}
		}
		r.leases.delegates = append(r.leases.delegates, f)
	}
	for _, f := range r.partition.Formers {
		r.leases.lessees = append(r.leases.lessees, f.Master)
		r.leases.lessees = append(r.leases.lessees, f.Backups...)
		if r.answeredHere(f) || r.neverServed(f) {
			continue
		}
		// Others may have granted leases in a term that served: to its master, or for it to backups.
		r.leases.granted, r.leases.foreign = true, r.leases.foreign || !f.Has(r.Config.Self)
		if !r.recovered(f) {
			r.terms = append(r.terms, f)
		}
	}
	slices.Sort(r.leases.lessees)
	r.leases.lessees = slices.Compact(r.leases.lessees)
	if len(r.partition.Formers) > 0 {
		r.Took(pathRecoverBegin)
	}
	r.endReplay()
	return r
}

// endReplay notes that the log has all that was to be recovered, once that is so. Backups note it too before this term
// serves: one of them may have to go on from here.
func (r *recovery) endReplay() {
	for len(r.terms) > 0 && len(r.terms[0].Witnesses) == 0 {
		r.terms = r.terms[1:] // without witnesses, everything was synced
	}
	if len(r.terms) == 0 && r.store.Own.WholeTerm < r.partition.Term {
		r.store.NoteRecovered(r.partition.Term, r.store.Last())
	}
}

// tick goes on with what is not done yet.
func (r *recovery) tick() {
	switch {
	case r.master.serving || !r.ticked:
	case len(r.terms) > 0 && r.neverServed(r.terms[0]):
		r.passTerm()
	case len(r.terms) > 0:
		if r.Now >= r.askAt {
			r.askAt = r.Now.Add(r.Config.Retry)
			r.askWitnesses()
		}
	case !r.backupsHoldAll():
		r.master.sync()
		r.tellRecovered()
	case r.mayServe():
		if len(r.partition.Formers) > 0 {
			r.Took(pathRecoverEnd)
		}
		r.master.serve()
	}
}

// passTerm goes on behind the oldest former term that was left: nothing is to be replayed from it any more.
func (r *recovery) passTerm() {
	r.terms, r.sources, r.askAt = r.terms[1:], nil, 0
	r.endReplay()
	r.tick()
}

// askWitnesses asks all witnesses of the oldest former term that is left. Each that hears it accepts nothing any more
// in that term. One that answers in full is enough: what completed was at all of them.
func (r *recovery) askWitnesses() {
	if r.sources == nil {
		for _, id := range r.terms[0].Witnesses {
			r.sources = append(r.sources, &source{id: id})
		}
	}
	for _, s := range r.sources {
		r.askSource(s)
	}
}

// askSource asks for the next page. Asked for again, it is the same question: a witness whose disk takes longer than
// Retry answers it once that was sent.
func (r *recovery) askSource(s *source) {
	if s.op == 0 {
		s.op = r.Op()
	}
	entry, _ := r.Config.View.Witness(s.id)
	r.ask(s.id, &witnessv1.Message{
		Kind: witnessv1.Kind_RECOVERY_DATA, Disk: entry.Disk, Op: s.op, Term: r.terms[0].Term,
		Offset: uint64(len(s.requests)),
	})
}

// onData collects the pages of a witness, and replays them when they are complete. Requests of one witness commute, or
// are of one key and in the order in which the master executed them; those of two witnesses need not.
func (r *recovery) onData(from view.MemberID, w *witnessv1.Message) {
	i := slices.IndexFunc(r.sources, func(s *source) bool { return s.id == from && s.op == w.Op })
	if i < 0 || !w.Accepted || w.Term != r.terms[0].Term {
		return
	}
	s := r.sources[i]
	for _, saved := range w.Requests {
		if _, err := decodeSaved(saved); err != nil {
			r.Refuse(from, fmt.Errorf("a request that the witness saved is damaged: %w", err))
			return // another witness has what this one had, or this one is asked again
		}
	}
	s.op, s.requests = 0, append(s.requests, w.Requests...)
	if !w.Last && len(w.Requests) > 0 {
		r.askSource(s)
		return
	}
	r.replay(s.requests)
	r.passTerm()
}

// replay executes what a witness saved, but for what was executed before: RIFL knows that (sections 3.3 and 4.8).
func (r *recovery) replay(requests []*witnessv1.Request) {
	for _, saved := range requests {
		request, err := decodeSaved(saved)
		if err != nil {
			r.Fault("a request that a witness saved is damaged: %w", err)
			continue
		}
		if r.master.execute(request, requestID{}, true) == nil {
			r.Took(pathRecoverKnown)
		} else {
			r.Took(pathRecoverReplayed)
		}
	}
}

// backupsHoldAll reports whether all backups of the term hold everything, and know that what was to be recovered is in
// it.
func (r *recovery) backupsHoldAll() bool {
	return !slices.ContainsFunc(r.master.followers, func(f *follower) bool {
		return f.backup && (!f.answered || f.partial || f.last < r.store.Last() || !f.recovered)
	})
}

// tellRecovered has the backups note that they have all that was to be recovered.
func (r *recovery) tellRecovered() {
	for _, f := range r.master.followers {
		if f.backup && f.answered && !f.recovered && !f.inFlight && (!f.sentRecovered || r.Now >= f.retryAt) {
			r.master.sendTo(f)
		}
	}
}

// mayServe reports whether no member answers reads under a lease of a former term any more (section 4.7). Each lasts
// only as long as what all backups of its term had granted, so it has ended when what this member promised has: as a
// backup of that term, or as its master that handed leases on. Of a term in which it was neither it counts from its
// start. They end before that when all members that may have one have said that they are in this view, as in a
// hand-over: of terms before the former ones none is left, since their recovery waited for them.
func (r *recovery) mayServe() bool {
	l := &r.leases
	over := r.Now >= r.promised && (!l.foreign || r.Now >= r.started.Add(r.Config.Sync.Lease))
	granted := l.granted && !over && !r.lesseesLeft()
	delegated := false
	for _, f := range l.delegates {
		delegated = delegated || !f.answered
		if !f.answered && r.Now >= f.retryAt && r.Config.View.Index(f.id) >= 0 {
			r.master.sendTo(f) // also to one that has no part any more: it says that it has heard of this view
		}
	}
	waits := granted || delegated && !over
	if waits && !l.waited {
		l.waited = true
		r.Took(pathRecoverLease)
	}
	return !waits
}

// heard notes that a member that may have a lease for a former term has heard of this one.
func (r *recovery) heard(from view.MemberID, op uint64) {
	for _, f := range r.leases.delegates {
		if f.id == from && f.op == op {
			f.answered = true
		}
	}
}

// lesseesLeft reports whether all members that may have a lease of a former term are in this view, and asks them.
func (r *recovery) lesseesLeft() bool {
	l := &r.leases
	left := len(l.lessees) > 0
	for _, id := range l.lessees {
		if r.holds(id) {
			continue
		}
		left = false
		if r.Now >= l.askAt && r.Config.View.Index(id) >= 0 {
			r.askHolder(id)
		}
	}
	if r.Now >= l.askAt {
		l.askAt = r.Now.Add(r.Config.Retry)
	}
	return left
}

// waitsFor says what the recovery waits for.
func (r *recovery) waitsFor() string {
	switch {
	case len(r.terms) > 0:
		return "no witness of a former term has told what it saved"
	case !r.backupsHoldAll():
		return "not all backups hold what it recovered"
	}
	return "leases of a former term have not ended"
}
