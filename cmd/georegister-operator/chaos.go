package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/cmd/program"
	"github.com/georegister/georegister/plugin"
)

func newChaosCommand(flags *plugin.Flags) *cobra.Command {
	command := &cobra.Command{
		Use:   "chaos",
		Short: "Break a cluster by Chaos Mesh while it is loaded from every site, and judge what its clients saw",
	}
	command.AddCommand(newChaosRunCommand(flags), newChaosListCommand(), newChaosStopCommand(flags))
	return command
}

func newChaosRunCommand(flags *plugin.Flags) *cobra.Command {
	var o plugin.ChaosOptions
	command := program.WithVerdict(&cobra.Command{
		Use:   "run NAME",
		Short: "Run an experiment, or all of them one after the other, and print the verdict",
		Long: `Start a Job that loads the cluster from every site, inject the experiment NAME meanwhile by Chaos Mesh, or the
usual ones one after the other if NAME is all, heal, and print what the Job found. "chaos list" tells the experiments.

The exit status is the verdict: 0 if what the clients saw is linearizable and everything that was acknowledged could be
read back at every site, 1 if not or if a quorum did not come back, 2 if nothing could be decided. Ctrl-C heals and
deletes what was made. Otherwise the Job stays, with its report as its pod's termination message and its log.`,
		Example: "  kubectl georegister chaos run all --cluster shop --duration 10m\n" +
			"  kubectl georegister chaos run kill-replica --every 1m --report report.txt",
		Args: func(command *cobra.Command, args []string) error {
			return program.WithStatus(cobra.ExactArgs(1)(command, args), program.Undecided)
		},
		PreRunE: func(*cobra.Command, []string) error {
			if o.Every < time.Second || o.Duration < time.Second {
				err := fmt.Errorf("--every is %s and --duration %s; both must be at least 1s", o.Every, o.Duration)
				return program.WithStatus(err, program.Undecided)
			}
			return nil
		},
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.RunChaos(ctx, out, args[0], o)
		}),
	}, plugin.ErrChaosFailed)
	f := command.Flags()
	f.StringVar(&o.Cluster, "cluster", "", "the cluster (default: the only one of the namespace)")
	f.DurationVar(&o.Duration, "duration", 10*time.Minute,
		"how long the cluster is loaded; the experiments fit into it")
	f.DurationVar(&o.Every, "every", time.Minute, "how often a single experiment injects, for half as long")
	f.Uint64Var(&o.Seed, "seed", 1, "of the load's operations")
	f.StringVar(&o.Site, "site", "", "the site that is hit (default: the last one that the quorum can do without)")
	f.StringVar(&o.Peer, "peer", "",
		"a site that is not, and must reach a quorum all the time (default: the first other one)")
	f.StringSliceVar(&o.Experiments, "experiments", nil, "which ones all are, in order (default: see chaos list)")
	f.StringVar(&o.OperatorNamespace, "operator-namespace", "", "where the operator is (default: where it is found)")
	f.StringVar(&o.Image, "image", "", "what the verification runs (default: the members' image)")
	f.StringVar(&o.Report, "report", "",
		"write the verification's log to this file; its last line is the report in JSON")
	return command
}

func newChaosListCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "list",
		Short: "Tell which experiments there are, and their parameters",
		Args:  cobra.NoArgs,
		RunE:  func(command *cobra.Command, _ []string) error { return plugin.ListChaos(command.OutOrStdout()) },
	}
}

func newChaosStopCommand(flags *plugin.Flags) *cobra.Command {
	return &cobra.Command{
		Use: "stop [RUN]",
		Short: "Heal what a run has injected, and delete all that it made; without RUN, whatever goes on in the " +
			"namespace",
		Args: cobra.MaximumNArgs(1),
		RunE: connected(flags, func(ctx context.Context, k *plugin.Kubernetes, out io.Writer, args []string) error {
			return k.StopChaos(ctx, out, optional(args))
		}),
	}
}
