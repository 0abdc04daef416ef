// Package protocol is the contract between replication protocols and the worlds that run them.
//
// A protocol is a deterministic state machine: it reads no clock, draws no random number, starts no
// goroutine and does no I/O. The runtime lends it a real network, disk and clock; the simulator lends it
// fake ones. It can't tell which.
package protocol

import (
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Instant is a reading of the member's own monotonic clock. Clocks of members are not comparable.
type Instant time.Duration

// Add is the instant d later.
func (t Instant) Add(d time.Duration) Instant { return t + Instant(d) }

// Sub is the time from u to t.
func (t Instant) Sub(u Instant) time.Duration { return time.Duration(t - u) }

// Interval is a bounded reading of the true time, which is the same for all members: it lies between the two, both in
// nanoseconds since 1970 UTC. Of the zero Interval nothing is known.
type Interval struct{ Earliest, Latest int64 }

// Machine is the state machine of a replication protocol at one member, for one shard of the keys.
//
// What it knows stands in fields, reached from the machine, so that package digest can tell states apart: nothing hides
// in a closure, and no Instant in a field of another type.
//
// A world calls Submit, Receive, Tick and Pace in any order, never two at once, and Ready after one
// or several of them; what Ready returned belongs to the world. Unfinished is the last call.
type Machine interface {
	// Submit starts an operation that this member coordinates. Its completion carries the same handle.
	Submit(Request)
	// Receive handles a message of another member. The message is the protocol's from then on, and
	// must not be changed by anyone.
	Receive(from view.MemberID, m *peerv1.Message)
	// Tick tells the time. Worlds tick at least every Config.Retry / 4 and before they Submit; a Partitioned protocol
	// before they Receive, too.
	Tick(now Instant)
	// Ready hands over what must happen now.
	Ready() Effects
	// Pace replaces Config.Retry and Config.Suspect, such as when round trips were measured. Any values are safe.
	Pace(retry, suspect time.Duration)
	// Pending is the number of operations and of other work, such as instances, that are not finished here. It comes to
	// 0 once clients and faults rest.
	Pending() int
	// Unfinished ends the machine, and lists the operations in progress, each with what was done for it
	// (Request.Resume), for the next view's protocol of this member.
	Unfinished() []Request
}

// Protocol is what a world runs: a Machine that also knows whether its disk can be believed. What only some protocols
// can do is a capability, an interface of its own below. A world asks for it once, when it has started the protocol; an
// implementation declares it beside its type, as in
//
//	var _ protocol.Joiner = (*Member)(nil)
type Protocol interface {
	Machine
	// Doubted reports whether it is not known yet that the disk holds all that it held: the member has just started,
	// asks the others, and takes no part until enough have answered.
	Doubted() bool
}

// Joiner is the capability of a protocol whose members vote with incarnations: one whose disk was lost joins again, and
// one that joins in a change of members fetches the state of those before.
type Joiner interface {
	// Voter reports whether the member's answers count.
	Voter() bool
	// Incarnation is the number of the member's disk; 1 while a newcomer does not know it yet.
	Incarnation() view.Incarnation
	// Change is the member's part in a change of the view, or in joining with another disk.
	Change() Change
}

// Thrifty is the capability of a protocol that asks the nearest quorum first, and the others when that does not answer.
type Thrifty interface {
	// Prefer orders the other members anew, nearest first, such as when one no longer answers. The list has the members
	// of Config.Nearest, and is only read during the call. Any order is safe.
	Prefer(nearest []view.MemberID)
}

// Keyed is the capability of a protocol that says which records it reads at once for a register, so that a world can
// have them in memory before it hands on what is about that register. Such records have the register's key, behind one
// byte that says their kind. What is not named here is read in the step.
type Keyed interface {
	// RecordsOf are the kinds of those that an operation of a kind reads.
	RecordsOf(kind register.Kind) string
	// RecordsFor are the kinds of those that a message reads.
	RecordsFor(m *peerv1.Message) string
}

// KeyedOf is what a machine says of its records; of one that says nothing, that it reads none at once.
func KeyedOf(m Machine) Keyed {
	if keyed, ok := m.(Keyed); ok {
		return keyed
	}
	return silent{}
}

// silent reads no record at once.
type silent struct{}

func (silent) RecordsOf(register.Kind) string { return "" }

func (silent) RecordsFor(*peerv1.Message) string { return "" }

// Partitioned is the capability of a protocol whose shards are partitions of the view: view.Partition gives each member
// a role in each, such as the master's. Such a protocol deals with lost disks itself: another disk is another member.
type Partitioned interface {
	// PartitionStatus is the member's part in the partition, and how far it is.
	PartitionStatus() PartitionStatus
	// Promised is until when promises to others may hold, such as leases, as of the last Tick: Config.Promised of the
	// member's next protocol. Zero: it is not known.
	Promised() Instant
}

// Timed is the capability of a protocol that compares moments of different members, which Instants cannot be.
type Timed interface {
	// TrueTime is what the world knows of the true time; it comes before each Tick, and holds for that moment.
	TrueTime(Interval)
}

// Disks are those of one member, of all partitions of a view, while no protocol runs on them.
type Disks struct {
	// Journal is a new journal of a partition's disk.
	Journal func(partition int) *Journal
	// Persist makes durable what was put into a partition's journal, before it returns.
	Persist func(partition int, j *Journal) error
	// Hash is where keys live (view.Shard).
	Hash func(key []byte) uint64
}

// Request is an operation and how its submitter knows it.
type Request struct {
	Handle    uint64 // unique within this process of the member
	Operation register.Operation
	// Deadline is when the protocol gives up and completes with Unavailable or Unknown. Zero: never.
	Deadline Instant
	// Resume is what an earlier view's protocol of this member had done for the operation, as it said when it
	// ended (Unfinished). Nil: nothing that anyone may know of.
	Resume Resume
}

// Resume lets an operation go on over a change of the view without taking effect twice.
//
// The protocol of the earlier view ends first: what it put into the journal becomes durable, and what it had completed
// by then is handed over. What it lists after that (Unfinished) has had no answer. It is submitted to the next view's
// protocol of this member, over the same journal, in the order of the list and before any other operation, with its
// handle and deadline; all of them in one step, with no Tick and no message between. Instead, its submitter may be told
// that the outcome is unknown, or unavailable if Resume is nil.
//
// What a Resume holds is known to the protocol that made it, and to nobody else: others hand it over and compare it
// with nil. It stays in the process, so it has no encoding. A protocol takes one that is of another type than its own
// for nil.
type Resume any
