package rmwpaxos

import (
	"slices"

	"github.com/georegister/georegister/replica/protocol/base"
)

// The paths that an operation can take, as protocol.Config.Count is told.
const (
	pathRead            = "read"             // a quorum was consistent
	pathReadRetry       = "read.retry"       // it was not, and is asked again
	pathReadHelps       = "read.helps"       // it was not again and again
	pathReadJoined      = "read.joined"      // a proposal of this member told as much
	pathLearned         = "learned"          // a vote that this member had missed
	pathFast            = "fast"             // phase 1 was skipped
	pathSuccessor       = "successor"        // the next state was proposed after phase 1
	pathUnchanged       = "unchanged"        // nothing had to be proposed
	pathWriteThrough    = "writethrough"     // somebody's proposal was finished
	pathHelped          = "writethrough.all" // and that was all that had to be done
	pathInconsistentAck = "ack.inconsistent" // acceptors granted different rounds, or none
	pathLostVote        = "vote.lost"        // another proposer was faster
	pathContention      = "contention"       // a round was lost to another proposer
	pathBackOff         = "backoff"          // and the next one waits
	pathHand            = "hand"             // a batch was handed to the key's proposer
	pathHeeded          = "hand.heeded"      // a member learns that another one proposes for all
	pathStillHanded     = "hand.still"       // which works on it
	pathTakenBack       = "hand.back"        // who is silent
	pathAlreadyIn       = "batch.in"         // a batch was in the state already
	pathDuplicate       = "rmw.duplicate"    // an rmw that its client had sent before
	pathRetryRead       = "retry.read"       // a read asked again for answers
	pathRetryPrepare    = "retry.prepare"    // phase 1 did
	pathRetryVote       = "retry.vote"       // phase 2 did
	pathRefused         = "refused"          // an update that may not be applied more than once
	pathResumed         = "resumed"          // a batch went on over a change of the view
)

// Paths lists the names that protocol.Config.Count can be told while the view stays what it is.
func Paths() []string {
	return append(base.Paths(),
		pathRead, pathReadRetry, pathReadHelps, pathReadJoined, pathLearned, pathFast, pathSuccessor, pathUnchanged,
		pathWriteThrough, pathHelped, pathInconsistentAck, pathLostVote, pathContention, pathBackOff, pathHand,
		pathHeeded, pathStillHanded, pathTakenBack, pathAlreadyIn, pathDuplicate, pathRetryRead, pathRetryPrepare,
		pathRetryVote,
	)
}

// AtLeastOncePaths is Paths with Options.AtLeastOnce, where nobody looks for duplicates.
func AtLeastOncePaths() []string {
	return slices.DeleteFunc(Paths(), func(path string) bool { return path == pathAlreadyIn || path == pathDuplicate })
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathResumed} }
