// Command georegister is the one binary: a member of a cluster, the embedded cluster, and the tools.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// version is set by the linker.
var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	// The first signal ends in order; a second one, at once.
	context.AfterFunc(ctx, stop)
	root := newCommand
	if isPlugin(os.Args[0]) {
		root = newPluginCommand
	}
	if err := root().ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "georegister: %v\n", err)
		os.Exit(1)
	}
}

func newCommand() *cobra.Command {
	command := &cobra.Command{
		Use:           "georegister",
		Short:         "A linearizable key-value store across regions",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newDevCommand(), newReplicaCommand(), newOperatorCommand(), newProtocolsCommand(), newSimulateCommand(), newBenchCommand(), newCheckCommand(), newVerificationCommand(), newKubectlCommand())
	return command
}
