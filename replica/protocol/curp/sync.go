package curp

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

const (
	syncBytes = 1 << 20  // of entries in one message
	tailBytes = 64 << 20 // of entries that are kept for learners alone
)

// follower is a backup or a learner, as its master knows it.
type follower struct {
	id           view.MemberID
	backup       bool
	known        bool   // it has said where it is
	held         uint64 // it holds the log up to here
	lacking      bool   // but not the state that the log begins with
	whole        bool   // it has noted that what was to be recovered is in it
	tellingWhole bool   // and was told so
	nonce        uint64
	next         uint64 // what was sent
	flying       bool   // a message with entries is not answered
	batch        uint64 // that message
	op           uint64 // the last message that was sent
	heard        uint64 // the last one that was answered
	due          protocol.Instant
	told         uint64           // the commit that it knows of
	telling      uint64           // and the one that it was sent
	lease        protocol.Instant // until then it serves as no later master
	asked        protocol.Instant
	wanted       int64  // its clock when it asked for a lease to answer reads
	wantedBy     uint64 // the process that asked
	wantedAt     protocol.Instant
	delegated    protocol.Instant // until then it may answer reads
}

// holds is how far a follower could take the master's place.
func (f *follower) holds() uint64 {
	if !f.known || f.lacking {
		return 0
	}
	return f.held
}

func (p *Protocol) followerOf(id view.MemberID) *follower {
	for _, f := range p.followers {
		if f.id == id {
			return f
		}
	}
	return nil
}

// sync replicates all entries to the backups. One sync is in flight at a time, so that the next one takes all that has
// come meanwhile (section 4.4).
func (p *Protocol) sync() {
	switch {
	case p.target > p.store.Commit:
		p.more = true
		return
	case p.store.Last() == p.store.Commit:
		return
	}
	p.config.Took("sync")
	p.target, p.more, p.since = p.store.Last(), false, 0
	if len(p.partition.Backups) == 0 {
		p.mark = p.Journal.Mark()
	}
	for _, f := range p.followers {
		if !f.flying {
			p.sendSync(f)
		}
	}
	p.advance()
}

// sendSync sends a follower what it does not have, once it is on this disk, and what there is to say anyway.
func (p *Protocol) sendSync(f *follower) {
	c := &peerv1.Curp{Last: p.store.Last(), Commit: p.settled(), History: p.store.History, Start: p.store.Floor, Asked: int64(p.now)}
	if f.known && f.next >= p.store.Floor && f.next < p.store.Last() {
		bytes := 0
		for _, e := range p.store.Behind(f.next) {
			if bytes += e.SizeVT(); bytes > syncBytes && len(c.Entries) > 0 {
				break
			}
			c.Entries = append(c.Entries, e)
			f.next = e.Index
		}
	}
	c.WholeTerm, c.WholeIndex = p.store.Own.WholeTerm, p.store.Own.WholeIndex
	f.tellingWhole = c.WholeTerm >= p.partition.Term
	if f.backup && f.wanted != 0 && p.serving && p.now < p.leased() && len(p.partition.Backups) > 0 {
		c.Wanted, c.Nonce, c.Delegated, c.Behind = f.wanted, f.wantedBy, int64(p.leased().Sub(p.now)), int64(p.behind())
		f.wanted, f.delegated = 0, p.leased()
		p.promised = max(p.promised, p.leased())
	}
	m := p.message(peerv1.Kind_SYNC, p.Op(), c)
	f.op, f.telling = m.Op, p.settled()
	if len(c.Entries) > 0 {
		f.flying, f.batch = true, m.Op
	}
	f.asked, f.due = p.now, p.now.Add(p.config.Retry)
	p.sendDurably(f.id, m)
}

// onSyncReply notes what a follower holds, and for how long it makes no other master.
func (p *Protocol) onSyncReply(from view.MemberID, m *peerv1.Message) {
	f := p.followerOf(from)
	if f == nil && p.recovery != nil {
		for _, d := range p.recovery.delegates {
			if d.id == from && m.Op == d.op {
				d.known = true
			}
		}
		p.tickRecovery()
		return
	}
	if f == nil || m.Op <= f.heard || m.Op > f.op || m.Op>>32 != f.op>>32 {
		return
	}
	c := m.Curp
	news := !f.known || f.nonce != c.Nonce
	f.heard, f.known, f.nonce, f.lacking, f.whole = m.Op, true, c.Nonce, c.Lacking, c.WholeTerm == p.partition.Term
	if news || c.Lacking {
		f.held = c.Last
	} else {
		f.held = max(f.held, c.Last)
	}
	f.lease = max(f.lease, min(protocol.Instant(c.Asked), p.now).Add(p.worth(c.Granted)))
	p.wants(from, c)
	f.told = max(f.told, c.Commit)
	if m.Op >= f.batch || news {
		f.flying, f.next = false, f.held
	}
	p.advance()
	p.answerQuestions()
	if !f.flying && f.held < p.store.Last() && f.held >= p.store.Floor && (p.target > f.held || !f.backup || !p.serving) {
		p.sendSync(f)
	}
	p.tickRecovery()
}

// shorter is what a lease of that duration is worth to whoever holds it: two clocks may differ by twice the bound.
func shorter(d time.Duration) time.Duration {
	return d - d*2*protocol.DriftBound/1_000_000
}

// worth is what a lease is worth here that is said to last for so many nanoseconds: none lasts longer than leases do.
func (p *Protocol) worth(nanoseconds int64) time.Duration {
	return shorter(min(time.Duration(nanoseconds), p.config.Sync.Lease))
}

// leased is until when all backups have promised not to serve as later masters.
func (p *Protocol) leased() protocol.Instant {
	until := protocol.Instant(1<<63 - 1)
	for _, f := range p.followers {
		if f.backup {
			until = min(until, f.lease)
		}
	}
	return until
}

// wants notes that a backup asks for a lease to answer reads, by the clock of the process that asks.
func (p *Protocol) wants(from view.MemberID, c *peerv1.Curp) {
	f := p.followerOf(from)
	if f == nil || !f.backup || c.Wanted == 0 || c.Wanted <= f.wanted && c.Nonce == f.wantedBy {
		return
	}
	f.wanted, f.wantedBy, f.wantedAt = c.Wanted, c.Nonce, p.now
	if p.serving && p.now >= f.delegated && p.now < p.leased() && !f.flying {
		p.sendSync(f)
	}
}

// advance finds what is synced: what all backups hold (section 3.2.3), and no quorum of them, since recovery asks one.
func (p *Protocol) advance() {
	synced := p.store.Last()
	if len(p.partition.Backups) == 0 {
		if p.target <= p.store.Commit || !p.Journal.Survives(p.mark) {
			return
		}
		synced = p.target
	}
	var held []uint64
	for _, f := range p.followers {
		if f.backup || p.mistakes.CountLearner && f.known {
			held = append(held, f.holds())
			synced = min(synced, f.holds())
		}
	}
	if p.mistakes.QuorumOfBackups && len(held) > 1 {
		slices.Sort(held)
		synced = min(held[len(held)/2], p.store.Last())
	}
	if synced <= p.store.Commit {
		return
	}
	before := p.store.Commit
	p.store.Commit = synced
	p.synced(before)
	p.settle()
	if p.more && p.store.Commit >= p.target {
		p.more = false
		p.sync()
	}
}

// synced lets go what waited for the entries behind before, and has the witnesses drop their requests.
func (p *Protocol) synced(before uint64) {
	p.executed = p.executed[p.store.Commit-before:]
	for _, e := range p.store.Behind(before) {
		if e.Index > p.store.Commit {
			break
		}
		if e.Session == 0 {
			continue
		}
		id, key := requestID{e.Session, e.Number}, string(e.Key)
		if u := p.master.unsynced[id]; u != nil && u.index <= e.Index {
			delete(p.master.unsynced, id)
		}
		if p.touched[key] <= e.Index {
			delete(p.touched, key)
		}
		if e.Term == p.partition.Term {
			p.drop(e.Key, id)
		}
	}
	n := 0
	for _, w := range p.waiters { // those of a conflict come in the order of the log, others may not
		if w.index <= p.store.Commit {
			delete(p.asked, questionID{w.to, w.m.Op})
			p.tell(w.to, w.m)
			continue
		}
		p.waiters[n] = w
		n++
	}
	clear(p.waiters[n:])
	p.waiters = p.waiters[:n]
	p.flushGC()
}

// settle makes what is synced part of the state, and has followers do so, once the term serves. Before that it may
// not be in the log of a later master, who goes on from a term before this one.
func (p *Protocol) settle() {
	if p.store.Own.Commit = max(p.store.Own.Commit, p.settled()); p.store.Own.Applied < p.settled() {
		p.applyUpTo(p.settled())
	}
}

// settled is up to where no later master lacks the log.
func (p *Protocol) settled() uint64 {
	if p.serving || p.mistakes.SettleUnserved {
		return p.store.Commit
	}
	return p.base
}

// tickSync repeats what is not answered, syncs what has waited for long, tells of commits and keeps leases.
func (p *Protocol) tickSync() {
	p.advance() // without backups, the disk tells nobody that it is done
	if p.since != 0 && p.now >= p.since.Add(p.config.Sync.Delay) || len(p.waiters) > 0 || !p.serving {
		p.sync()
	}
	reading := p.readAt != 0 && p.now < p.readAt.Add(4*p.config.Sync.Lease)
	for _, f := range p.followers {
		wants := f.wanted != 0 && p.now < f.wantedAt.Add(p.config.Sync.Lease)
		switch {
		case f.flying && p.now < f.due:
		case f.flying:
			f.flying, f.next = false, f.held
			p.sendSync(f)
		case f.op == 0, f.telling < p.settled(), f.backup && (reading || wants) && p.now >= f.asked.Add(p.config.Sync.Lease/4),
			p.now >= f.due && (!f.known || f.told < p.settled() || f.held < p.store.Last() && (!f.backup || !p.serving)),
			p.now >= f.asked.Add(4*p.config.Retry):
			p.sendSync(f)
		}
	}
}

// needed is up to where no follower needs the log.
func (p *Protocol) needed() uint64 {
	index := p.store.Commit
	for _, f := range p.followers {
		if f.backup || p.store.Last()-p.store.Floor < uint64(p.config.Sync.Kept) && p.store.Bytes < tailBytes {
			index = min(index, f.held)
		}
	}
	return index
}
