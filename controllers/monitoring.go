package controllers

import (
	"context"
	"fmt"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/world"
)

// discoverEvery is the time between two looks for the kinds of the Prometheus operator: one request per operator.
const discoverEvery = 5 * time.Minute

// monitoringVersion is the version of those kinds that is used.
var monitoringVersion = schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}

// monitoring knows which kinds of the Prometheus operator the apiserver has, and watches those. They may come and
// go while the operator runs; a watch of a kind that is not there would keep the controller from starting.
type monitoring struct {
	discovery  discovery.ServerResourcesInterface
	cache      cache.Cache
	controller controller.Controller

	mu    sync.Mutex
	found world.MonitoringKinds
}

func newMonitoring(m manager.Manager) (*monitoring, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the discovery: %w", err)
	}
	return &monitoring{discovery: d, cache: m.GetCache()}, nil
}

// kinds are those that were there when last looked.
func (m *monitoring) kinds() world.MonitoringKinds {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.found
}

// Start implements manager.Runnable: it looks again and again until the context ends.
func (m *monitoring) Start(ctx context.Context) error {
	ticker := time.NewTicker(discoverEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := m.discover(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err, "Could not look for the kinds of the Prometheus operator")
			}
		}
	}
}

// discover looks once, and watches what came.
func (m *monitoring) discover(ctx context.Context) error {
	var now world.MonitoringKinds
	list, err := m.discovery.ServerResourcesForGroupVersion(monitoringVersion.String())
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("look for %s: %w", monitoringVersion, err)
	}
	if err == nil {
		for _, resource := range list.APIResources {
			now.PodMonitor = now.PodMonitor || resource.Kind == "PodMonitor"
			now.PrometheusRule = now.PrometheusRule || resource.Kind == "PrometheusRule"
		}
	}
	before := m.kinds()
	for _, kind := range []struct {
		name        string
		before, now bool
	}{
		{"PodMonitor", before.PodMonitor, now.PodMonitor}, {"PrometheusRule", before.PrometheusRule, now.PrometheusRule},
	} {
		if err := m.follow(ctx, kind.name, kind.before, kind.now); err != nil {
			return err
		}
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.found = now
	return nil
}

// follow starts to watch a kind that came, and stops to watch one that went.
func (m *monitoring) follow(ctx context.Context, name string, before, now bool) error {
	object := apply.Cached(monitoringVersion.WithKind(name))
	switch {
	case now && !before:
		err := m.controller.Watch(source.Kind[client.Object](m.cache, object, handler.EnqueueRequestsFromMapFunc(clusterOf), meant()))
		if err != nil {
			return fmt.Errorf("watch %s: %w", name, err)
		}
	case before && !now:
		if err := m.cache.RemoveInformer(ctx, object); err != nil {
			return fmt.Errorf("stop to watch %s: %w", name, err)
		}
	}
	return nil
}
