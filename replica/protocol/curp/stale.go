package curp

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// Reads that may be stale (appendix A.3) tell what all backups hold: no failure takes it back, and nobody waits for a
// sync of it. The state on disk is just this, at a backup and at the master.
//
// How old it may be is bounded by the lease: some time within that before the read began, and before its answer, the
// register had this value. That is counted in true time, which no clock within protocol.DriftBound runs ahead of. The
// master answers under its lease, and as long as the oldest entry that is not synced came within the bound. A backup
// counts from when it asked the master for leave to answer reads, less for how long the master had had that entry when
// it gave it: no update that the backup's state lacks was executed before that. No later master did so either, as this
// one had its lease; so the backup's own lease would say nothing more here.

// longAgo is before anything that a member remembers.
const longAgo = protocol.Instant(-1 << 62)

// startExecuted begins with what the log has: when that was executed, a restart has forgotten.
func (p *Protocol) startExecuted() {
	p.executed = nil
	for range p.store.Last() - p.store.Commit {
		p.executed = append(p.executed, longAgo)
	}
}

// behind is for how long this master has had the oldest entry that not all backups hold; 0: there is none.
func (p *Protocol) behind() time.Duration {
	if len(p.executed) == 0 || p.mistakes.StaleSyncs {
		return 0
	}
	return p.now.Sub(p.executed[0])
}

// durably is what all backups hold of a key that is not synced, if that is not too old: else nil.
func (p *Protocol) durably(key []byte) *peerv1.Answer {
	if p.behind() >= shorter(p.config.Sync.Lease) {
		return nil
	}
	p.config.Took("read.stale")
	return p.store.ReadApplied(key, p.store.Commit)
}

// readStale begins a read that may be stale: here, if this member is a backup that knows enough, else at the master.
func (p *Protocol) readStale(o *operation) {
	if p.role != protocol.Backup || !p.active() {
		p.readAtMaster(o)
		return
	}
	p.client.local = p.now
	f := &p.follower
	switch {
	case !f.attached || p.now >= f.fresh && !p.mistakes.StaleWithoutLease, p.store.Own.Applied < p.client.seen:
		p.config.Took("read.stale-refused")
		p.readAtMaster(o)
	case p.mistakes.StaleUnsynced:
		p.finish(o, answered(p.store.ReadUnapplied(o.key), o.trips, true))
	default:
		p.config.Took("read.stale-local")
		p.finish(o, answered(p.store.Read(o.key, p.store.Own.Applied), o.trips, true))
	}
}
