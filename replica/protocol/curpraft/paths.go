package curpraft

import "github.com/georegister/georegister/replica/protocol/raft"

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
