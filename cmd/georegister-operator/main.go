// Command georegister-operator is all that talks to Kubernetes: the operator, and the plugin of kubectl. It is a program
// of its own, so that whoever wants a store on his machine does not wait for the libraries of Kubernetes to compile.
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
		Use:           "georegister-operator",
		Short:         "The Kubernetes operator of georegister, and its kubectl plugin",
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	command.AddCommand(newRunCommand(), newKubectlCommand())
	return command
}
