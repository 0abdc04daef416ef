package caspaxos

import (
	"github.com/georegister/georegister/replica/protocol/base"
)

// The paths that an operation can take, as protocol.Config.Count is told.
const (
	pathSettled      = "settled"      // a majority has accepted what there is, and nothing had to change
	pathProposed     = "proposed"     // a majority has accepted a proposal
	pathReadProposes = "read.propose" // a read found states that differ
	pathBackOff      = "backoff"      // another coordinator was faster
	pathAlreadyIn    = "change.in"    // a change was in the state already
	pathDuplicate    = "rmw.duplicate"
	pathRetry        = "retry"   // a question is asked again
	pathResumed      = "resumed" // a change went on over a change of the view
)

// Paths lists the names that protocol.Config.Count can be told while the view stays what it is.
func Paths() []string {
	return append(
		base.Paths(), pathSettled, pathProposed, pathReadProposes, pathBackOff, pathAlreadyIn, pathDuplicate, pathRetry,
	)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathResumed} }
