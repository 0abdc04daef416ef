package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/workload/checked"
)

const verifyLong = `Loads a running store from each of its sites with a mix of reads, writes and rmws on few keys, records what the
clients saw, reads every key back at every site, and decides whether the history is linearizable. It tells the
longest time without a success at each site.

It writes under a prefix of its own and leaves its keys in the store. The exit status is 0 only if the history is
linearizable and complete.`

const verifyExample = `  georegister verify --protocol Gryff --site ca=shop-ca:7001 --site va=shop-va:7001 --site ir=shop-ir:7001`

func newVerificationCommand() *cobra.Command {
	v := checked.Verification{Progress: 5 * time.Second}
	var sites []string
	c := &cobra.Command{
		Use:     "verify --site NAME=HOST:PORT ...",
		Short:   "Load a running store and tell whether what its clients saw is linearizable",
		Long:    verifyLong,
		Example: verifyExample,
		Args:    cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			for _, site := range sites {
				name, address, ok := strings.Cut(site, "=")
				if !ok || name == "" || address == "" {
					return fmt.Errorf("--site %s: write it like ca=shop-ca:7001, the gRPC port", site)
				}
				if slices.ContainsFunc(v.Sites, func(e client.Endpoint) bool { return e.Site == name }) {
					return fmt.Errorf("--site %s: site %s was given already; give each once, with one address", site, name)
				}
				v.Sites = append(v.Sites, client.Endpoint{Site: name, Address: address})
			}
			switch {
			case v.Clients < 1:
				return fmt.Errorf("--clients is %d; give at least 1", v.Clients)
			case v.Duration <= 0:
				return fmt.Errorf("--duration is %s; give a time, such as 30s", v.Duration)
			case v.Every < 0:
				return fmt.Errorf("--every is %s; give 0 for no pause, or more", v.Every)
			}
			return v.Run(c.Context(), c.OutOrStdout())
		},
	}
	flags := c.Flags()
	flags.StringVar(&v.Protocol, "protocol", "Gryff", "the store's protocol, as its manifest spells it")
	flags.StringArrayVar(&sites, "site", nil, "a site and the address of its gRPC port, NAME=HOST:PORT; give it once for each site")
	flags.DurationVar(&v.Duration, "duration", 30*time.Second, "how long to load the store")
	flags.IntVar(&v.Clients, "clients", 4, "how many clients at each site")
	flags.DurationVar(&v.Every, "every", 10*time.Millisecond, "how often a client begins an operation at most")
	flags.StringVar(&v.History, "history", "", "file for the recorded history (default: none)")
	must(c.MarkFlagRequired("site"))
	return c
}
