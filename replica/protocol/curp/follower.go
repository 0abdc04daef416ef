package curp

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// follows is what a backup or a learner has in memory. It stores the entries that it receives, and applies them to its
// state once the master has told it that all backups have them: what one backup applied, none will miss.
type follows struct {
	waits    bool               // for the master of the term, which knows that its view is held
	gathered []*peerv1.LogEntry // and, having what it is to recover, for all that is to replace the end of the log here
	attached bool               // it agrees with the master of the term
	waiting  map[string]int     // by key: entries that are not applied
	lease    protocol.Instant   // until then no later master serves, and reads may be answered here (A.1)
	fresh    protocol.Instant   // until then reads that may be stale may be (A.3)
	copyOp   uint64             // the question for a page that is under way; 0: none
	copyDue  protocol.Instant
	fetched  protocol.Instant // when the next page may be asked for
}

// takeFollower prepares to be a backup or a learner of the view's term.
func (p *Protocol) takeFollower() {
	p.follower.waiting = map[string]int{}
	if p.entered() {
		p.beginFollower()
	} else {
		p.follower.waits = true
	}
}

// beginFollower takes part in the term.
func (p *Protocol) beginFollower() {
	p.follower.waits = false
	p.dropStale()
	p.store.Own.Broken, p.store.Own.Backups = p.store.Own.Recovered, nil // another master may drop some of what it answered for
	// What comes next is of no term that this member began as the master.
	p.store.ForgetEmptyTerms()
	p.store.Commit = min(p.store.Own.Commit, p.store.Last())
	if p.store.Own.Term != p.partition.Term && (p.store.Own.Copying || p.store.Own.Through > p.store.Last()) {
		p.beginCopy() // of another master: what it had not sent yet may be lost
	}
	p.enter()
	for _, e := range p.store.Behind(p.store.Own.Applied) {
		p.follower.waiting[string(e.Key)]++
	}
}

// onSync takes the master's log over: entries that the master does not have go, those that are missing come. It is
// acknowledged when it is durable.
func (p *Protocol) onSync(from view.MemberID, m *peerv1.Message) {
	c := m.Curp
	if from != p.partition.Master || !p.active() || p.role == protocol.Master {
		return
	}
	f := &p.follower
	same := p.store.Agrees(c.History)
	if f.waits {
		if p.recovers() && !p.gather(same, c) {
			// It has not entered the term, so that it grants no lease, and counts for nothing.
			p.send(from, p.message(peerv1.Kind_SYNC_REPLY, m.Op, &peerv1.Curp{
				Last: same + uint64(len(f.gathered)), Commit: p.store.Commit, Lacking: true, Nonce: p.config.Nonce, Asked: c.Asked,
			}))
			return
		}
		p.beginFollower()
	}
	entries := append(f.gathered, c.Entries...)
	f.gathered = nil
	if p.mistakes.KeepSuffix {
		same = p.store.Last()
	}
	switch {
	case p.store.Own.Copying:
	case max(p.store.Own.Applied, p.store.Own.Through) > same && p.store.Last() > same, p.store.Last() < c.Start, same < p.store.Floor:
		// The state has what this master never had, or lacks what it does not keep any more.
		p.beginCopy()
	case same < p.store.Last():
		p.config.Took("log.truncated")
		for _, e := range p.store.Behind(same) {
			p.unwait(e)
		}
		p.store.Truncate(same)
	}
	if !p.store.Own.Copying || p.store.Own.Start != 0 || len(p.store.Own.Cursor) > 0 {
		for _, e := range entries {
			if e.Index == p.store.Last()+1 {
				p.store.Append(e)
				f.waiting[string(e.Key)]++
			}
		}
	}
	p.learnCommit(c.Commit)
	// An earlier process asked by another clock.
	if c.Delegated > 0 && (c.Nonce == p.config.Nonce || p.mistakes.AnyProcess) {
		wanted := protocol.Instant(c.Wanted)
		if c.Nonce == p.config.Nonce {
			wanted = min(wanted, p.now) // this process has read no later time
		}
		f.lease = max(f.lease, wanted.Add(p.worth(c.Delegated)))
		f.fresh = max(f.fresh, wanted.Add(shorter(p.config.Sync.Lease)-time.Duration(max(c.Behind, 0))))
	}
	f.attached = p.whole()
	p.noteWhole(c)
	p.promised = max(p.promised, p.now.Add(p.config.Sync.Lease))
	reply := &peerv1.Curp{
		WholeTerm: p.store.Own.WholeTerm,
		Last:      p.store.Last(), Commit: p.store.Commit, Lacking: !f.attached, Nonce: p.config.Nonce, Asked: c.Asked, Granted: int64(p.config.Sync.Lease),
	}
	if p.wantsLease() {
		reply.Wanted = int64(p.now)
	}
	answer := p.message(peerv1.Kind_SYNC_REPLY, m.Op, reply)
	if p.mistakes.SyncBeforePersist {
		p.send(from, answer)
	} else {
		p.sendDurably(from, answer)
	}
	p.tickCopy()
}

// gather collects what replaces the end of the log here, which the logs have in common up to an index. It reports
// whether nothing is missing: the master has all that was to be recovered, and what comes behind that index has come.
// Until then the end of this log may be on no other disk that is left, and in no witness, so it goes in one step with
// what replaces it.
func (p *Protocol) gather(same uint64, c *peerv1.Curp) bool {
	if c.WholeTerm < p.partition.Term {
		return false
	}
	f := &p.follower
	if same < c.Start {
		return true // the master has let entries go, which it does not before it serves: they are on the disks of all backups
	}
	for _, e := range c.Entries {
		if e.Index == same+uint64(len(f.gathered))+1 {
			f.gathered = append(f.gathered, e)
		}
	}
	return same+uint64(len(f.gathered)) >= c.WholeIndex
}

// recovers reports whether the log here alone has all that completed in a former term: this member was its master, or
// had recovered it.
func (p *Protocol) recovers() bool {
	return !p.mistakes.FollowAtOnce && slices.ContainsFunc(p.partition.Formers, func(f view.Former) bool {
		return p.remembers(f) || p.knows(f)
	})
}

// noteWhole takes over up to where the log has all that was to be recovered from which terms.
func (p *Protocol) noteWhole(c *peerv1.Curp) {
	if p.whole() && p.store.Own.WholeTerm < c.WholeTerm && p.store.Last() >= c.WholeIndex {
		p.store.NoteRecovered(c.WholeTerm, c.WholeIndex)
	}
}

// whole reports whether state and log together are those of the master, up to the log's end.
func (p *Protocol) whole() bool {
	return (!p.store.Own.Copying || p.mistakes.CountLearner) && p.store.Last() >= p.store.Own.Through
}

// learnCommit applies what all backups have.
func (p *Protocol) learnCommit(commit uint64) {
	commit = min(commit, p.store.Last())
	if commit > p.store.Commit {
		p.store.Commit, p.store.Own.Commit = commit, commit
		p.store.Note()
	}
	if p.store.Own.Copying || p.store.Own.Applied >= p.store.Commit {
		return
	}
	p.applyUpTo(p.store.Commit)
	if p.store.Own.Applied >= p.store.Own.Through {
		p.store.Own.Through = 0
	}
	p.store.Trim(p.store.Own.Applied)
}

// applyUpTo makes the log up to an index part of the state.
func (p *Protocol) applyUpTo(index uint64) {
	for _, e := range p.store.ApplyUpTo(index) {
		p.unwait(e)
	}
}

func (p *Protocol) unwait(e *peerv1.LogEntry) {
	if p.follower.waiting == nil {
		return
	}
	key := string(e.Key)
	if p.follower.waiting[key]--; p.follower.waiting[key] <= 0 {
		delete(p.follower.waiting, key)
	}
}

// wantsLease reports whether reads were tried here lately.
func (p *Protocol) wantsLease() bool {
	return p.role == protocol.Backup && p.client.local != 0 && p.now < p.client.local.Add(4*p.config.Sync.Lease)
}

func (p *Protocol) tickFollower() { p.tickCopy() }
