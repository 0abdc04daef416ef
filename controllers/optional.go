package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	monitoringv1 "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/world"
)

// discoverEvery is the time between two looks for optional kinds: a request per group and operator.
const discoverEvery = 5 * time.Minute

// The kinds of the Prometheus operator that are used.
var (
	podMonitor     = monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.PodMonitorsKind)
	prometheusRule = monitoringv1.SchemeGroupVersion.WithKind(monitoringv1.PrometheusRuleKind)
)

// optionalKinds are those that the apiserver may lack, by the version that they are of, and which of their changes
// matter.
var optionalKinds = []struct {
	version schema.GroupVersion
	names   []string
	which   predicate.Predicate
}{
	{monitoringv1.SchemeGroupVersion, []string{podMonitor.Kind, prometheusRule.Kind}, meant()},
	// What it says of itself decides.
	{chaosmesh.Kind.GroupVersion(), []string{chaosmesh.Kind.Kind}, predicate.ResourceVersionChangedPredicate{}},
}

// optional knows which of the optional kinds the apiserver has, and watches those. They may come and go while the
// operator runs; a watch of a kind that is not there would keep the controller from starting.
type optional struct {
	// resources are those of a version of an API group, as the apiserver tells them.
	resources func(ctx context.Context, version string) (*metav1.APIResourceList, error)
	cache     cache.Cache
	watch     func(source.Source) error
	every     time.Duration // between two looks

	found sync.Map // whether each of the kinds was there when last looked
}

func newOptional(m manager.Manager, every time.Duration) (*optional, error) {
	d, err := discovery.NewDiscoveryClientForConfigAndClient(m.GetConfig(), m.GetHTTPClient())
	if err != nil {
		return nil, fmt.Errorf("set up the discovery: %w", err)
	}
	if every == 0 {
		every = discoverEvery
	}
	return &optional{resources: d.ServerResourcesForGroupVersionWithContext, cache: m.GetCache(), every: every}, nil
}

// has reports whether a kind was there when last looked.
func (o *optional) has(kind schema.GroupVersionKind) bool {
	there, _ := o.found.Load(kind)
	return there == true
}

// monitoring are the kinds of the Prometheus operator that were there when last looked.
func (o *optional) monitoring() world.MonitoringKinds {
	return world.MonitoringKinds{PodMonitor: o.has(podMonitor), PrometheusRule: o.has(prometheusRule)}
}

// Start implements manager.Runnable: it looks again and again until the context ends.
func (o *optional) Start(ctx context.Context) error {
	ticker := time.NewTicker(o.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
			if err := o.discover(ctx); err != nil && ctx.Err() == nil {
				log.FromContext(ctx).Error(err,
					"Could not look for the kinds of the Prometheus operator and of Chaos Mesh")
			}
		}
	}
}

// discover looks once, and watches what came. It is not for several goroutines at once.
func (o *optional) discover(ctx context.Context) error {
	var errs []error
	for _, k := range optionalKinds {
		list, err := o.resources(ctx, k.version.String())
		if err != nil && !apierrors.IsNotFound(err) { // unknown
			errs = append(errs, fmt.Errorf("look for %s: %w", k.version, err))
			continue
		}
		for _, name := range k.names {
			now := err == nil &&
				slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Kind == name })
			if err := o.follow(ctx, k.version.WithKind(name), k.which, now); err != nil {
				errs = append(errs, err)
				continue
			}
			o.found.Store(k.version.WithKind(name), now)
		}
	}
	return errors.Join(errs...)
}

// follow starts to watch a kind that came, and stops to watch one that went.
func (o *optional) follow(
	ctx context.Context, kind schema.GroupVersionKind, which predicate.Predicate, now bool,
) error {
	object, before := apply.Cached(kind), o.has(kind)
	switch {
	case now && !before:
		err := o.watch(
			source.Kind[client.Object](o.cache, object, handler.EnqueueRequestsFromMapFunc(clusterOf), which))
		if err != nil {
			return fmt.Errorf("watch %s: %w", kind.Kind, err)
		}
	case before && !now:
		if err := o.cache.RemoveInformer(ctx, object); err != nil {
			return fmt.Errorf("stop to watch %s: %w", kind.Kind, err)
		}
	}
	return nil
}
