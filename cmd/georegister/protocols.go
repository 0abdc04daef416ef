package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/replica/capability"
)

// newProtocolsCommand prints what the protocols can do.
func newProtocolsCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "protocols",
		Short: "Print what each protocol can do and what it costs",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			_, err := fmt.Fprint(cmd.OutOrStdout(), capability.Markdown())
			return err
		},
	}
}
