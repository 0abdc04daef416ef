package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/georegister/georegister/replica/node"
)

func newReplicaCommand() *cobra.Command {
	var configPath, logPath, level string
	command := &cobra.Command{
		Use:   "replica",
		Short: "Run one member of a cluster",
		Long: `Run one member of a cluster, as a configuration file says, until SIGTERM or Ctrl-C; operations in flight
are answered first. The exit status is not 0 if the member fails, such as when its disk does; it never
goes on with a disk that it can't trust.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			config, err := node.LoadConfig(configPath)
			if err != nil {
				return err
			}
			log, err := newLogger(logPath, level)
			if err != nil {
				return err
			}
			defer func() { _ = log.Sync() }() // fails on terminals and pipes, which need none
			relaxCollector()
			ctx := command.Context()
			if config.ExitWithInput {
				var cancel context.CancelFunc
				ctx, cancel = untilEnd(ctx, os.Stdin)
				defer cancel()
			}
			return node.Run(ctx, config, log)
		},
	}
	command.Flags().StringVar(&configPath, "config", "", "the configuration file, in YAML or JSON")
	command.Flags().StringVar(&logPath, "log", "", "where to log (default: standard error)")
	command.Flags().StringVar(&level, "log-level", "info", "the least severe level to log: debug, info, warn or error")
	must(command.MarkFlagRequired("config"))
	return command
}

// newLogger logs JSON lines to a file, or to standard error if path is empty.
func newLogger(path, level string) (*zap.Logger, error) {
	config := zap.NewProductionConfig()
	config.EncoderConfig.EncodeTime = zapcore.ISO8601TimeEncoder
	config.DisableStacktrace = true
	config.Sampling = nil
	parsed, err := zap.ParseAtomicLevel(level)
	if err != nil {
		return nil, fmt.Errorf("--log-level %s: use debug, info, warn or error", level)
	}
	config.Level = parsed
	if path != "" {
		config.OutputPaths = []string{path}
	}
	log, err := config.Build()
	if err != nil {
		return nil, fmt.Errorf("--log %s: %w", path, err)
	}
	return log, nil
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
