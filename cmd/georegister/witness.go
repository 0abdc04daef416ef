package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/cmd/logging"
	"github.com/georegister/georegister/witness"
)

func newWitnessCommand() *cobra.Command {
	var configPath, logPath, level, self string
	command := &cobra.Command{
		Use:   "witness",
		Short: "Run a witness of a cluster with the protocol CURP",
		Long: `Run a witness of a cluster with the protocol CURP, as a configuration file says, until SIGTERM or Ctrl-C:

    cluster: shop
    self: 7                  # or --self, or GEOREGISTER_SELF in the environment
    directory: /data
    durability: Sync         # or Memory: a witness that stops has lost what it accepted
    listen: {peer: ":7000", http: ":7001"}

A witness saves requests for masters that have not copied them to their backups yet. One process serves
many masters; the manager begins and ends its life for each. The exit status is not 0 if the witness
fails, such as when its disk does; it never goes on with a disk that it can't trust.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			who, err := newWho(cmp.Or(self, os.Getenv("GEOREGISTER_SELF")), "")
			if err != nil {
				return err
			}
			config, err := witness.LoadConfig(configPath, uint32(who.Self))
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
			return witness.Run(ctx, config, witness.Options{Version: version, Log: log})
		},
	}
	command.Flags().StringVar(&configPath, "config", "", "the configuration file, in YAML or JSON")
	command.Flags().StringVar(&self, "self", "", "the witness's id, for a configuration that witnesses share")
	command.Flags().StringVar(&logPath, "log", "", "where to log (default: standard error)")
	command.Flags().StringVar(&level, "log-level", "info", "the least severe level to log: debug, info, warn or error")
	must(command.MarkFlagRequired("config"))
	return command
}
