package curp

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/view"
)

// unsyncedBound is how many entries may be unsynced: with a backup away, nothing is synced until it is replaced.
const unsyncedBound = 1 << 14

// hotWithin is how few entries apart two updates of a key make it a hot one (section 4.4).
const hotWithin = 200

// onUpdate executes a request and answers before the backups have it, unless it depends on another one that they do not
// have either (section 3.2.3).
func (m *master) onUpdate(from view.MemberID, msg *peerv1.Message) {
	r := msg.Curp.Request
	if !m.serves() || r.GetCommand() == nil || m.store.Last()-m.store.Commit >= unsyncedBound {
		m.refuse(from, peerv1.Kind_UPDATE_REPLY, msg.Op)
		return
	}
	reply := m.message(peerv1.Kind_UPDATE_REPLY, msg.Op, &peerv1.Curp{})
	x := m.execute(r, requestID{msg.Curp.FollowsSession, msg.Curp.FollowsNumber}, false)
	if x == nil {
		m.answerDuplicate(from, msg, reply)
		return
	}
	if x.blocked {
		m.Took(pathUpdateConflict)
	}
	m.answerUnsynced(from, msg, x, reply)
	m.considerSync(string(r.Key), x.index)
}

// answerDuplicate answers what was executed before. As long as that is not synced, this answer says so too.
func (m *master) answerDuplicate(from view.MemberID, msg, reply *peerv1.Message) {
	m.Took(pathUpdateDuplicate)
	r := msg.Curp.Request
	reply.Curp.Answer = m.executor.Recall(r.Command)
	x := m.executed[idOf(r.Command)]
	if x == nil || x.index <= m.store.Commit {
		m.witnesses.drop(r.Key, idOf(r.Command)) // its record may have come after the others were dropped
		reply.Curp.Synced = true
		m.answerSynced(from, reply)
		return
	}
	m.answerUnsynced(from, msg, x, reply)
}

// answerUnsynced answers what was not synced when the question came.
func (m *master) answerUnsynced(from view.MemberID, msg *peerv1.Message, x *execution, reply *peerv1.Message) {
	if x.answer != nil {
		reply.Curp.Answer = x.answer
	}
	if msg.Curp.Sync || x.blocked {
		m.answerOnceSynced(x.index, from, reply)
	} else {
		m.answerExecuted(from, reply)
	}
}

// considerSync syncs when many operations are unsynced, or when the key is a hot one: the next update of it would have
// to wait (section 4.4).
func (m *master) considerSync(key string, index uint64) {
	last, known := m.recent[key]
	if len(m.recent) >= 4096 {
		clear(m.recent)
	}
	m.recent[key] = index
	switch {
	case known && index-last <= hotWithin:
		m.Took(pathSyncHot)
		m.sync()
	case index-m.store.Commit >= uint64(m.Config.Sync.After):
		m.Took(pathSyncMany)
		m.sync()
	default:
		m.syncLater()
	}
}

// onDropped executes what a witness suspects to be garbage: its client may have gone before the master heard of it, or
// its record came after the others were dropped. Executed once and synced, it can be dropped (section 4.5).
func (m *master) onDropped(from view.MemberID, w *witnessv1.Message) {
	suspects, counts := m.witnesses.onReply(from, w)
	if !counts || !m.serving {
		return // in the latter case they will be suspected again
	}
	executed := false
	for _, r := range suspects {
		m.Took(pathGarbage)
		if m.execute(r, requestID{}, true) != nil {
			executed = true
		} else if id := idOf(r.Command); m.executed[id] == nil {
			m.witnesses.drop(r.Key, id)
		}
	}
	if executed {
		m.sync()
	}
	m.witnesses.flush()
}

// onSyncReply goes on with what waited for what a follower stored or promised, and reports whether the answer counts.
func (m *master) onSyncReply(f *follower, msg *peerv1.Message) bool {
	if !m.onReply(f, msg) {
		return false
	}
	m.advance()
	m.answerWaitingReads()
	m.sendMore(f)
	return true
}

// onRead answers a read at the master, which needs a lease: a later master could have served meanwhile.
func (m *master) onRead(from view.MemberID, msg *peerv1.Message) {
	if !m.serves() {
		m.refuse(from, peerv1.Kind_MASTER_READ_REPLY, msg.Op)
		return
	}
	m.lastRead = m.Now
	m.wantsLease(m.follower(from), msg.Curp)
	if m.Now < m.leased() {
		m.answerRead(from, msg)
		return
	}
	m.Took(pathReadLease)
	if slices.ContainsFunc(m.reads, func(r waitingRead) bool { return r.from == from && r.m.Op == msg.Op }) {
		return
	}
	m.reads = append(m.reads, waitingRead{from, msg, m.Now})
	for _, f := range m.followers {
		if f.backup && !f.inFlight && (len(m.reads) == 1 || m.Now >= f.retryAt) {
			m.sendTo(f)
		}
	}
}

// answerRead tells of a key what can't be lost any more (section 3.2.3): what an unsynced update made of it, after a
// sync.
//
// A read that may be stale (appendix A.3) is told what all backups hold: no failure takes it back, and no client waits
// for a sync of it. How old it may be is bounded by the lease: some time within that before the read began, and before
// its answer, the register had this value. That is counted in true time, which no clock within protocol.DriftBound runs
// ahead of. The master answers under its lease, and as long as the oldest entry that is not synced came within the
// bound. Without backups other reads wait for this member's disk alone, and may be answered before what is synced is
// known to be as much: one that may be stale waits as they do, or it would go back behind them.
func (m *master) answerRead(from view.MemberID, msg *peerv1.Message) {
	at := m.touched[string(msg.Key)].index
	c := &peerv1.Curp{Answer: m.store.Read(msg.Key, m.store.Last()), Commit: max(m.store.Commit, at)}
	reply := m.message(peerv1.Kind_MASTER_READ_REPLY, msg.Op, c)
	if at > m.store.Commit && msg.Curp.Stale && len(m.partition.Backups) > 0 && m.behind() < shorter(m.Config.Sync.Lease) {
		m.Took(pathReadStale)
		m.store.ApplyUpTo(m.store.Commit)
		c.Answer, c.Commit, at = m.store.ReadApplied(msg.Key, m.store.Commit), m.store.Commit, 0
	}
	if at > m.store.Commit {
		m.Took(pathReadUnsynced)
		m.answerOnceSynced(at, from, reply)
		return
	}
	c.Synced = true
	m.answerSynced(from, reply)
}

// answerWaitingReads goes on with the reads that waited for a lease.
func (m *master) answerWaitingReads() {
	if len(m.reads) == 0 || !m.serving || m.Now >= m.leased() {
		return
	}
	waiting := m.reads
	m.reads = nil
	for _, r := range waiting {
		m.answerRead(r.from, r.m)
	}
}
