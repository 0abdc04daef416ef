package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/cmd/logging"
	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/view"
)

func newReplicaCommand() *cobra.Command {
	var configPath, logPath, level, self, site string
	command := &cobra.Command{
		Use:   "replica",
		Short: "Run one member of a cluster",
		Long: `Run one member of a cluster, as a configuration file says, until SIGTERM or Ctrl-C; operations in flight
are answered first. The exit status is not 0 if the member fails, such as when its disk does; it never
goes on with a disk that it can't trust.

Members can share one configuration: --self and --site, or GEOREGISTER_SELF and GEOREGISTER_SITE in the
environment, then say which member this is.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			who, err := newWho(cmp.Or(self, os.Getenv("GEOREGISTER_SELF")), cmp.Or(site, os.Getenv("GEOREGISTER_SITE")))
			if err != nil {
				return err
			}
			config, err := node.LoadConfig(configPath, who)
			if err != nil {
				return err
			}
			log, err := logging.New(logPath, level)
			if err != nil {
				return err
			}
			defer func() { _ = log.Sync() }() // fails on terminals and pipes, which need none
			relaxCollector()
			private()
			ctx := command.Context()
			if config.ExitWithInput {
				var cancel context.CancelFunc
				ctx, cancel = untilEnd(ctx, os.Stdin)
				defer cancel()
			}
			return node.Run(ctx, config, node.Options{Version: version, Log: log, ClientMemory: clientMemory(os.ReadFile)})
		},
	}
	command.Flags().StringVar(&configPath, "config", "", "the configuration file, in YAML or JSON")
	command.Flags().StringVar(&self, "self", "", "the member's id, for a configuration that members share")
	command.Flags().StringVar(&site, "site", "", "the member's site, for a configuration that members share")
	command.Flags().StringVar(&logPath, "log", "", "where to log (default: standard error)")
	command.Flags().StringVar(&level, "log-level", "info", "the least severe level to log: debug, info, warn or error")
	must(command.MarkFlagRequired("config"))
	return command
}

// newWho is the member that flags and environment name; an empty text leaves that to the configuration.
func newWho(self, site string) (node.Who, error) {
	who := node.Who{Site: site}
	if self != "" {
		id, err := strconv.ParseUint(self, 10, 16)
		if err != nil || id == 0 {
			return who, fmt.Errorf("--self %s: give the member's id, from 1 to %d", self, view.MaxMemberID)
		}
		who.Self = view.MemberID(id)
	}
	return who, nil
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
