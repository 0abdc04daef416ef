package controllers

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// resources are those of a version of an API group, as the apiserver tells them.
	resources func(ctx context.Context, version string) (*metav1.APIResourceList, error)
	cache     cache.Cache
	watch     func(source.Source) error

	mu    sync.Mutex
	found world.MonitoringKinds
}

func newMonitoring(m manager.Manager) (*monitoring, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the discovery: %w", err)
	}
	return &monitoring{resources: d.ServerResourcesForGroupVersionWithContext, cache: m.GetCache()}, nil
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

// discover looks once, and watches what came. It is not for several goroutines at once.
func (m *monitoring) discover(ctx context.Context) error {
	list, err := m.resources(ctx, monitoringVersion.String())
	if apierrors.IsNotFound(err) {
		list, err = &metav1.APIResourceList{}, nil
	}
	if err != nil {
		return fmt.Errorf("look for %s: %w", monitoringVersion, err)
	}
	for name, field := range map[string]func(*world.MonitoringKinds) *bool{ // order is irrelevant: each is followed alone
		"PodMonitor":     func(k *world.MonitoringKinds) *bool { return &k.PodMonitor },
		"PrometheusRule": func(k *world.MonitoringKinds) *bool { return &k.PrometheusRule },
	} {
		now := slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == name })
		before := m.kinds()
		if err := m.follow(ctx, name, *field(&before), now); err != nil {
			return err
		}
		// At once: what is watched already must not be watched again if another kind can't be.
		m.mu.Lock()
		*field(&m.found) = now
		m.mu.Unlock()
	}
	return nil
}

// follow starts to watch a kind that came, and stops to watch one that went.
func (m *monitoring) follow(ctx context.Context, name string, before, now bool) error {
	object := apply.Cached(monitoringVersion.WithKind(name))
	switch {
	case now && !before:
		err := m.watch(source.Kind[client.Object](m.cache, object, handler.EnqueueRequestsFromMapFunc(clusterOf), meant()))
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
