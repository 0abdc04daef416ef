package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/go-logr/zapr"
	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
	"sigs.k8s.io/controller-runtime/pkg/client/config"
	ctrllog "sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/cmd/logging"
	"github.com/georegister/georegister/controllers"
	"github.com/georegister/georegister/controllers/members"
)

// everywhere stands for all namespaces.
const everywhere = "*"

func newRunCommand() *cobra.Command {
	var o controllers.Options
	var namespaces []string
	var level string
	command := &cobra.Command{
		Use:   "run",
		Short: "Run the Kubernetes operator",
		Long: `Run the operator: it keeps the clusters that GeoRegisterCluster resources describe. It talks to the
apiserver that --kubeconfig, KUBECONFIG or the pod it runs in says.

Several operators may run with --leader-elect: one works, the others wait. One that loses the lease waits too, as while
the apiserver is away, and an apiserver that is away at the start is waited for. With the default lease another
takes over within 15 seconds of a crash; --lease-duration=4s --renew-deadline=3s --retry-period=1s is for those
who want it sooner, and costs a request a second.`,
		Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			log, err := logging.New("", level)
			if err != nil {
				return err
			}
			defer func() { _ = log.Sync() }() // fails on terminals and pipes, which need none
			o.Log = zapr.NewLogger(log)
			ctrllog.SetLogger(o.Log)
			klog.SetLogger(o.Log)
			apiserver, err := config.GetConfig()
			if err != nil {
				return fmt.Errorf("find the apiserver: %w", err)
			}
			o.Namespaces = watched(namespaces, command.Flags().Changed("namespaces"), o.Settings.Namespace)
			o.Settings.Version = version
			client := members.NewClient()
			defer client.Close()
			o.Members = client
			manager, err := controllers.New(command.Context(), apiserver, o)
			if err != nil {
				return err
			}
			o.Log.Info("Started the operator", "version", version, "namespaces", o.Namespaces)
			return manager.Start(command.Context())
		},
	}
	flags := command.Flags()
	flags.StringSliceVar(&namespaces, "namespaces", nil,
		"whose clusters to manage; * or empty: all (default: the operator's own)")
	flags.StringVar(&o.Settings.Namespace, "namespace", os.Getenv("POD_NAMESPACE"),
		"where the operator runs (default: POD_NAMESPACE)")
	flags.StringVar(&o.Settings.DefaultImage, "default-image", "",
		"what members run where neither the resource nor a running member says another")
	flags.StringVar(&o.Settings.ClusterDomain, "cluster-domain", "cluster.local", "the domain of the cluster's DNS")
	flags.DurationVar(&o.Settings.LostAfter, "lost-after", time.Minute,
		"how long a member may be without its volume or node before it is replaced")
	flags.IntVar(&o.MaxConcurrent, "max-concurrent", 4, "how many clusters to work on at the same time")
	flags.StringVar(&o.MetricsAddress, "metrics-address", ":8080", "where to serve /metrics; 0: nowhere")
	flags.StringVar(&o.HealthAddress, "health-address", ":8081", "where to serve /healthz and /readyz; 0: nowhere")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false, "let one of several operators work")
	flags.DurationVar(&o.LeaseDuration, "lease-duration", 15*time.Second,
		"how long a lease that is not renewed is respected")
	flags.DurationVar(&o.RenewDeadline, "renew-deadline", 10*time.Second, "when a leader that can't renew gives up")
	flags.DurationVar(&o.RetryPeriod, "retry-period", 2*time.Second, "the pause between tries at the lease")
	flags.StringVar(&level, "log-level", "info", "the least severe level to log: debug, info, warn or error")
	return command
}

// watched are the namespaces to manage; none stands for all.
func watched(given []string, changed bool, own string) []string {
	if !changed {
		return []string{own}
	}
	var all []string
	for _, n := range given {
		if n = strings.TrimSpace(n); n == everywhere {
			return nil
		} else if n != "" {
			all = append(all, n)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}
