// Package program runs a command as a program: with its signals, its errors and its exit status.
package program

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

// Run carries a command out. The first SIGINT or SIGTERM ends the command's context, so that it ends in order; a second
// one ends the process at once, and so does an error, which is printed, with the status that it has (WithStatus), or 1.
func Run(command *cobra.Command) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop)
	if err := command.ExecuteContext(ctx); err != nil {
		fmt.Fprintf(os.Stderr, "georegister: %v\n", err)
		os.Exit(Status(err))
	}
}

// WithStatus is an error that ends the program with a status of its own, from 1 to 255; nil stays nil.
func WithStatus(err error, status int) error {
	if err == nil {
		return nil
	}
	return &coded{err, status}
}

// Undecided is the exit status of a command whose status is a verdict, where nothing was decided.
const Undecided = 2

// WithVerdict has the exit status of a command be a verdict: 1 for an error that is the violation, and Undecided for
// any other one, such as that of a flag.
func WithVerdict(command *cobra.Command, violation error) *cobra.Command {
	run := command.RunE
	command.RunE = func(c *cobra.Command, args []string) error {
		err := run(c, args)
		if errors.Is(err, violation) {
			return err
		}
		return WithStatus(err, Undecided)
	}
	command.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return WithStatus(err, Undecided) })
	return command
}

// Status is what an error ends the program with: 0 for none, 1 unless it says another.
func Status(err error) int {
	var own *coded
	switch {
	case err == nil:
		return 0
	case errors.As(err, &own):
		return own.status
	}
	return 1
}

type coded struct {
	error
	status int
}

func (c *coded) Unwrap() error { return c.error }
