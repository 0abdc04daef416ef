package curp

import (
	"errors"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// recovery is what a master does before it serves in a term (sections 3.3 and 4.6): it replays what the witnesses of
// former terms saved, and has all backups hold the result. Without former terms to recover from, the latter is all.
type recovery struct {
	formers []view.Former // not replayed yet, oldest first
	sources []*source     // the witnesses of the first one
	due     protocol.Instant
	// Of leases in former terms: they end after a time, and when all who may have one have said that they are in this
	// view: the masters that it was granted to, with their backups, or the backups that this member gave it to as the
	// master.
	granted   bool
	foreign   bool // one of them is a term that this member was no backup of, so that its master needed no lease of it
	lessees   []view.MemberID
	delegates []*follower
	asked     protocol.Instant // when the lessees were
	waited    bool
}

// source is a witness that is asked for what it saved.
type source struct {
	id       view.MemberID
	op       uint64
	requests []*witnessv1.Request
}

func (p *Protocol) startRecovery() {
	r := &recovery{formers: slices.Clone(p.partition.Formers), granted: p.store.Own.Granted}
	for _, id := range p.store.Own.Backups {
		f := p.followerOf(view.MemberID(id))
		if f == nil {
			f = &follower{id: view.MemberID(id)}
		}
		r.delegates = append(r.delegates, f)
	}
	for _, f := range r.formers {
		r.lessees = append(r.lessees, f.Master)
		if !p.mistakes.KeepDelegations {
			r.lessees = append(r.lessees, f.Backups...)
		}
	}
	// Others may have granted leases in a term that served: to its master, or for it to backups.
	for _, f := range r.formers {
		if !p.remembers(f) && !p.neverServed(f) {
			r.granted, r.foreign = true, r.foreign || !f.Has(p.config.Self)
		}
	}
	slices.Sort(r.lessees)
	r.lessees = slices.Compact(r.lessees)
	r.formers = slices.DeleteFunc(r.formers, func(f view.Former) bool { return p.remembers(f) || p.knows(f) || p.neverServed(f) })
	if p.mistakes.SkipReplay {
		r.formers = nil
	}
	if len(p.partition.Formers) > 0 {
		p.config.Took("recover.begin")
	}
	p.recovery = r
	p.endReplay()
}

// knows reports whether all that is to be recovered from a former term is here: the master of a later one, perhaps this
// member, had replayed it, and synced that to it. What witnesses of the term saved beside that has not completed, and
// must stay out of it: the later term may have told of states without it.
func (p *Protocol) knows(f view.Former) bool {
	return f.Term < p.store.Own.WholeTerm && !p.mistakes.ReplayRecovered
}

// endReplay notes that the log has all that was to be recovered, once that is so. Backups note it too before this term
// serves: one of them may have to go on from here.
func (p *Protocol) endReplay() {
	r := p.recovery
	for len(r.formers) > 0 && len(r.formers[0].Witnesses) == 0 {
		r.formers = r.formers[1:] // without witnesses, everything was synced
	}
	if len(r.formers) == 0 && p.store.Own.WholeTerm < p.partition.Term {
		p.store.NoteRecovered(p.partition.Term, p.store.Last())
	}
}

// remembers reports whether this member needs no witness to know what completed in a former term: it was the master,
// and its disk has kept all that it answered for. If it never served in that term, it answered for nothing.
func (p *Protocol) remembers(f view.Former) bool {
	return f.Master == p.config.Self && f.Term > p.store.Own.Broken
}

// tickRecovery goes on with what is not done yet.
func (p *Protocol) tickRecovery() {
	r := p.recovery
	if r == nil || p.serving || !p.ticked {
		return
	}
	switch {
	case len(r.formers) > 0 && p.neverServed(r.formers[0]):
		p.passFormer(r)
	case len(r.formers) > 0:
		if p.now >= r.due {
			r.due = p.now.Add(p.config.Retry)
			p.askWitnesses(r)
		}
	case !p.heldByAll() && !p.mistakes.ServeBeforeSynced:
		p.sync()
		p.tellWhole()
	case p.mayServe(r):
		if len(p.partition.Formers) > 0 {
			p.config.Took("recover.end")
		}
		p.serve()
	}
}

// tellWhole has the backups note that they have all that was to be recovered.
func (p *Protocol) tellWhole() {
	for _, f := range p.followers {
		if f.backup && f.known && !f.whole && !f.flying && (!f.tellingWhole || p.now >= f.due) {
			p.sendSync(f)
		}
	}
}

// heldByAll reports whether all backups of the term hold everything, and know that what was to be recovered is in it.
func (p *Protocol) heldByAll() bool {
	for _, f := range p.followers {
		if f.backup && (!f.known || f.holds() < p.store.Last() || f.lacking || !f.whole) {
			return false
		}
	}
	return true
}

// mayServe reports whether nobody answers reads under a lease of a former term any more (section 4.7). Each lasts only
// as long as what all backups of its term had granted, so it has ended when what this member promised has: as a backup
// of that term, or as its master that handed leases on. Of a term in which it was neither it counts from its start.
// They end before that when all who may have one have said that they are in this view, as in a hand-over: of terms
// before the former ones none is left, since their recovery waited for them.
func (p *Protocol) mayServe(r *recovery) bool {
	m := &p.mistakes
	over := p.now >= p.promised
	if r.foreign {
		over = over && p.now >= p.started.Add(p.config.Sync.Lease)
	}
	granted := r.granted && !m.IgnoreLeases && !over && !p.haveLeft(r)
	delegated := false
	for _, f := range r.delegates {
		delegated = delegated || !f.known
		if !f.known && p.now >= f.due && p.config.View.Index(f.id) >= 0 {
			p.sendSync(f) // also to one that has no part any more: it says that it has heard of this view
		}
	}
	delegated = delegated && !m.KeepDelegations && !over
	if (granted || delegated) && !r.waited {
		r.waited = true
		p.config.Took("recover.lease")
	}
	return !granted && !delegated
}

// haveLeft reports whether all who may have a lease of a former term are in this view, and asks them.
func (p *Protocol) haveLeft(r *recovery) bool {
	left := len(r.lessees) > 0
	for _, id := range r.lessees {
		if id == p.config.Self || slices.Contains(p.holders, id) {
			continue
		}
		left = false
		if p.now >= r.asked && p.config.View.Index(id) >= 0 {
			p.send(id, p.message(peerv1.Kind_HOLD, p.Op(), &peerv1.Curp{}))
		}
	}
	if p.now >= r.asked {
		r.asked = p.now.Add(p.config.Retry)
	}
	return left
}

// askWitnesses asks all witnesses of the oldest former term that is left. Each that hears it accepts nothing any more
// in that life. One that answers in full is enough: what completed was at all of them.
func (p *Protocol) askWitnesses(r *recovery) {
	if r.sources == nil {
		for _, id := range r.formers[0].Witnesses {
			r.sources = append(r.sources, &source{id: id})
		}
	}
	for _, s := range r.sources {
		p.askSource(r, s)
	}
}

func (p *Protocol) askSource(r *recovery, s *source) {
	s.op = p.Op()
	term := r.formers[0].Term
	if p.mistakes.AnyWitnessLife {
		term = p.partition.Term
	}
	entry, _ := p.config.View.Witness(s.id)
	p.ask(s.id, &witnessv1.Message{
		Kind: witnessv1.Kind_RECOVERY_DATA, Disk: entry.Disk, Op: s.op, Term: term, Offset: uint64(len(s.requests)),
	})
}

// onRecoveryData collects the pages of a witness, and replays them when they are complete. All requests of one witness
// commute; those of two witnesses need not.
func (p *Protocol) onRecoveryData(from view.MemberID, w *witnessv1.Message) {
	r := p.recovery
	if r == nil || len(r.formers) == 0 {
		return
	}
	i := slices.IndexFunc(r.sources, func(s *source) bool { return s.id == from && s.op == w.Op })
	if i < 0 || !p.mistakes.AnyWitnessLife && (!w.Accepted || w.Term != r.formers[0].Term) {
		return
	}
	s := r.sources[i]
	for _, saved := range w.Requests {
		r := &peerv1.Request{}
		err := r.UnmarshalVT(saved.Request)
		if err == nil && r.Command == nil {
			err = errors.New("it has no id")
		}
		if err != nil {
			p.Refuse(from, fmt.Errorf("a request that the witness saved is damaged: %w", err))
			return // another witness has what this one had, or this one is asked again
		}
	}
	s.requests = append(s.requests, w.Requests...)
	if !w.Last && len(w.Requests) > 0 {
		p.askSource(r, s)
		return
	}
	p.replay(s.requests)
	p.passFormer(r)
}

// passFormer goes on behind the oldest former term that was left: nothing is to be replayed from it any more.
func (p *Protocol) passFormer(r *recovery) {
	r.formers, r.sources, r.due = r.formers[1:], nil, 0
	p.endReplay()
	p.tickRecovery()
}

// replay executes what a witness saved, but for what was executed before: RIFL knows that (sections 3.3 and 4.8).
func (p *Protocol) replay(requests []*witnessv1.Request) {
	for _, saved := range requests {
		r := &peerv1.Request{}
		if err := r.UnmarshalVT(saved.Request); err != nil || r.Command == nil {
			p.Fault("a request that a witness saved is damaged: %w", err)
			continue
		}
		if p.execute(r, true) == nil {
			p.config.Took("recover.known")
		} else {
			p.config.Took("recover.replayed")
		}
	}
}
