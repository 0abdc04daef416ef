package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/dev/console"
)

func newDevCommand() *cobra.Command {
	var (
		manifest string
		check    bool
		session  = console.Session{In: os.Stdin, Out: os.Stdout}
		checking console.CheckOptions
	)
	command := &cobra.Command{
		Use:   "dev -f MANIFEST",
		Short: "Run a whole cluster on this machine, with its wide-area network emulated",
		Long: `Run every member of a GeoRegisterCluster manifest as a process of its own on this machine, with real
connections between them and the manifest's wide-area delays on every message. Each site has a Redis
port and a gRPC port. Sites can be killed, restarted, wiped and partitioned, and members added, removed
and replaced, from the prompt or by the subcommands in another shell. Ctrl-C stops all members in
order. Only traffic between members is delayed: a client is as near to every site as its own loopback
interface. With protocol CURP each member has a witness beside it, as a process of its own, and the
masters of those that the others miss are replaced. Masters move, and shards are split, on command; a
manifest may ask for more shards than it did when its data directory was made.

With --check, clients at every site run a bounded workload while members are killed, wiped, restarted
and replaced; then the recorded history is checked, and the exit status is 0 only if it is
linearizable, or regular sequentially consistent under GryffRSC.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) (err error) {
			if session.Options.Manifest, err = v1alpha1.Load(manifest); err != nil {
				return err
			}
			if session.Options.Binary, err = os.Executable(); err != nil {
				return fmt.Errorf("find the program that members run as: %w", err)
			}
			if checking.History != "" && !check {
				return fmt.Errorf("--history: only a --check records one; add --check")
			}
			if check {
				if checking.Clients < 1 || checking.Duration < time.Second {
					return fmt.Errorf("--clients must be at least 1 and --duration at least 1s")
				}
				session.Check = &checking
			}
			return session.Run(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringVarP(&manifest, "filename", "f", "", "the manifest; samples are in config/samples")
	flags.StringVar(&session.Options.Data, "data", "", "keep the cluster in this directory (default: a temporary one)")
	flags.IntVar(&session.Options.RedisBasePort, "redis-base-port", 0,
		"the first member's Redis port, the others follow (default: free ports)")
	flags.BoolVar(&check, "check", false, "run a bounded workload with faults, check it, and exit with the verdict")
	flags.DurationVar(&checking.Duration, "duration", 20*time.Second, "with --check: how long the workload runs")
	flags.IntVar(&checking.Clients, "clients", 4, "with --check: clients at each site")
	flags.StringVar(&checking.History, "history", "",
		"with --check: write the recorded operations to this file, for `georegister check`")
	must(command.MarkFlagRequired("filename"))
	for _, a := range console.Actions() {
		command.AddCommand(newDevAction(a))
	}
	return command
}

// newDevAction is a command to a cluster that runs in another shell.
func newDevAction(a console.Action) *cobra.Command {
	var data string
	command := &cobra.Command{
		Use:   a.Usage(),
		Short: strings.ToUpper(a.Help[:1]) + a.Help[1:],
		Args: func(_ *cobra.Command, args []string) error {
			if a.Check(len(args)) != nil {
				return fmt.Errorf("%d arguments; use: georegister dev %s", len(args), a.Usage())
			}
			return nil
		},
		RunE: func(command *cobra.Command, args []string) error {
			err := console.Send(command.Context(), data, strings.Join(append([]string{a.Name}, args...), " "),
				command.OutOrStdout())
			if err == nil {
				_, err = fmt.Fprintln(command.OutOrStdout())
			}
			return err
		},
	}
	command.Flags().StringVar(&data, "data", "", "the data directory of the cluster (default: the only one that runs)")
	return command
}
