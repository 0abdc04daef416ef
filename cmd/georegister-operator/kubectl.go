package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/plugin"
)

// pluginName is what the binary must be called for kubectl to find it as `kubectl georegister`.
const pluginName = "kubectl-georegister"

// isPlugin reports whether the program was started by kubectl, by the name that it was started under.
func isPlugin(program string) bool {
	return strings.TrimSuffix(filepath.Base(program), ".exe") == pluginName
}

// newKubectlCommand is what `kubectl georegister` does; `georegister-operator kubectl` does the same.
func newKubectlCommand() *cobra.Command {
	var flags plugin.Flags
	command := &cobra.Command{
		Use:   "kubectl",
		Short: "Look at clusters on Kubernetes, drain their nodes, verify and break them (also: kubectl georegister)",
		Long: `Look at the clusters of a namespace, move members off a node, and verify that a cluster is linearizable,
with the rights of your kubeconfig. Under the name kubectl-georegister in a directory of PATH, the same
binary is the command "kubectl georegister".`,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	persistent := command.PersistentFlags()
	persistent.StringVar(&flags.Kubeconfig, "kubeconfig", "", "the kubeconfig file (default: as kubectl)")
	persistent.StringVar(&flags.Context, "context", "", "the context of the kubeconfig")
	persistent.StringVarP(&flags.Namespace, "namespace", "n", "", "the namespace (default: the context's)")
	command.AddCommand(
		newStatusCommand(&flags), newSitesCommand(&flags), newLogsCommand(&flags),
		newDrainCommand(&flags), newMoveCommand(&flags), newVerifyCommand(&flags), newChaosCommand(&flags),
		newOperatorCheckCommand(&flags),
	)
	return command
}

// newPluginCommand is the root where the binary is kubectl's plugin.
func newPluginCommand() *cobra.Command {
	command := newKubectlCommand()
	command.Use = pluginName
	command.Annotations = map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl georegister"}
	command.Version = version
	return command
}

func newStatusCommand(flags *plugin.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "status [NAME]",
		Short: "Tell in words how a cluster is, or all of the namespace",
		Args:  cobra.MaximumNArgs(1),
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.Status(ctx, out, optional(args))
		}),
	}
}

func newSitesCommand(flags *plugin.Flags) *cobra.Command {
	return &cobra.Command{
		Use:   "sites [NAME]",
		Short: "Tell where clients find each site of a cluster, and who serves there",
		Args:  cobra.MaximumNArgs(1),
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.Sites(ctx, out, optional(args))
		}),
	}
}

func newLogsCommand(flags *plugin.Flags) *cobra.Command {
	var options plugin.LogOptions
	command := &cobra.Command{
		Use:   "logs [NAME]",
		Short: "Print the logs of a cluster's members as one",
		Args:  cobra.MaximumNArgs(1),
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.Logs(ctx, out, optional(args), options)
		}),
	}
	f := command.Flags()
	f.StringVar(&options.Site, "site", "", "only the members of this site")
	f.BoolVarP(&options.Follow, "follow", "f", false, "go on until Ctrl-C")
	f.BoolVarP(&options.Previous, "previous", "p", false, "of the containers that ended before")
	f.Int64Var(&options.Tail, "tail", -1, "the last lines of each member (default: all)")
	f.DurationVar(&options.Since, "since", 0, "only lines that are younger, such as 5m")
	return command
}

func newDrainCommand(flags *plugin.Flags) *cobra.Command {
	var timeout time.Duration
	command := &cobra.Command{
		Use:   "drain NODE",
		Short: "Move the namespace's members off a node, one at a time, each while its quorum is safe",
		Long: `Cordon a node and evict the members of the namespace's clusters that run on it, one at a time: each only
while its cluster's quorum is healthy and all other members vote, and through the eviction API, which
honours PodDisruptionBudgets. A member whose volume is on the node waits for the node to return.`,
		Args: cobra.ExactArgs(1),
		RunE: connected(flags,
			within(&timeout, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
				return k.Drain(ctx, out, args[0])
			})),
	}
	command.Flags().DurationVar(&timeout, "timeout", 10*time.Minute, "when to give up")
	return command
}

func newMoveCommand(flags *plugin.Flags) *cobra.Command {
	var timeout time.Duration
	var back bool
	var shard int
	command := &cobra.Command{
		Use:   "move NAME SHARD SITE | move NAME SHARD --default",
		Short: "Have the master of a shard be at another site, with protocol CURP",
		Long: `Edit spec.homes of a cluster with protocol CURP, and wait until the master of the shard is at the site and
serves. A member there fetches the state first, while the present master serves. With --default the
shard gets the home back that it has without spec.homes.`,
		Args: cobra.RangeArgs(2, 3),
		PreRunE: func(command *cobra.Command, args []string) (err error) {
			if back == (len(args) == 3) {
				return fmt.Errorf("name either a site or --default; use: kubectl georegister %s", command.Use)
			}
			if shard, err = strconv.Atoi(args[1]); err != nil {
				return fmt.Errorf("SHARD is %q; it must be the number of a shard, which status.partitions has", args[1])
			}
			return nil
		},
		RunE: connected(flags,
			within(&timeout, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
				return k.Move(ctx, out, args[0], shard, optional(args[2:]))
			})),
	}
	f := command.Flags()
	f.DurationVar(&timeout, "timeout", 10*time.Minute, "when to give up waiting; the move goes on")
	f.BoolVar(&back, "default", false, "take the home away that the shard was given")
	return command
}

func newVerifyCommand(flags *plugin.Flags) *cobra.Command {
	options := plugin.VerifyOptions{}
	command := &cobra.Command{
		Use:   "verify [NAME]",
		Short: "Run a bounded workload against a cluster from every site, and check that it is linearizable",
		Long: `Connect to a pod of every site through the apiserver, run a bounded workload on keys of a prefix of its
own, delete them again, and check what the clients saw. The exit status is 0 only if it is linearizable, or regular
sequentially consistent under GryffRSC.
Latencies include the way through the apiserver.`,
		Args: cobra.MaximumNArgs(1),
		PreRunE: func(*cobra.Command, []string) error {
			if options.Clients < 1 || options.Duration < time.Second {
				return fmt.Errorf("--clients must be at least 1 and --duration at least 1s")
			}
			return nil
		},
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.Verify(ctx, out, optional(args), options)
		}),
	}
	f := command.Flags()
	f.DurationVar(&options.Duration, "duration", 10*time.Second, "how long the workload runs")
	f.IntVar(&options.Clients, "clients", 2, "clients at each site")
	f.StringVar(&options.History, "history", "", "write the recorded operations to this file, for `georegister check`")
	return command
}

func newOperatorCheckCommand(flags *plugin.Flags) *cobra.Command {
	var wait time.Duration
	command := &cobra.Command{
		Use:   "operator",
		Short: "Tell whether the operator is installed and ready in the namespace",
		Args:  cobra.NoArgs,
		RunE: connected(flags,
			within(&wait, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, _ []string) error {
				return k.Operator(ctx, out)
			})),
	}
	command.Flags().DurationVar(&wait, "wait", 10*time.Second, "how long to wait until it is")
	return command
}

// act is what a command does on a cluster.
type act = func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error

// connected runs an act with a connection as the flags say.
func connected(flags *plugin.Flags, run act) func(*cobra.Command, []string) error {
	return func(command *cobra.Command, args []string) error {
		k, err := flags.Connect()
		if err != nil {
			return err
		}
		return run(command.Context(), k, command.OutOrStdout(), args)
	}
}

// within bounds the time of an act.
func within(timeout *time.Duration, run act) act {
	return func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
		ctx, cancel := plugin.Within(ctx, *timeout)
		defer cancel()
		return run(ctx, k, out, args)
	}
}

func optional(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return args[0]
}
