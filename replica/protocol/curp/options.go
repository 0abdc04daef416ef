package curp

import "time"

// DriftBound is how far clocks may be from the true rate, in millionths: what leases rest on, and the age of reads that may be
// stale, and nothing else does. Both are counted shorter by whoever relies on them, by what two clocks can differ within the bound.
const DriftBound = 1000

// Defaults of Options.
const (
	defaultSyncAfter = 50 // section 4.4
	defaultSyncDelay = 20 * time.Millisecond
	defaultLease     = 2 * time.Second
	defaultKept      = 1 << 16
)

// Options are what every member of a cluster has to agree about, beside protocol.Config.
type Options struct {
	Mistakes Mistakes
	// Continued says that the process goes on: another protocol of it had the journal before, and nothing that it put
	// there is lost. It counts with protocol.Config.Continued only. It is so when a member takes on a view without a crash. False is always safe; a master without backups
	// then has to recover from a witness.
	Continued bool
	// Asynchronous has the client of an update that no witness saves answer before the backups have it: what the master's
	// machine loses then is lost, and nobody knows. It is what the paper compares with (section 5.1, "Async").
	Asynchronous bool
	// SyncAfter is how many operations the master executes until it syncs (section 4.4). Zero: 50.
	SyncAfter int
	// SyncDelay is how long an operation waits for a sync that nothing else begins. Zero: 20 ms.
	SyncDelay time.Duration
	// Lease is for how long a backup promises not to serve as a later master, and how long a new master waits. Zero: 2 s.
	Lease time.Duration
	// Kept is how many entries of the log a master keeps for a learner that is behind, which has to copy the state if
	// it needs an earlier one. Zero: 65536.
	Kept int
}

func (o Options) withDefaults() Options {
	if o.SyncAfter == 0 {
		o.SyncAfter = defaultSyncAfter
	}
	if o.SyncDelay == 0 {
		o.SyncDelay = defaultSyncDelay
	}
	if o.Lease == 0 {
		o.Lease = defaultLease
	}
	if o.Kept == 0 {
		o.Kept = defaultKept
	}
	return o
}
