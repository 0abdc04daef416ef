package controllers

import (
	"context"
	"fmt"
	"sync/atomic"

	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"
	locks "sigs.k8s.io/controller-runtime/pkg/leaderelection"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/georegister/georegister/api/v1alpha1"
)

// leaseName names the lease of the operator that works.
const leaseName = "georegister-operator"

// election lets one of several operators work. One that loses the lease, as when the apiserver is away, goes on without
// work, with its caches and its connections, until it has the lease again: nothing but the number of requests rests on
// the lease, so that to lose it is no reason to end.
type election struct {
	config  leaderelection.LeaderElectionConfig
	clients client.Reader
	told    func(leads bool)
	leads   atomic.Bool
	won     chan event.GenericEvent // clusters that are to be looked at, since no one may have done so
}

func newElection(m manager.Manager, o Options) (*election, error) {
	if !o.LeaderElect {
		return nil, nil
	}
	lock, err := locks.NewResourceLock(m.GetConfig(), m, locks.Options{
		LeaderElection: true, LeaderElectionID: leaseName, LeaderElectionNamespace: o.Settings.Namespace,
		RenewDeadline: o.RenewDeadline,
	})
	if err != nil {
		return nil, fmt.Errorf("set up the lease: %w", err)
	}
	e := &election{clients: m.GetClient(), told: o.Leads, won: make(chan event.GenericEvent)}
	if e.told == nil {
		e.told = func(bool) {}
	}
	e.config = leaseOf(lock, o)
	return e, nil
}

func leaseOf(lock resourcelock.Interface, o Options) leaderelection.LeaderElectionConfig {
	return leaderelection.LeaderElectionConfig{
		Lock: lock, Name: leaseName, ReleaseOnCancel: true,
		LeaseDuration: o.LeaseDuration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
	}
}

// working reports whether the operator is to work. Without an election it always is.
func (e *election) working() bool { return e == nil || e.leads.Load() }

// Start implements manager.Runnable: it takes part in the election until the context ends.
func (e *election) Start(ctx context.Context) error {
	for ctx.Err() == nil {
		config := e.config
		config.Callbacks = leaderelection.LeaderCallbacks{OnStartedLeading: e.begin, OnStoppedLeading: func() {
			e.end(ctx)
		}}
		elector, err := leaderelection.NewLeaderElector(config)
		if err != nil {
			return fmt.Errorf("set up the election: %w", err)
		}
		elector.Run(ctx) // until the lease is lost
	}
	return nil
}

// begin has every cluster be looked at.
func (e *election) begin(ctx context.Context) {
	e.leads.Store(true)
	e.told(true)
	var all v1alpha1.GeoRegisterClusterList
	if err := e.clients.List(ctx, &all); err != nil { // of a cache, which was filled before the election began
		log.FromContext(ctx).Error(err, "Could not list the clusters")
	}
	for i := range all.Items {
		select {
		case e.won <- event.GenericEvent{Object: &all.Items[i]}:
		case <-ctx.Done():
			return
		}
	}
}

func (e *election) end(ctx context.Context) {
	if !e.leads.Swap(false) {
		return
	}
	e.told(false)
	if ctx.Err() == nil {
		log.FromContext(ctx).Info("Lost the lease: waits for it, and does nothing meanwhile", "lease", leaseName)
	}
}
