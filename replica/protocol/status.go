package protocol

import "github.com/georegister/georegister/replica/view"

// Change is a member's part in a change of the view, and how far a member whose disk was lost has joined. The zero
// value is that of a voting member in a plain view.
type Change struct {
	Joint     bool // the view is joint
	Settled   bool // all that it had voted on in earlier views, or hears of, is finished, and that is durable
	Transfers bool // it has to fetch the state of the members before the change
	Fetched   bool // and has; what it heard of that way is finished too
	Records   uint64
	Bytes     uint64 // of those records, keys and values
	SameBytes uint64 // compared, and not sent since they are equal here
	Remaining uint64 // bytes that are still to be sent or compared, estimated; 0 if nobody can tell
}

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

// PartitionStatus is the state of a member's part in a partition, for those who decide on views.
type PartitionStatus struct {
	Partition int
	Term      uint64 // of the view's configuration of the partition
	Role      Role
	// Lost says that the view gives this member the role of a master or a backup that its disk can't fill: it is empty,
	// or what the role needs is missing there (Why). The member takes no part. It has to be replaced.
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
	// Needed lists the former terms whose witnesses the master of this term has not replayed yet, or whose replay is
	// not held by all backups yet.
	Needed   []uint64
	Last     uint64 // index of the last entry of the log here
	Commit   uint64 // index up to which all backups are known to hold it
	Unsynced int    // a master's entries between the two
	// CaughtUp lists the learners, of a master, that hold the state and the log as the backups do.
	CaughtUp []view.MemberID
	// Holding lists the followers, backups and learners, that hold the log up to Commit or further.
	Holding []view.MemberID
	// Leased is until when a master may answer reads alone, or a backup for it, by this process's clock; 0: it may not.
	// A master without backups may for ever.
	Leased Instant
	// Of the updates that this member was the client of: how many ended in one round trip, and how many otherwise.
	Fast, Slow uint64
}
