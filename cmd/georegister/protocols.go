package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/capability"
)

func newProtocolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "protocols",
		Short: "List the protocols: what they serve, at which cost, with how many members",
		Args:  cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(command.OutOrStdout(), capability.Markdown())
			return err
		},
	}
}
