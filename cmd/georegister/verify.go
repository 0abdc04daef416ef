package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/cmd/program"
	"github.com/georegister/georegister/workload/checked"
)

const verifyLong = `Loads a running store from each of its sites with a mix of reads, writes and rmws on few keys, records what the
clients saw, reads every key back at every site, and decides whether the history is linearizable, or regular sequentially
consistent where the protocol promises that, such as GryffRSC: each client is then a session, and fences now and then. It tells the
longest time without a success at each site. The clients of a site use that site's members alone; all run in this
process, so that one clock orders what they saw.

On Kubernetes, --cluster and --sites name the cluster's Services, which are reached from a pod of its namespace.

It writes under a prefix of its own and leaves its keys in the store. The last line of the output is the report in JSON.
The exit status is the verdict: 0 only if the history is that and complete, 1 if it is not, 2 if
that could not be decided, such as when a site does not answer.`

const verifyExample = `  georegister verify --protocol Gryff --site ca=shop--ca:7001 --site va=shop--va:7001 --site ir=shop--ir:7001
  georegister verify --protocol Gryff --cluster shop --sites ca,va,ir --duration 10m`

func newVerificationCommand() *cobra.Command {
	v := checked.Verification{Progress: 5 * time.Second}
	var sites, names []string
	var cluster string
	c := program.WithVerdict(&cobra.Command{
		Use:     "verify --site NAME=HOST:PORT ...",
		Short:   "Load a running store and tell whether what its clients saw is linearizable",
		Long:    verifyLong,
		Example: verifyExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) (err error) {
			if v.Sites, err = verifiedSites(sites, cluster, names); err != nil {
				return err
			}
			if err := checkBounds(v); err != nil {
				return err
			}
			ctx, stop := boundMemory(c.Context(), toolMemory(), "lower --duration or --clients")
			defer stop()
			return v.Run(ctx, c.OutOrStdout())
		},
	}, checked.ErrViolation)
	flags := c.Flags()
	flags.StringVar(&v.Protocol, "protocol", "Gryff", "the store's protocol, as its manifest spells it")
	flags.StringArrayVar(&sites, "site", nil,
		"a site and the address of its gRPC port, NAME=HOST:PORT; give it once for each site")
	flags.StringVar(&cluster, "cluster", "", "on Kubernetes: the cluster, whose sites have Services CLUSTER--SITE")
	flags.StringSliceVar(&names, "sites", nil, "the sites of --cluster, comma separated")
	flags.DurationVar(&v.Duration, "duration", 30*time.Second, "how long to load the store")
	flags.IntVar(&v.Clients, "clients", 4, "how many clients at each site")
	flags.DurationVar(&v.Every, "every", 10*time.Millisecond, "how often a client begins an operation at most")
	flags.Uint64Var(&v.Seed, "seed", 1, "makes the operations; their interleaving is as real as the time")
	flags.StringVar(&v.History, "history", "", "file for the recorded history (default: none)")
	flags.StringVar(&v.Report, "report", "",
		"file for the report in JSON, at most 4096 bytes, such as /dev/termination-log (default: none)")
	return c
}

// verifiedSites are the sites with their addresses, however they were named.
func verifiedSites(sites []string, cluster string, names []string) ([]client.Endpoint, error) {
	switch {
	case cluster == "" && len(names) > 0:
		return nil, errors.New("--sites names the sites of --cluster; give it too, or use --site NAME=HOST:PORT")
	case cluster != "" && len(names) == 0:
		return nil, fmt.Errorf("--cluster %s: name its sites, such as --sites ca,va,ir", cluster)
	case cluster != "" && len(sites) > 0:
		return nil, errors.New("--cluster and --site exclude each other; give one of them")
	case cluster == "" && len(sites) == 0:
		return nil, errors.New("no sites: give --site NAME=HOST:PORT for each, or --cluster and --sites")
	}
	for _, name := range names {
		sites = append(sites, fmt.Sprintf("%s=%s--%s:%d", name, cluster, name, servicePort))
	}
	var all []client.Endpoint
	for _, site := range sites {
		name, address, ok := strings.Cut(site, "=")
		if !ok || name == "" || address == "" {
			return nil, fmt.Errorf("--site %s: write it like ca=shop--ca:7001, the gRPC port", site)
		}
		if slices.ContainsFunc(all, func(e client.Endpoint) bool { return e.Site == name }) {
			return nil, fmt.Errorf("--site %s: site %s was given already; give each once, with one address", site, name)
		}
		all = append(all, client.Endpoint{Site: name, Address: address})
	}
	return all, nil
}

// servicePort is the gRPC port of a site's Service.
const servicePort = 7001

func checkBounds(v checked.Verification) error {
	switch {
	case v.Clients < 1:
		return fmt.Errorf("--clients is %d; give at least 1", v.Clients)
	case v.Duration <= 0:
		return fmt.Errorf("--duration is %s; give a time, such as 30s", v.Duration)
	case v.Every < 0:
		return fmt.Errorf("--every is %s; give 0 for no pause, or more", v.Every)
	}
	return nil
}
