package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/georegister/georegister/client"
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
func (c *Cluster) dial(ctx context.Context) (*clients, error) {
	dialled := &clients{}
	for _, site := range c.Sites() {
		connected, err := client.Dial(ctx, client.Options{
			Endpoints: c.nearest(site), InOrder: true, Timeout: operationWithin, DialOptions: dialOptions(),
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
func (c *Cluster) nearest(site string) []client.Endpoint {
	spec := c.options.Manifest.Spec
	members := c.all()
	slices.SortStableFunc(members, func(a, b *member) int {
		return cmp.Compare(spec.RTT(site, a.record.Site), spec.RTT(site, b.record.Site))
	})
	var endpoints []client.Endpoint
	for _, m := range members {
		endpoints = append(endpoints, client.Endpoint{Site: m.record.Site, Address: loopback(m.record.Ports.GRPC)})
	}
	return endpoints
}

func (c *clients) close() error {
	var errs []error
	for _, connected := range c.clients {
		errs = append(errs, connected.Close())
	}
	return errors.Join(errs...)
}
