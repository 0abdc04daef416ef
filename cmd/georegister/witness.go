package main

import (
	"cmp"
	"context"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/georegister/georegister/witness"
)

func newWitnessCommand() *cobra.Command {
	var f processFlags
	return newProcessCommand(&cobra.Command{
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
		RunE: func(command *cobra.Command, _ []string) error {
			who, err := newWho(cmp.Or(f.self, os.Getenv("GEOREGISTER_SELF")), "")
			if err != nil {
				return err
			}
			config, err := witness.LoadConfig(f.config, uint32(who.Self))
			if err != nil {
				return err
			}
			return f.serve(command.Context(), config.ExitWithInput, func(ctx context.Context, log *zap.Logger) error {
				return witness.Run(ctx, config, witness.Options{Version: version, Log: log})
			})
		},
	}, &f, "witness", "witnesses")
}
