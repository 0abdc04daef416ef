package curpraft

import "github.com/georegister/georegister/replica/protocol/raft"

// Mistakes put known bugs back, one each, for tests that show that the simulator finds them. The zero value
// has none.
type Mistakes struct {
	QuorumOfWitnesses bool // a command is complete with f + 1 witnesses
	MoreThanThreshold bool // what is replayed must be in more than ceil(f/2) + 1 of the replies
	AnyTerm           bool // witnesses accept commands of another term
	// a witness goes on to accept commands of its term when it has told a new leader what it holds
	KeepAccepting bool
	// A new leader serves when what earlier ones committed is in its state, before its replay is committed.
	ServeEarly       bool
	DropEarly        bool // a leader's records are dropped when a command is in its log, and not committed
	AckBeforePersist bool // a witness accepts a command before its record is durable
	HeedAcks         bool // replay heeds what clients acknowledged
	UpdateUnsynced   bool // a leader answers at once for a key with changes that are not committed
	ReadUnsynced     bool // reads don't wait for what the leader has answered and not applied
}

// The paths that Config.Count hears of.
const (
	pathFast       = "curp.fast"       // an operation was complete before it was committed
	pathConflict   = "curp.conflict"   // the leader did not answer before the commit
	pathRejected   = "curp.rejected"   // a witness held what does not commute
	pathOtherTerm  = "curp.other-term" // a witness, or its member, was in another term
	pathUnrecorded = "curp.unrecorded" // one round trip was not attempted
	pathSuspect    = "curp.suspect"    // a witness gave to the leader what was in the way for long
	pathRecovered  = "curp.recovered"  // a new leader has proposed a replay
	pathReplayed   = "curp.replayed"   // of something
)

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is.
func Paths() []string {
	return append(raft.Paths(), raft.PathHeld, pathFast, pathConflict, pathRejected, pathOtherTerm,
		pathUnrecorded, pathSuspect, pathRecovered, pathReplayed)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return raft.ChangePaths() }
