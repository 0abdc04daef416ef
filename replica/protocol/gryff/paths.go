package gryff

import (
	"github.com/georegister/georegister/replica/protocol/instance"
)

// The paths that an operation can take, as protocol.Config.Count is told; those of rmws are package instance's.
const (
	pathReadFast          = "read.fast"          // a quorum held the largest carstamp
	pathReadWriteBack     = "read.write-back"    // a read took its second phase
	pathWrite             = "write"              // a write began its second phase
	pathRegisterRetry     = "register.retry"     // a read, a write or a fence asked again
	pathAwaited           = "register.awaited"   // a read or a write waited for what the process before had voted on
	pathWriteResumed      = "write.resumed"      // a write went on with the carstamp that it got in an earlier view
	pathReadRegular       = "read.regular"       // a regular read answered with what no quorum is known to hold
	pathReadOlder         = "read.older"         // or with a version that a quorum held when newer ones were on their way
	pathDependencyCarried = "dependency.carried" // an operation carries what its session depends on
	pathDependencyAwaited = "dependency.awaited" // which reads of this member write back already
	pathDependencyHeld    = "dependency.held"    // or does not, since a quorum holds it
	pathFence             = "fence"              // a fence ended
	pathReadAfter         = "read.after"         // a read began once a quorum held what it carried
	pathWriteAfter        = "write.after"        // so did a write
	pathRMWAfter          = "rmw.after"          // so did an rmw
)

// rmw is what paths of package instance call commands.
const rmw = "rmw"

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is.
func Paths() []string {
	return append(instance.Paths(rmw), pathReadFast, pathReadWriteBack, pathWrite, pathRegisterRetry, pathAwaited)
}

// PathsRSC lists those of Gryff-RSC: Paths, and what carries dependencies.
func PathsRSC() []string {
	return append(Paths(), pathReadRegular, pathReadOlder, pathDependencyCarried, pathDependencyAwaited, pathDependencyHeld, pathFence,
		pathReadAfter, pathWriteAfter, pathRMWAfter)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return append(instance.ChangePaths(rmw), pathWriteResumed) }
