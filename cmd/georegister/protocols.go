package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/capability"
	"github.com/georegister/georegister/workload"
)

func newProtocolsCommand() *cobra.Command {
	var manifest string
	var c comparison
	command := &cobra.Command{
		Use:   "protocols",
		Short: "List the protocols: what they serve, at which cost; with -f: what each gives at a manifest's sites",
		Long:  protocolsLong,
		Example: `  georegister protocols
  georegister protocols -f config/samples/gryff-five-regions.yaml
  georegister protocols -f config/samples/gus-three-regions.yaml --workload 50:50:0 --conflict 0.25 --by-site`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			if manifest == "" {
				for _, name := range []string{"rtt", "workload", "conflict", "clients", "duration", "by-site"} {
					if command.Flags().Changed(name) {
						return fmt.Errorf("--%s: it is about the sites of a manifest; add -f", name)
					}
				}
				_, err := fmt.Fprint(command.OutOrStdout(), capability.Markdown())
				return err
			}
			cluster, err := v1alpha1.Load(manifest)
			if err != nil {
				return err
			}
			c.spec = cluster.Spec
			command.SilenceUsage = true // from here on, what fails is not a misspelt command line
			return c.run(command.Context(), command.OutOrStdout(), command.ErrOrStderr())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&manifest, "filename", "f", "", "the manifest; samples are in config/samples")
	flags.StringVar(&c.mix, "workload", "gryff-a", mixHelp())
	flags.Float64Var(&c.conflict, "conflict", workload.Default().Conflict,
		"with -f: the probability that an operation is on the key that all clients share, from 0 to 1")
	flags.IntVar(&c.clients, "clients", 8, "with -f: closed-loop clients of each member")
	flags.StringVar(&c.rtt, "rtt", "",
		"with -f: round trips between the sites of a manifest without spec.wan, such as a-b=72ms,a-c=151ms,b-c=88ms")
	flags.DurationVar(&c.duration, "duration", 0,
		"with -f: virtual time; figures leave out its first and last twelfth (default: 150 of the longest round trips)")
	flags.BoolVar(&c.bySite, "by-site", false, "with -f: a line for each site too")
	return command
}
