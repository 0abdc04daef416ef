package protocol

import (
	"time"

	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Config is what a protocol is told when it starts. Every member of a cluster must agree on View, Functions
// and Limits.
type Config struct {
	Self view.MemberID
	View view.View
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
	// recovers it: several times Retry. A world that learns how far apart the members are tells both anew (member.Pace);
	// any values are safe.
	Suspect time.Duration
	// Seed feeds the protocol's own draws (back-off); members should differ.
	Seed uint64
	// TransferRate bounds what this shard fetches of others' state, in bytes a second. Zero: it is not bounded.
	TransferRate int
	// Nonce differs at every start of every process; the world draws it. A newcomer, whose boots count from
	// the beginning again, tells answers to its questions by it.
	Nonce uint64
	// Faults is how many members may be lost at once, where a protocol is to tolerate fewer than any minority; every member
	// must be told the same. Zero: any minority.
	Faults int
	// Fragments is how large values are stored, by protocols that know of it; every member must be told the same.
	Fragments Fragments
	// Bootstrap says that the cluster is being created: an empty disk votes. Without it a member with an
	// empty disk is a newcomer, which must join before it votes.
	Bootstrap bool
	// Continued says that an earlier protocol of this process had the journal, and did not doubt its disk any more
	// (member.Member.Doubted). Otherwise the disk may be an older copy of what it was, also where it is empty, and the others are
	// asked before it votes.
	Continued bool
	// Promised is until when promises to others may hold that earlier protocols of this process made, such as leases, by
	// the clock that this one is told. Zero: it is not known, and whoever has to wait for their end counts from the start.
	Promised Instant
	// Undoubted says that no disk is ever put back from an older copy, since none outlives its process or the world sees to it:
	// members neither tell how far their disks are nor ask.
	Undoubted bool
	// Count is told each time a path of the protocol is taken, by name. It may be nil.
	Count func(path string)
}

// Fragments says which values are stored as fragments of an erasure code, one with each member, and how many restore one. The zero
// value: none are.
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
