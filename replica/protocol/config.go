package protocol

import (
	"cmp"
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Config is what a protocol is told when it starts. Every member of a cluster must agree on View, Functions
// and Limits.
type Config struct {
	Self view.MemberID
	View view.View
	// Shard is the number of the shard, from 0. With roles per shard it is the index of its partition in
	// View.Partitions, which has the roles.
	Shard int
	// Boot counts the starts of this process on its disk; the world makes it durable before the start.
	Boot uint32
	// Nearest lists the other members by distance, nearest first; thrifty sending asks the nearest quorum.
	Nearest   []view.MemberID
	Functions *register.Registry
	Limits    register.Limits
	// Retry is how long an unanswered message waits before it is sent again, to everyone who has not
	// answered: above the largest round trip.
	Retry time.Duration
	// Suspect is how long an instance of another coordinator may stay unfinished before this member
	// recovers it: several times Retry. A world that learns how far apart the members are tells both anew
	// (member.Pace); any values are safe.
	Suspect time.Duration
	// Seed feeds the protocol's own draws (back-off); members should differ.
	Seed uint64
	// TransferRate bounds what this shard fetches of others' state, in bytes a second. Zero: it is not bounded.
	TransferRate int
	// Nonce differs at every start of every process; the world draws it. A newcomer, whose boots count from
	// the beginning again, tells answers to its questions by it.
	Nonce uint64
	// Faults is how many members may be lost at once, where a protocol is to tolerate fewer than any minority; every
	// member must be told the same. Zero: any minority.
	Faults int
	// Fragments is how large values are stored, by protocols that know of it; every member must be told the same.
	Fragments Fragments
	// Sync is how masters sync their backups, by protocols that have those; every member must be told the same.
	Sync Sync
	// Tuning bounds what is remembered, gathered and sent at once; every member must be told the same. The zero value has
	// the defaults.
	Tuning Tuning
	// Bootstrap says that the cluster is being created: an empty disk votes. Without it a member with an
	// empty disk is a newcomer, which must join before it votes.
	Bootstrap bool
	// Continued says that an earlier protocol of this process had the journal, and did not doubt its disk any more
	// (Protocol.Doubted), so that nothing that was put there is lost. Otherwise the disk may be an older copy of what
	// it was, also where it is empty, and the others are asked before it votes.
	Continued bool
	// Promised is until when promises to others may hold that earlier protocols of this process made, such as leases,
	// by the clock that this one is told. Zero: it is not known, and whoever has to wait for their end counts from the
	// start.
	Promised Instant
	// Undoubted says that no disk is ever put back from an older copy, since none outlives its process or the world
	// sees to it: members neither tell how far their disks are nor ask.
	Undoubted bool
	// Count is told each time a path of the protocol is taken, by name. It may be nil.
	Count func(path string)
}

// Sync says how a master has its backups hold what it executes, and what it lends meanwhile. The zero value has the
// defaults.
type Sync struct {
	// After is how many operations a master executes until it syncs. Zero: 50.
	After int
	// Delay is how long an operation waits for a sync that nothing else begins. Zero: 20 ms.
	Delay time.Duration
	// Lease is for how long a backup promises not to serve as a later master, and how long a new master waits; reads
	// that may be stale are not older. Zero: 2 s.
	Lease time.Duration
	// Kept is how many entries of the log a master keeps for a learner that is behind, which has to copy the state if
	// it needs an earlier one. Zero: 65536.
	Kept int
	// Asynchronous has the client of an update that no witness saves answer before the backups have it: what the
	// master's machine loses then is lost, and nobody knows. It is what papers compare with ("Async").
	Asynchronous bool
}

// Defaults of Sync.
const (
	defaultAfter = 50 // CURP, section 4.4
	defaultDelay = 20 * time.Millisecond
	defaultLease = 2 * time.Second
	defaultKept  = 1 << 16
)

// WithDefaults has the default for what is zero.
func (s Sync) WithDefaults() Sync {
	s.After, s.Delay = cmp.Or(s.After, defaultAfter), cmp.Or(s.Delay, defaultDelay)
	s.Lease, s.Kept = cmp.Or(s.Lease, defaultLease), cmp.Or(s.Kept, defaultKept)
	return s
}

// DriftBound is how far clocks may be from the true rate, in millionths: what leases rest on, and the age of reads that
// may be stale, and nothing else does. Both are counted shorter by whoever relies on them, by what two clocks can
// differ within the bound.
const DriftBound = 1000

// Fragments says which values are stored as fragments of an erasure code, one with each member, and how many restore
// one. The zero value: none are.
type Fragments struct {
	Data      int // how many restore a value: k; with n members of which f may be lost, from 1 to n - 2f
	Threshold int // values of more bytes are stored so; at least 1
}

// Took counts a path of the protocol.
func (c *Config) Took(path string) {
	if c.Count != nil {
		c.Count(path)
	}
}
