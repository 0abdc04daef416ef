package raft

import "github.com/georegister/georegister/replica/protocol/base"

// The paths that Config.Count hears of.
const (
	pathElected   = "lead"             // this member was elected
	pathCampaign  = "elect"            // it called for an election
	pathStepDown  = "lead.unsupported" // a leader heard no quorum
	pathContent   = "elect.content"    // a leader, or who follows one, wants no election
	pathRecount   = "lead.recount"     // a leader or candidate heard of a lost disk
	pathForward   = "forward"          // commands were handed to another member
	pathRetry     = "retry"            // an operation was handed over again
	pathDropped   = "dropped"          // the node had too much to do
	pathAgain     = "again"            // a command was in the log twice
	pathDuplicate = "rmw.duplicate"    // a client had sent it through another coordinator
	pathCompact   = "log.compact"      // the log's beginning was forgotten
	pathPull      = "pull"             // a member was behind a leader's log
	pathInstall   = "install"          // and has the state of another one
	pathUnseen    = "unknown.unseen"   // an answer was not seen by the coordinator
	pathResumed   = "resumed"          // an operation went on in another view
	PathHeld      = "read.held"        // an extension: a read waited for what the leader has executed and not applied
)

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is. The two that are
// left out are rare: pathDropped, and pathUnseen, which needs a client without a session.
func Paths() []string {
	return []string{
		pathElected, pathCampaign, pathStepDown, pathContent, pathRecount, pathForward, pathRetry,
		pathAgain, pathDuplicate, pathCompact, pathPull, pathInstall, base.PathUnknown, base.PathUnavailable,
	}
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return []string{pathResumed} }
