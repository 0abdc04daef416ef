// Package protocol is the contract between replication protocols and the worlds that run them.
//
// A protocol is a deterministic state machine: it reads no clock, draws no random number, starts no
// goroutine and does no I/O. The runtime lends it a real network, disk and clock; the simulator lends it
// fake ones. It can't tell which.
package protocol

import (
	"fmt"
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

// Protocol is one member's part of a replication protocol, for one shard of the keys.
//
// A world calls Submit, Receive and Tick in any order, never two at once, and Ready after one
// or several of them; what Ready returned belongs to the world.
type Protocol interface {
	// Submit starts an operation that this member coordinates. Its completion carries the same handle.
	Submit(Request)
	// Receive handles a message of another member. The message is the protocol's from then on, and
	// must not be changed by anyone.
	Receive(from view.MemberID, m *peerv1.Message)
	// Tick tells the time. Worlds tick at least every Config.Retry / 4 and before they Submit.
	Tick(now Instant)
	// Ready hands over what must happen now.
	Ready() Effects
}

// Request is an operation and how its submitter knows it.
type Request struct {
	Handle    uint64 // unique within this process of the member
	Operation register.Operation
	// Deadline is when the protocol gives up and completes with Unavailable or Unknown. Zero: never.
	Deadline Instant
	// Resume is what an earlier view's protocol of this member had done for the operation, as it said when it
	// ended (Unfinished). The zero value: nothing that anyone may know of.
	Resume Resume
}

// Resume lets an operation go on over a change of the view without taking effect twice.
//
// The protocol of the earlier view ends first: what it put into the journal becomes durable, and what it had completed by
// then is handed over. What it lists after that (Unfinished) has had no answer. It is submitted to the next view's
// protocol of this member, over the same journal, in the order of the list and before any other operation, with its
// handle and deadline. Instead, its submitter may be told that the outcome is unknown, or unavailable if Resume is zero.
type Resume struct {
	// Carstamp is what a write was issued under: it goes on with this one, and never gets another.
	Carstamp register.Carstamp
	// Instance counts this member's instances of the key to the one that carries the operation, and Command is its place
	// there, from 0. Zero: no instance carries it.
	Instance uint64
	Command  int
}

// Envelope is a message and where it goes. Several envelopes may share one message.
type Envelope struct {
	To      view.MemberID
	Message *peerv1.Message
}

// Completion is the end of an operation.
type Completion struct {
	Handle uint64
	Result register.Result
}

// Effects is what a step asks of the world. Send and Complete depend on nothing that is not durable yet
// and leave at once. Persist is one batch; what is behind SendAfterPersist and CompleteAfterPersist leaves
// when it and every earlier batch are durable.
type Effects struct {
	Send                 []Envelope
	Complete             []Completion
	Persist              Batch
	SendAfterPersist     []Envelope
	CompleteAfterPersist []Completion
	// Refused is what other members sent that no sound member sends, for people to know.
	Refused []Refused
	// Fault says that the member can't go on, such as an instance that calls an rmw function it does
	// not know. The world stops the member. If it is a Forgotten, the disk is lost: the world wipes it, and may start the
	// member again, which joins as a newcomer.
	Fault error
}

// Refused is a message, or a page of records, that was not believed.
type Refused struct {
	From view.MemberID
	Why  error // names what it told, and the bound
}

// Forgotten is the fault of a member whose disk lacks some of what others have heard that it held, as one does that was put
// back from an older copy. What it promised is void.
type Forgotten struct {
	By  view.MemberID // who had heard it
	Why string        // what is known of the disk, for people
}

// Error implements error.
func (f *Forgotten) Error() string {
	return fmt.Sprintf("this member's disk has forgotten what it held, and is lost: %s, says member %d", f.Why, f.By)
}

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
