// Package program runs a command as a program: with its signals, its errors and its exit status.
package program

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Run carries a command out. The first SIGINT or SIGTERM ends the command's context, so that it ends in order; a second
// one ends the process at once, and so does an error, which is printed, with status 1.
func Run(command *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "georegister: %v\n", err)
		os.Exit(1)
	}
}
