// Package explorer takes a small scope, which is a few members, a few operations and a few faults, through every order
// of what can happen in it: deliveries, writes to disks, timeouts, invocations, crashes and losses. It runs the code of
// the protocols that is deployed. What the simulator looks for among random schedules of many operations, this decides
// for all schedules of few.
//
// Members are deterministic: what one does follows from its local state and from what happens to it. So each local
// state is a number here. It is made once, by giving a new process everything that had happened to the member, and told
// apart from others by the digest of all that the process and its disk hold (replica/protocol/digest). What an input
// makes of a local state is worked out once, too. A global state is then a few numbers: a local state for each member,
// the messages on their way, what became of the operations, and which faults there have been. Of those that were
// visited a hash is kept.
//
// Three things are left out, which nobody could tell from what is explored: messages that never make a difference any
// more (spent.go), the moment at which a batch becomes durable where that makes none (hasten.go), and what is reached
// with more faults than it takes. What is reached with fewer faults comes first.
//
// At each end of an operation the history so far is checked, by the checkers of replica/history. Where nothing is left
// to happen, everything is retransmitted and delivered, no operation may be stuck, and each member reads each key: what
// was acknowledged must be there.
package explorer

import (
	"time"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Start starts a protocol over a journal, which may hold the state of an earlier process.
type Start func(protocol.Config, *protocol.Journal) (protocol.Protocol, error)

// Scope is what is explored.
type Scope struct {
	Start   Start
	Members int // from 1
	// Regular says that the protocol is regular sequentially consistent: each session carries what it depends on.
	Regular bool
	// Partitioned says that the protocol has masters: one partition is explored, with a witness (partition.go).
	Partitioned bool
	// Tolerance is how many members may be lost at once (protocol.Config.Faults); 0: any minority.
	Tolerance int
	// Before are operations that have ended before anything else happens, one after the other.
	Before []Session
	// Sessions are the clients. Operations of different sessions overlap in every way.
	Sessions []Session
	Faults   Faults
	// AtOnce has each batch become durable in the step that made it. Otherwise that is a step of its own.
	AtOnce bool
}

// Session is a client of one member, with its operations, one after the other.
type Session struct {
	Member     int // from 0
	Operations []register.Operation
}

// Faults are how many of each kind there may be.
type Faults struct {
	Timeouts int // a member's clock moves on by its time to retransmit; with masters, all clocks do
	// Takeovers: a member's clock moves on by the time after which it finishes what another one began; with masters, a
	// failover.
	Takeovers  int
	Losses     int // of messages
	Duplicates int // of messages
	Crashes    int // a process stops, and what is not durable there is lost; it starts again at any time later
}

// The times of the members' configuration. Only what they are beside each other matters.
const (
	retry   = time.Second
	suspect = 5 * time.Second
)

// Class is how a run goes wrong.
type Class string

// The ways to go wrong.
const (
	Violation Class = "violation" // the history is not what the protocol promises
	Stuck     Class = "stuck"     // an operation does not end though faults are over
	Unbounded Class = "unbounded" // operations have ended, but the members do not come to rest
	Broken    Class = "broken"    // a member stops with a fault, or does not start
	Undecided Class = "undecided" // the check of a history did not end
)

// Failure is a run that went wrong.
type Failure struct {
	Class   Class
	Why     string // for people
	Steps   int    // of the run
	Diagram string // of it, with a lane for each member
}

// Error implements error.
func (f *Failure) Error() string { return string(f.Class) + ": " + f.Why }

// Progress is how far an exploration is.
type Progress struct {
	States     int // that were found
	Waiting    int // of them, from which it has not gone on yet
	Depth      int // steps from the beginning to those that it goes on from now
	Deviations int // of those, from the plain order; if every order is taken, the faults and timeouts
	Locals     int // local states of members
	Ends       int // states in which nothing was left to happen
	Histories  int // that were checked
}

// Report is what an exploration found.
type Report struct {
	Progress
	// Complete says that nothing of the scope is left. If there is a bound on deviations, it is about that.
	Complete bool
	// Completed is the largest number of deviations, or of faults, of which all orders were taken; -1: of none.
	Completed int
	Failure   *Failure // the first, with the fewest deviations, and of these the fewest steps; nil: there was none
}
