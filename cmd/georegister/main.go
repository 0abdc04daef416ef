// Command georegister is the store: a member of a cluster, the embedded cluster, and the tools.
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
	if err := newCommand().ExecuteContext(ctx); err != nil {
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
	command.AddCommand(newDevCommand(), newReplicaCommand(), newProtocolsCommand(), newSimulateCommand(), newBenchCommand(), newCheckCommand(), newVerificationCommand())
	return command
}
