// Command georegister is the store: a member of a cluster, the embedded cluster, and the tools.
package main

import (
	"github.com/spf13/cobra"

	"github.com/georegister/georegister/cmd/program"
)

// version is set by the linker.
var version = "unknown"

func main() { program.Run(newCommand()) }

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "georegister",
		Short:         "A linearizable key-value store across regions",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newDevCommand(), newReplicaCommand(), newWitnessCommand(), newProtocolsCommand(),
		newSimulateCommand(), newExploreCommand(), newBenchCommand(), newCheckCommand(), newVerificationCommand())
	return command
}
