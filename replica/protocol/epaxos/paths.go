package epaxos

import "github.com/georegister/georegister/replica/protocol/instance"

// command is what paths of package instance call commands.
const command = "command"

// Paths lists the paths of the protocol that Config.Count hears of while the view stays what it is.
func Paths() []string {
	return append(instance.Paths(command), instance.PathsWithoutRegisters(command)...)
}

// ChangePaths lists those that only a change of the view leads to.
func ChangePaths() []string { return instance.ChangePaths(command) }
