package instance

// The paths that commands can take, as protocol.Config.Count is told behind Options.Commands.
const (
	pathFast             = "fast"               // committed after one round trip
	pathFastMerged       = "fast-merged"        // with what the only one who was asked had added
	pathNotAlone         = "not-alone"          // the others were asked too
	pathSlow             = "slow"               // accepted by a majority before the commit
	pathAgain            = "again"              // the instance became a no-op, and its commands were proposed again
	pathReadAgain        = "read-again"         // what a read returned was forgotten
	pathRetry            = "retry"              // a question was asked again
	pathDuplicate        = "duplicate"          // a command that its client had sent before
	pathCycle            = "cycle"              // instances that depend on each other were executed
	pathAnsweredOnCommit = "answered-on-commit" // a write was answered before its execution
	pathResumed          = "resumed"            // a command went on over a change of the view
)

// The paths of instances.
const (
	pathRecoverBegin     = "recover.begin"     // a member recovers an instance
	pathRecoverCommitted = "recover.committed" // some member knows the commit
	pathRecoverAccepted  = "recover.accepted"  // some member has accepted attributes
	pathRecoverFast      = "recover.fast"      // a fast commit may have been
	pathRecoverWait      = "recover.wait"      // a fast commit may have been, and too few can say of what
	pathRecoverNoOp      = "recover.no-op"     // nobody knows the commands
	pathRecoverValidate  = "recover.validate"  // a fast commit may have been, and what interferes tells
	pathRecoverRivals    = "recover.rivals"    // what interferes says that it was not
	pathRecoverPreempted = "recover.preempted" // another member recovers it
	pathStateInstalled   = "state.installed"   // the key's state was taken from a member that is ahead
)

// Paths lists those that commands of that name take in Gryff and in EPaxos.
func Paths(commands string) []string {
	return append(named(commands,
		pathFast, pathFastMerged, pathNotAlone, pathSlow, pathAgain, pathRetry, pathDuplicate, pathCycle,
	), pathRecoverBegin, pathRecoverCommitted, pathRecoverAccepted, pathRecoverFast, pathRecoverNoOp,
		pathRecoverPreempted, pathStateInstalled)
}

// FewFaultsPaths lists what is taken besides where fewer than any minority may be lost.
func FewFaultsPaths() []string { return []string{pathRecoverWait} }

// ValidatedPaths lists what EPaxos' recoveries take besides where any minority of more than three members may be lost.
func ValidatedPaths() []string {
	return []string{pathRecoverValidate, pathRecoverRivals, pathRecoverWait}
}

// PathsWithoutRegisters lists what reads and writes take besides where they are commands too.
func PathsWithoutRegisters(commands string) []string {
	return named(commands, pathReadAgain, pathAnsweredOnCommit)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths(commands string) []string { return named(commands, pathResumed) }

func named(commands string, paths ...string) []string {
	for i := range paths {
		paths[i] = commands + "." + paths[i]
	}
	return paths
}
