package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/workload"
	"github.com/georegister/georegister/workload/checked"
)

// clients are a workload's connections, one for each site, which its clients share.
type clients struct {
	sites   []workload.Site
	clients []*client.Client
}

// dial connects from every site: to its own members first, then to the others by distance. Close must be
// called.
func (r running) dial(ctx context.Context) (*clients, error) {
	dialled := &clients{}
	observations := r.cluster.Observe(ctx)
	for _, site := range sitesOf(observations) {
		connected, err := client.Dial(ctx, client.Options{
			Endpoints: r.nearest(site, observations), InOrder: true, Timeout: operationWithin, DialOptions: dev.DialOptions(),
		})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("connect from site %s: %w", site, err), dialled.close())
		}
		dialled.clients = append(dialled.clients, connected)
		dialled.sites = append(dialled.sites, workload.Site{
			Name: site,
			Connect: func(context.Context, int) (workload.Doer, error) {
				session, err := connected.NewSession()
				return checked.Doer(session), err
			},
		})
	}
	return dialled, nil
}

// nearest lists the members as a client at a site sees them.
func (r running) nearest(site string, observations []dev.Observation) (endpoints []client.Endpoint) {
	spec := r.Options.Manifest.Spec
	sorted := slices.Clone(observations)
	slices.SortStableFunc(sorted, func(a, b dev.Observation) int {
		return cmp.Compare(spec.RTT(site, a.Site), spec.RTT(site, b.Site))
	})
	for _, o := range sorted {
		endpoints = append(endpoints, client.Endpoint{Site: o.Site, Address: o.GRPC})
	}
	return endpoints
}

// sitesOf are those that have members, in the order of these.
func sitesOf(observations []dev.Observation) (names []string) {
	for _, o := range observations {
		if !slices.Contains(names, o.Site) {
			names = append(names, o.Site)
		}
	}
	return names
}

func (c *clients) close() error {
	var errs []error
	for _, connected := range c.clients {
		errs = append(errs, connected.Close())
	}
	return errors.Join(errs...)
}
