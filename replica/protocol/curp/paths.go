package curp

// The paths that an operation, a message or a part of a member can take, as protocol.Config.Count is told.
const (
	pathUpdateFast       = "update.fast"        // all witnesses saved it before it was synced
	pathUpdateSynced     = "update.synced"      // the master answered when all backups held it
	pathUpdateRejected   = "update.rejected"    // a witness did not save it
	pathUpdateLarge      = "update.large"       // it is not recorded at witnesses
	pathUpdateRetry      = "update.retry"       // it was sent again
	pathUpdateDuplicate  = "update.duplicate"   // the master had executed it
	pathUpdateRefused    = "update.refused"     // the master does not serve, or has too many that are not synced
	pathUpdateConflict   = "update.conflict"    // its key had one that was not synced
	pathReadMaster       = "read.master"        // the master answered
	pathReadUnsynced     = "read.unsynced"      // it waited for a sync
	pathReadLease        = "read.lease"         // it waited for a lease of the master
	pathReadLocal        = "read.local"         // a backup answered, beside a witness
	pathReadLocalRefused = "read.local-refused" // a backup could not
	pathReadStale        = "read.stale"         // the master told what all backups held
	pathReadStaleLocal   = "read.stale-local"   // a backup did
	pathReadStaleRefused = "read.stale-refused" // a backup could not
	pathSync             = "sync"
	pathSyncHot          = "sync.hot"   // for a key with many updates
	pathSyncMany         = "sync.many"  // for many updates
	pathGarbage          = "gc.garbage" // a witness suspected that a request had no client any more

	pathUpdateResumed   = "update.resumed"   // it went on with the id that it got in an earlier view
	pathRecoverBegin    = "recover.begin"    // a master began to recover former terms
	pathRecoverReplayed = "recover.replayed" // and executed what a witness had saved
	pathRecoverKnown    = "recover.known"    // which was known
	pathRecoverLease    = "recover.lease"    // and waited for leases of former terms
	pathRecoverEnd      = "recover.end"
	pathLogTruncated    = "log.truncated" // a backup dropped entries that the master does not have
	pathCopyBegin       = "copy.begin"    // a backup or a learner copied the master's state
	pathCopyEnd         = "copy.end"
	pathMemberLost      = "member.lost"     // a disk could not fill the member's role
	pathMessageRefused  = "message.refused" // it was none that a sound member sends
	pathWitnessDoubted  = "witness.doubted" // a witness that had started was vouched for
)

// Paths lists the paths that protocol.Config.Count can be told while the view stays what it is.
func Paths() []string {
	return []string{
		pathUpdateFast, pathUpdateSynced, pathUpdateRejected, pathUpdateLarge, pathUpdateRetry, pathUpdateDuplicate,
		pathUpdateRefused, pathUpdateConflict, pathReadMaster, pathReadUnsynced, pathReadLease, pathReadLocal,
		pathReadLocalRefused, pathReadStale, pathReadStaleLocal, pathReadStaleRefused, pathSync,
		pathSyncHot, pathSyncMany, pathGarbage,
	}
}

// ChangePaths lists those that only a change of the view, or a restart, leads to.
func ChangePaths() []string {
	return []string{
		pathUpdateResumed, pathRecoverBegin, pathRecoverReplayed, pathRecoverKnown, pathRecoverLease, pathRecoverEnd,
		pathLogTruncated, pathCopyBegin, pathCopyEnd, pathMemberLost,
	}
}
