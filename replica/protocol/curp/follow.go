package curp

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// prepare waits for the master of the term, unless this member has taken part in it before.
func (b *backup) prepare() {
	b.unapplied = map[string]int{}
	if b.waiting = !b.entered(); !b.waiting {
		b.begin()
	}
}

// begin takes part in the term.
func (b *backup) begin() {
	b.waiting = false
	b.dropGivenUp()
	s := b.store
	// Another master may drop some of what this one answered for.
	s.Own.Broken, s.Own.Backups = s.Own.Recovered, nil
	s.ForgetEmptyTerms() // what comes next is of no term that this member began as the master
	s.Commit = min(s.Own.Commit, s.Last())
	if s.Own.Term != b.partition.Term && (s.Own.Copying || s.Own.Through > s.Last()) {
		b.beginCopy() // of another master: what it had not sent yet may be lost
	}
	b.enter()
	for _, e := range s.Behind(s.Own.Applied) {
		b.unapplied[string(e.Key)]++
	}
}

// onSync takes the master's log over: entries that the master does not have go, those that are missing come. It is
// acknowledged when it is durable.
func (b *backup) onSync(from view.MemberID, m *peerv1.Message) {
	s, c := b.store, m.Curp
	if from != b.partition.Master || !b.active() || b.role == protocol.Master {
		return
	}
	same := s.Agrees(c.History)
	if b.waiting {
		if b.recovers() && !b.gather(same, c) {
			// It has not entered the term, so that it grants no lease, and counts for nothing.
			b.reply(true, m, &peerv1.Curp{Last: same + uint64(len(b.replacement)), Lacking: true})
			return
		}
		b.begin()
	}
	entries := append(b.replacement, c.Entries...)
	b.replacement = nil
	b.agree(same, c.Start)
	if !s.Own.Copying || s.Own.Start != 0 || len(s.Own.Cursor) > 0 {
		for _, e := range entries {
			if e.Index == s.Last()+1 {
				b.append(e)
			}
		}
	}
	b.learnCommit(c.Commit)
	b.takeLease(c)
	b.attached = b.complete()
	b.noteRecovered(c)
	b.promised = max(b.promised, b.Now.Add(b.Config.Sync.Lease))
	reply := &peerv1.Curp{
		WholeTerm: s.Own.WholeTerm, Last: s.Last(), Lacking: !b.attached, Granted: int64(b.Config.Sync.Lease),
	}
	if b.wantsLease() {
		reply.Wanted = int64(b.Now)
	}
	b.reply(false, m, reply)
	b.tickCopy()
}

// agree drops what is behind the index up to which the log is the master's, who keeps entries from behind start on.
func (b *backup) agree(same, start uint64) {
	switch s := b.store; {
	case s.Own.Copying:
	case max(s.Own.Applied, s.Commit, s.Own.Through) > same && s.Last() > same, s.Last() < start, same < s.Floor:
		// The state has what this master never had, or lacks what it does not keep any more.
		b.beginCopy()
	case same < s.Last():
		b.Took(pathLogTruncated)
		b.forget(s.Behind(same))
		s.Truncate(same)
	}
}

// takeLease takes the master's leave to answer reads. An earlier process asked by another clock.
func (b *backup) takeLease(c *peerv1.Curp) {
	if c.Delegated <= 0 || c.Nonce != b.Config.Nonce {
		return
	}
	wanted := min(protocol.Instant(c.Wanted), b.Now) // this process has read no later time
	b.leaseUntil = max(b.leaseUntil, wanted.Add(b.worth(c.Delegated)))
	b.staleUntil = max(b.staleUntil, wanted.Add(shorter(b.Config.Sync.Lease)-time.Duration(max(c.Behind, 0))))
}

// reply answers a SYNC.
func (b *backup) reply(durable bool, m *peerv1.Message, c *peerv1.Curp) {
	c.Commit, c.Nonce, c.Asked = b.store.Commit, b.Config.Nonce, m.Curp.Asked
	b.sendWhen(durable, b.partition.Master, b.message(peerv1.Kind_SYNC_REPLY, m.Op, c))
}

// gather collects what replaces the end of the log here, which the logs have in common up to an index. It reports
// whether nothing is missing: the master has all that was to be recovered, and what comes behind that index has come.
// Until then the end of this log may be on no other disk that is left, and in no witness, so it goes in one step with
// what replaces it.
func (b *backup) gather(same uint64, c *peerv1.Curp) bool {
	if c.WholeTerm < b.partition.Term {
		return false
	}
	if same < c.Start {
		// The master has let entries go, which it does not before it serves: they are on the disks of all backups.
		return true
	}
	for _, e := range c.Entries {
		if e.Index == same+uint64(len(b.replacement))+1 {
			b.replacement = append(b.replacement, e)
		}
	}
	return same+uint64(len(b.replacement)) >= c.WholeIndex
}

// recovers reports whether the log here alone has all that completed in a former term: this member was its master, or
// had recovered it.
func (b *backup) recovers() bool {
	return slices.ContainsFunc(b.partition.Formers, func(f view.Former) bool {
		return b.answeredHere(f) || b.recovered(f)
	})
}
