package curp

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// backup is a backup or a learner of the view's term. It stores the entries that it receives, and applies them to its
// state some time after the master has told it that all backups have them: what one backup applied, none will miss.
type backup struct {
	*member
	waiting     bool               // for the master of the term, which has confirmed its view
	replacement []*peerv1.LogEntry // and for the entries that replace the end of the log, which came so far

	attached   bool             // it agrees with the master of the term
	unapplied  map[string]int   // by key: how many entries are not applied
	leaseUntil protocol.Instant // until then no later master serves, and reads may be answered here (A.1)
	staleUntil protocol.Instant // until then reads that may be stale may be (A.3)
	triedRead  protocol.Instant // when a read was last tried here; 0: none was

	pageOp uint64           // number of the question for a page of a copy that is under way; 0: none is
	pageAt protocol.Instant // when the next page, or again the same one, may be asked for
}

// mayRead reports whether this backup may tell of a key: under a lease, which says that no later master serves, and if
// no entry for it waits here of which it is not known whether all backups have it. One reader could see such an update
// here, and the next one miss it at another backup.
func (b *backup) mayRead(key []byte) bool {
	b.applyTo(key)
	return b.Now < b.leaseUntil && b.attached && b.unapplied[string(key)] == 0
}

// mayReadStale reports whether this backup may answer a read that may be stale, and whose client has seen the log up to
// an index (appendix A.3; master.answerRead says how old the answer may be). The backup counts from when it asked the
// master for leave to answer reads, less for how long the master had had the oldest entry that was not synced when it
// gave it: no update that the backup's state lacks was executed before that. No later master did so either, as this one
// had its lease; so the backup's own lease would say nothing more here.
func (b *backup) mayReadStale(seen uint64) bool {
	return b.attached && b.Now < b.staleUntil && b.store.Commit >= seen
}

// applyTo has the state have what all backups have of a key.
func (b *backup) applyTo(key []byte) {
	if b.unapplied[string(key)] > 0 && !b.store.Own.Copying {
		b.apply()
	}
}

// wantsLease reports whether reads were tried here lately.
func (b *backup) wantsLease() bool {
	return b.role == protocol.Backup && b.triedRead != 0 && b.Now < b.triedRead.Add(4*b.Config.Sync.Lease)
}

// append adds an entry to the log.
func (b *backup) append(e *peerv1.LogEntry) {
	b.store.Append(e)
	b.unapplied[string(e.Key)]++
}

// forget has entries not count as unapplied any more.
func (b *backup) forget(entries []*peerv1.LogEntry) {
	for _, e := range entries {
		key := string(e.Key)
		if b.unapplied[key]--; b.unapplied[key] <= 0 {
			delete(b.unapplied, key)
		}
	}
}

// noteRecovered takes over up to where the log has all that was to be recovered from which terms.
func (b *backup) noteRecovered(c *peerv1.Curp) {
	if b.complete() && b.store.Own.WholeTerm < c.WholeTerm && b.store.Last() >= c.WholeIndex {
		b.store.NoteRecovered(c.WholeTerm, c.WholeIndex)
	}
}

// learnCommit applies what all backups have.
func (b *backup) learnCommit(commit uint64) {
	s := b.store
	if commit = min(commit, s.Last()); commit > s.Commit {
		s.Commit, s.Own.Commit = commit, commit
		s.Note()
	}
	if !s.Own.Copying && s.Due(s.Commit) {
		b.apply()
	}
}

// apply makes what all backups have part of the state.
func (b *backup) apply() {
	s := b.store
	b.forget(s.ApplyUpTo(s.Commit))
	if s.Own.Applied >= s.Own.Through {
		s.Own.Through = 0
	}
	s.Trim(s.Own.Applied)
}
