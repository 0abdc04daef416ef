package gus

import (
	"github.com/georegister/georegister/replica/protocol/base"
)

// The paths that an operation or an answer can take, as protocol.Config.Count is told.
const (
	pathReadFinal     = "read.final"     // the largest tag that a quorum told of is final
	pathReadHeld      = "read.held"      // with three, and with relaxed quorums: enough hold it
	pathReadWaits     = "read.waits"     // it is not known to be final
	pathReadRecovers  = "read.locks"     // its writer did not say in time that it is
	pathReadRelays    = "read.relays"    // with relaxed quorums: too few held it, and were asked to
	pathReadPassed    = "read.passed"    // a larger tag came after a quorum's, and is not waited for
	pathReadOvertaken = "read.overtaken" // there is a larger tag meanwhile
	pathReadJoined    = "read.joined"    // a read joined one that began in the same turn
	pathReadBelow     = "read.below"     // the largest tag can't be decided, since too many have forgotten its write
	// with three: a member adopted what is not final from a reader, or a reader did
	pathAdopted      = "adopted"
	pathWriteFast    = "write.fast"    // the tag stayed as it was guessed
	pathWriteRetags  = "write.retags"  // the write got a larger one
	pathWriteHeard   = "write.heard"   // a READ, or the answer to one, told the writer that its tag is held
	pathLetPass      = "let-pass"      // with more than three: a member let a write come before its own ones
	pathWriteResumed = "write.resumed" // a write went on with the tag that it got in an earlier view
	pathRefused      = "refused"       // a ballot was refused
	pathForgotten    = "forgotten"     // a member could not tell what it had said of a write
	pathRetry        = "retry"         // a question was asked again
	pathUnsupported  = "unsupported"   // an rmw
)

// Paths lists the names that protocol.Config.Count can be told while the view stays what it is. That a member forgets
// takes more undecided writes of one key than searches make, but for those with smaller bounds (ForgetfulPaths).
func Paths() []string {
	return append(base.Paths(), pathReadFinal, pathReadHeld, pathReadWaits, pathReadRecovers, pathReadPassed,
		pathReadOvertaken, pathReadJoined, pathAdopted, pathWriteFast, pathWriteRetags, pathWriteHeard, pathRefused,
		pathRetry, pathUnsupported)
}

// ForgetfulPaths lists those that only members that forget lead to. That a read leaves out a tag (pathReadBelow) takes
// more schedules than the tests' searches try.
func ForgetfulPaths() []string { return []string{pathForgotten} }

// MajorityPaths lists those that only majorities of more than three lead to.
func MajorityPaths() []string { return []string{pathLetPass} }

// RelaxedPaths lists those that only relaxed quorums lead to.
func RelaxedPaths() []string { return []string{pathReadRelays} }

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathWriteResumed} }
