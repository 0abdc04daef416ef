package main

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"go.uber.org/zap"

	"github.com/georegister/georegister/replica/node"
	"github.com/georegister/georegister/replica/view"
)

func newReplicaCommand() *cobra.Command {
	var f processFlags
	var site string
	command := newProcessCommand(&cobra.Command{
		Use:   "replica",
		Short: "Run one member of a cluster",
		Long: `Run one member of a cluster, as a configuration file says, until SIGTERM or Ctrl-C; operations in flight
are answered first. The exit status is not 0 if the member fails, such as when its disk does; it never
goes on with a disk that it can't trust.

Members can share one configuration: --self and --site, or GEOREGISTER_SELF and GEOREGISTER_SITE in the
environment, then say which member this is.`,
		RunE: func(command *cobra.Command, _ []string) error {
			who, err := newWho(
				cmp.Or(f.self, os.Getenv("GEOREGISTER_SELF")), cmp.Or(site, os.Getenv("GEOREGISTER_SITE")))
			if err != nil {
				return err
			}
			config, err := node.LoadConfig(f.config, who)
			if err != nil {
				return err
			}
			return f.serve(command.Context(), config.ExitWithInput, func(ctx context.Context, log *zap.Logger) error {
				return node.Run(ctx, config, node.Options{
					Version: version, Log: log, ClientMemory: clientMemory(os.ReadFile),
					Cache: cacheMemory(os.ReadFile),
				})
			})
		},
	}, &f, "member", "members")
	command.Flags().StringVar(&site, "site", "", "the member's site, for a configuration that members share")
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
