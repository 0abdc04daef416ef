package console

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/dev"
	"github.com/georegister/georegister/workload/checked"
)

// dial connects from every site: to its own members first, then to the others by distance. Close must be
// called.
func (r running) dial(ctx context.Context) (*checked.Clients, error) {
	dialled := &checked.Clients{}
	observations := r.cluster.Observe(ctx)
	for _, site := range sitesOf(observations) {
		if err := dialled.Add(ctx, site, client.Options{
			Endpoints: r.nearest(site, observations), InOrder: true,
			Timeout: operationWithin, DialOptions: dev.DialOptions(),
		}); err != nil {
			return nil, errors.Join(err, dialled.Close())
		}
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
