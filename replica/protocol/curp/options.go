package curp

import (
	"time"

	"github.com/georegister/georegister/replica/view"
)

// Role is a member's part in a partition, by the view.
type Role uint8

// The roles.
const (
	Master Role = iota + 1
	Backup
	Learner
)

// String is the role as people read it.
func (r Role) String() string {
	switch r {
	case Master:
		return "master"
	case Backup:
		return "backup"
	}
	return "learner"
}

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

// Standing is what a member says of its part in a partition, for whoever decides on views.
type Standing struct {
	Partition int
	Term      uint64 // of the view's configuration of the partition
	Role      Role
	// Lost says that the view gives this member the role of a master or a backup that its disk can't fill: it is empty, or
	// what the role needs is missing there (Why). The member takes no part. It has to be replaced.
	Lost bool
	Why  string // for people: why a member is lost, or why a master does not serve yet
	// Restarted says that this member is a master without backups that restarted: what it answered for and the disk did
	// not have is at the witnesses of this term. It needs a later term that recovers from this one.
	Restarted bool
	Serving   bool // the master serves clients
	// Recovered is the highest term that this member has begun to serve in as the master, durably: the terms before it
	// need not be recovered from any more.
	Recovered uint64
	Copying   bool // this member is fetching a copy of the state: what it has is none
	// WholeTerm is the highest term of which this member has all that was to be recovered from those before it.
	WholeTerm uint64
	NotedTerm uint64 // the highest of which it ever had, also if it has dropped some of that since
	// Needed lists the former terms whose witnesses the master of this term has not replayed yet, or whose replay is not
	// held by all backups yet.
	Needed   []uint64
	Last     uint64 // index of the last entry of the log here
	Commit   uint64 // index up to which all backups are known to hold it
	Unsynced int    // a master's entries between the two
	// CaughtUp lists the learners, of a master, that hold the state and the log as the backups do.
	CaughtUp []view.MemberID
	// Holding lists the followers, backups and learners, that hold the log up to Commit or further.
	Holding []view.MemberID
	Lease   bool // the master may answer reads alone, as of the last Tick
	// Of the updates that this member was the client of: how many ended in one round trip, and how many otherwise.
	Fast, Slow uint64
}
