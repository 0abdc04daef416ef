package curp

import (
	"cmp"
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
	id     view.MemberID
	backup bool

	// What it has said, in its last answer that counts.
	answered  bool   // it has answered at all
	process   uint64 // the nonce of the process that answered
	last      uint64 // index of the last entry of its log that agrees with the master's
	partial   bool   // it lacks the state that its log begins with
	recovered bool   // it has noted that all that the term was to recover is in its log
	commit    uint64 // the commit index that it knows

	// What it was sent.
	op            uint64           // number of the last message
	answeredOp    uint64           // number of the last message that was answered
	entriesOp     uint64           // number of the last message with entries
	inFlight      bool             // that one is not answered
	sent          uint64           // index of the last entry that was sent
	sentCommit    uint64           // the commit index that was sent
	sentRecovered bool             // it was told that all that the term was to recover is in the log
	sentAt        protocol.Instant // when the last message was
	retryAt       protocol.Instant // when it is repeated

	leaseUntil protocol.Instant // until then it serves as no later master
	readLease  readLease
}

// readLease is a backup's leave to answer reads, for as long as its master has a lease.
type readLease struct {
	wanted  int64            // the backup's clock when it asked; 0: it has not since it last got one
	process uint64           // the nonce of the process that asked, whose clock it is
	askedAt protocol.Instant // by the master's clock
	until   protocol.Instant // the end of the last one that was given
}

// replicated is how far a follower could take the master's place.
func (f *follower) replicated() uint64 {
	if !f.answered || f.partial {
		return 0
	}
	return f.last
}

// replication is what the master of a term has its followers store, and what they promise for it: the syncs of section
// 3.2.3, and the leases of section 4.7. One sync is under way at a time, so that the next one takes all that has come
// meanwhile (section 4.4).
type replication struct {
	*member
	followers  []*follower
	serving    bool               // the term serves its clients
	base       uint64             // the commit index when the term began
	executedAt []protocol.Instant // when the entries behind the commit index were, one for each

	target   uint64           // a sync is under way up to this entry
	more     bool             // another one is wanted behind it
	mark     uint64           // without backups: of the journal, when the sync began
	unsynced protocol.Instant // when the oldest entry came that no sync has taken; 0: there is none
	lastRead protocol.Instant // for which leases are kept; 0: there was none
}

// begin finds the followers of the view. When what the log has was executed, a restart has forgotten.
func (r *replication) begin() {
	if left := r.store.Last() - r.store.Commit; left > 0 {
		r.executedAt = slices.Repeat([]protocol.Instant{longAgo}, int(left))
	}
	for _, id := range r.partition.Backups {
		r.followers = append(r.followers, &follower{id: id, backup: true})
	}
	for _, m := range r.Config.View.Members {
		if r.follower(m.ID) == nil && m.ID != r.Config.Self {
			r.followers = append(r.followers, &follower{id: m.ID})
		}
	}
}

// longAgo is before anything that a member remembers.
const longAgo = protocol.Instant(-1 << 62)

func (r *replication) follower(id view.MemberID) *follower {
	i := slices.IndexFunc(r.followers, func(f *follower) bool { return f.id == id })
	if i < 0 {
		return nil
	}
	return r.followers[i]
}

// startSync begins a sync of all entries, unless one is under way. It reports whether it did.
func (r *replication) startSync() bool {
	switch {
	case r.target > r.store.Commit:
		r.more = true
		return false
	case r.store.Last() == r.store.Commit:
		return false
	}
	r.Took(pathSync)
	r.target, r.unsynced = r.store.Last(), 0
	if len(r.partition.Backups) == 0 {
		r.mark = r.Journal.Mark()
	}
	for _, f := range r.followers {
		if !f.inFlight {
			r.sendTo(f)
		}
	}
	return true
}

// sendTo sends a follower what it does not have, once it is on this disk, and what there is to say anyway.
func (r *replication) sendTo(f *follower) {
	s := r.store
	c := &peerv1.Curp{
		Last: s.Last(), Commit: r.settled(), History: s.History, Start: s.Floor, Asked: int64(r.Now),
		WholeTerm: s.Own.WholeTerm, WholeIndex: s.Own.WholeIndex,
	}
	if f.answered && f.sent >= s.Floor {
		bytes := 0
		for _, e := range s.Behind(f.sent) {
			if bytes += e.SizeVT(); bytes > cmp.Or(r.Config.Tuning.PageBytes, syncBytes) && len(c.Entries) > 0 {
				break
			}
			c.Entries = append(c.Entries, e)
			f.sent = e.Index
		}
	}
	if l := &f.readLease; f.backup && l.wanted != 0 && r.serving && r.Now < r.leased() {
		c.Wanted, c.Nonce, c.Delegated, c.Behind = l.wanted, l.process, int64(r.leased().Sub(r.Now)), int64(r.behind())
		l.wanted, l.until = 0, r.leased()
		r.promised = max(r.promised, r.leased())
	}
	m := r.message(peerv1.Kind_SYNC, r.Op(), c)
	f.op, f.sentCommit, f.sentRecovered = m.Op, c.Commit, c.WholeTerm >= r.partition.Term
	if len(c.Entries) > 0 {
		f.inFlight, f.entriesOp = true, m.Op
	}
	f.sentAt, f.retryAt = r.Now, r.Now.Add(r.Config.Retry)
	r.sendWhen(false, f.id, m)
}

// syncLater has an entry that was appended be synced in Config.Sync.Delay, if nothing is before.
func (r *replication) syncLater() {
	if r.unsynced == 0 {
		r.unsynced = max(r.Now, 1)
	}
}

// onReply notes what a follower holds, and for how long it makes no other master. It reports whether the answer counts.
func (r *replication) onReply(f *follower, m *peerv1.Message) bool {
	if m.Op <= f.answeredOp || m.Op > f.op || m.Op>>32 != f.op>>32 {
		return false
	}
	c := m.Curp
	news := !f.answered || f.process != c.Nonce
	if news || f.partial || c.Lacking { // a late question for a copy may have told more of it than it has
		f.last = c.Last
	} else {
		f.last = max(f.last, c.Last)
	}
	f.answeredOp, f.answered, f.process, f.partial = m.Op, true, c.Nonce, c.Lacking
	f.recovered = c.WholeTerm == r.partition.Term
	f.leaseUntil = max(f.leaseUntil, min(protocol.Instant(c.Asked), r.Now).Add(r.worth(c.Granted)))
	r.wantsLease(f, c)
	f.commit = max(f.commit, c.Commit)
	if m.Op >= f.entriesOp || news || f.last >= f.sent { // in the last case it was sent twice, or comes late
		f.inFlight, f.sent = false, f.last
	}
	return true
}

// sendMore sends a follower the next entries, if it may be waited for.
func (r *replication) sendMore(f *follower) {
	waitedFor := r.target > f.last || !f.backup || !r.serving
	if waitedFor && !f.inFlight && f.last < r.store.Last() && f.last >= r.store.Floor {
		r.sendTo(f)
	}
}

// leased is until when all backups have promised not to serve as later masters.
func (r *replication) leased() protocol.Instant {
	until := protocol.Instant(1<<63 - 1)
	for _, f := range r.followers {
		if f.backup {
			until = min(until, f.leaseUntil)
		}
	}
	return until
}

// wantsLease notes that a backup asks for a lease to answer reads, by the clock of the process that asks.
func (r *replication) wantsLease(f *follower, c *peerv1.Curp) {
	if f == nil || !f.backup || c.Wanted == 0 || c.Wanted <= f.readLease.wanted && c.Nonce == f.readLease.process {
		return
	}
	l := &f.readLease
	l.wanted, l.process, l.askedAt = c.Wanted, c.Nonce, r.Now
	if r.serving && r.Now >= l.until && r.Now < r.leased() && !f.inFlight {
		r.sendTo(f)
	}
}

// advance moves the commit index on to what is synced, and reports whether it did: what all backups hold (section
// 3.2.3), and no quorum of them, since recovery asks one.
func (r *replication) advance() bool {
	synced := r.store.Last()
	if len(r.partition.Backups) == 0 {
		if r.target <= r.store.Commit || !r.Journal.Survives(r.mark) {
			return false
		}
		synced = r.target
	}
	for _, f := range r.followers {
		if f.backup {
			synced = min(synced, f.replicated())
		}
	}
	if synced <= r.store.Commit {
		return false
	}
	r.executedAt = r.executedAt[synced-r.store.Commit:]
	r.store.Commit = synced
	return true
}

// settled is up to where no later master lacks the log: what is synced, once the term serves. Before that it may not be
// in the log of a later master, who goes on from a term before this one.
func (r *replication) settled() uint64 {
	if r.serving {
		return r.store.Commit
	}
	return r.base
}

// settle notes what is settled, and makes it part of the state in time.
func (r *replication) settle() {
	if r.store.Own.Commit < r.settled() {
		r.store.Own.Commit = r.settled()
		r.store.Note()
	}
	if r.store.Due(r.settled()) {
		r.store.ApplyUpTo(r.settled())
	}
}

// behind is for how long this master has had the oldest entry that not all backups hold; 0: there is none.
func (r *replication) behind() time.Duration {
	if len(r.executedAt) == 0 {
		return 0
	}
	return r.Now.Sub(r.executedAt[0])
}

// waitedLong reports whether an entry has waited for its sync for as long as may be.
func (r *replication) waitedLong() bool {
	return r.unsynced != 0 && r.Now >= r.unsynced.Add(r.Config.Sync.Delay)
}

// tick repeats what is not answered, tells of commits and keeps leases.
func (r *replication) tick() {
	lease := r.Config.Sync.Lease
	reading := r.lastRead != 0 && r.Now < r.lastRead.Add(4*lease)
	for _, f := range r.followers {
		wants := f.readLease.wanted != 0 && r.Now < f.readLease.askedAt.Add(lease)
		switch {
		case f.inFlight && r.Now < f.retryAt:
		case f.inFlight:
			f.inFlight, f.sent = false, f.last
			r.sendTo(f)
		case f.op == 0, f.sentCommit < r.settled(),
			f.backup && (reading || wants) && r.Now >= f.sentAt.Add(lease/4),
			r.Now >= f.retryAt && (!f.answered || f.commit < r.settled()),
			r.Now >= f.retryAt && f.last < r.store.Last() && (!f.backup || !r.serving),
			r.Now >= f.sentAt.Add(4*r.Config.Retry):
			r.sendTo(f)
		}
	}
}

// needed is up to where no follower needs the log.
func (r *replication) needed() uint64 {
	index := r.store.Commit
	kept := r.store.Last()-r.store.Floor < uint64(r.Config.Sync.Kept) && r.store.Bytes < tailBytes
	for _, f := range r.followers {
		if f.backup || kept {
			index = min(index, f.last)
		}
	}
	return index
}

// pageBytes bounds a page of a copy.
const pageBytes = 64 << 10

// onCopy answers a follower with a page of this state, when it is durable: what is copied is not forgotten by the
// master alone.
func (r *replication) onCopy(from view.MemberID, m *peerv1.Message) {
	f := r.follower(from)
	if f == nil || !r.active() {
		return
	}
	s, c := r.store, m.Curp
	reply := &peerv1.Curp{Start: c.Start, After: c.After}
	if len(c.After) == 0 {
		reply.Start = s.Own.Applied
		f.answered, f.last, f.sent, f.partial, f.process = true, reply.Start, reply.Start, true, c.Nonce
	}
	if reply.Start < s.Floor {
		reply.Refused, reply.Done = true, true // begin again: the log behind the first page is not kept any more
	} else {
		reply.Records, reply.Done = s.Page(c.After, cmp.Or(r.Config.Tuning.PageBytes, pageBytes))
		reply.Last, reply.History = s.Own.Applied, s.HistoryUpTo(reply.Start)
		reply.WholeTerm, reply.WholeIndex = s.Own.WholeTerm, s.Own.WholeIndex
	}
	r.sendWhen(false, from, r.message(peerv1.Kind_COPY_PAGE, m.Op, reply))
}
