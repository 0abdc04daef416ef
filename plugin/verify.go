package plugin

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/client"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/history"
	"github.com/georegister/georegister/workload"
	"github.com/georegister/georegister/workload/checked"
)

// VerifyOptions bound a verification.
type VerifyOptions struct {
	Duration time.Duration
	Clients  int    // at each site
	History  string // file for the recorded operations; empty: none
}

// verifySeed makes the operations; their interleaving is as real as the time.
const verifySeed = 1

// Verify loads a cluster from every site through its pods' gRPC ports, and decides whether what the clients saw is
// linearizable, or regular sequentially consistent under GryffRSC: it returns an error unless it is. It touches keys of
// a prefix of its own alone, and deletes them in the end.
func (k *Kubernetes) Verify(ctx context.Context, out io.Writer, name string, o VerifyOptions) (err error) {
	c, err := k.cluster(ctx, name)
	if err != nil {
		return err
	}
	spec, err := checked.Spec(c.Spec.Protocol)
	if err != nil {
		return fmt.Errorf("cluster %s: %w", c.Name, err)
	}
	connected, err := k.dial(ctx, c)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, connected.close()) }()
	fmt.Fprintf(out, "verifying for %s: %d clients at each of %d sites, keys under %q\n",
		o.Duration, o.Clients, len(connected.Sites), connected.Prefix)
	recorder := history.NewRecorder(nil)
	load := workload.Loop{
		Spec: spec, Sites: connected.Sites, Clients: o.Clients, Seed: verifySeed,
		Duration: o.Duration, Operations: checked.MaxOperations, Recorder: recorder,
		FenceEvery: checked.FenceEvery(c.Spec.Protocol),
	}
	report, err := load.Run(ctx)
	if err != nil {
		return err
	}
	// Whatever comes next must not be cut off half-way: the keys are to be gone again.
	ending := context.WithoutCancel(ctx)
	within, cancel := checked.Ending(ctx)
	defer cancel()
	read := checked.ReadBack(within, connected.Sites, recorder)
	cleaned := connected.Delete(ending, checked.Keys(recorder))
	verdict := checked.Conclude(within, c.Spec.Protocol, recorder, report, o.History)
	return errors.Join(report.Table(out), verdict, read, ctx.Err(), cleaned)
}

// connections are those of a verification: a client for each site, through a pod of the site.
type connections struct {
	checked.Clients
	stops []func()
}

// dial connects to a ready pod of every site. Each site's client knows the other sites' pods too, as its next ones.
func (k *Kubernetes) dial(ctx context.Context, c *v1alpha1.GeoRegisterCluster) (all *connections, err error) {
	all = &connections{Clients: checked.Clients{Prefix: "georegister-verify/" + rand.Text() + "/"}}
	defer func() {
		if err != nil {
			err = errors.Join(err, all.close())
		}
	}()
	pods, err := k.memberPods(ctx, c.Name, "")
	if err != nil {
		return all, err
	}
	var endpoints []client.Endpoint
	for _, site := range c.Spec.Sites {
		i := slices.IndexFunc(pods,
			func(p corev1.Pod) bool { return p.Labels[build.SiteLabel] == site.Name && ready(&p) })
		if i < 0 {
			return all, fmt.Errorf("site %s of cluster %s has no ready pod to connect to; see `kubectl georegister "+
				"status %s`",
				site.Name, c.Name, c.Name)
		}
		address, stop, err := k.Forward(ctx, pods[i].Name, build.GRPCPort)
		if err != nil {
			return all, err
		}
		all.stops = append(all.stops, stop)
		endpoints = append(endpoints, client.Endpoint{Site: site.Name, Address: address})
	}
	for i, site := range c.Spec.Sites {
		order := slices.Concat(endpoints[i:], endpoints[:i])
		if err := all.Add(ctx, site.Name, client.Options{Endpoints: order, InOrder: true}); err != nil {
			return all, err
		}
	}
	return all, nil
}

func (c *connections) close() error {
	err := c.Close()
	for _, stop := range c.stops {
		stop()
	}
	return err
}
