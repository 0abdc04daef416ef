package main

import (
	"context"
	"errors"
	"io"
	"os"
	"syscall"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/georegister/georegister/cmd/logging"
)

// processFlags are the flags of a command that is one process of a cluster until it is told to end.
type processFlags struct{ config, log, level, self string }

// newProcessCommand adds the flags to a command; its processes are called by a word and its plural.
func newProcessCommand(command *cobra.Command, f *processFlags, one, several string) *cobra.Command {
	command.Args = cobra.NoArgs
	flags := command.Flags()
	flags.StringVar(&f.config, "config", "", "the configuration file, in YAML or JSON")
	flags.StringVar(&f.self, "self", "", "the "+one+"'s id, for a configuration that "+several+" share")
	flags.StringVar(&f.log, "log", "", "where to log (default: standard error)")
	flags.StringVar(&f.level, "log-level", "info", "the least severe level to log: debug, info, warn or error")
	must(command.MarkFlagRequired("config"))
	return command
}

// serve runs a process whose configuration was read: with a log, with the machine's memory, and with files that nobody
// else may read. It runs until the context ends, or with withInput until standard input ends.
func (f *processFlags) serve(ctx context.Context, withInput bool, run func(context.Context, *zap.Logger) error) error {
	log, err := logging.New(f.log, f.level)
	if err != nil {
		return err
	}
	defer func() { _ = log.Sync() }() // fails on terminals and pipes, which need none
	relaxCollector()
	syscall.Umask(0o077) // clients' values are in the files of a disk
	if withInput {
		var cancel context.CancelFunc
		ctx, cancel = untilEnd(ctx, os.Stdin)
		defer cancel()
	}
	return run(ctx, log)
}

// untilEnd is a context that also ends when the input does, as a pipe does when its writer is gone.
func untilEnd(ctx context.Context, input io.Reader) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go func() {
		_, err := io.Copy(io.Discard, input)
		cancel(errors.Join(errors.New("standard input ended"), err))
	}()
	return ctx, func() { cancel(nil) }
}

// must is for mistakes in the commands' own definitions.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
