package controllers

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/predicate"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
)

// reconcileWithin bounds one look at one cluster.
const reconcileWithin = 30 * time.Second

// syncsWithin is how long the apiserver may be away at the start: to end would bring nothing, and /readyz says what is
// missing.
const syncsWithin = 24 * time.Hour

// A look that failed is repeated after pauses that grow from the first to the last. The last is short: members are
// asked by these looks alone, and an object that can't be applied must not keep a lost member from being noticed.
const (
	firstPause = 100 * time.Millisecond
	lastPause  = 20 * time.Second
)

// meant lets a change through if somebody meant it: not those of a status. It is for kinds that have a generation.
func meant() predicate.Predicate {
	return predicate.Or[client.Object](
		predicate.GenerationChangedPredicate{}, predicate.LabelChangedPredicate{},
		predicate.AnnotationChangedPredicate{},
	)
}

// outdated lets a change through if the status does not speak of the spec any more, such as when it was wiped.
func outdated() predicate.Predicate {
	return predicate.NewPredicateFuncs(func(object client.Object) bool {
		cluster, ok := object.(*v1alpha1.GeoRegisterCluster)
		return ok && cluster.Status.ObservedGeneration != cluster.Generation
	})
}

// watch has changes of resources and of their objects lead to Reconcile. Objects are matched by the cluster label:
// those that outlive the resource have no owner.
func (r *Reconciler) watch(ctx context.Context, m manager.Manager) error {
	b := builder.ControllerManagedBy(m).Named("georegistercluster").
		For(&v1alpha1.GeoRegisterCluster{}, builder.WithPredicates(predicate.Or[client.Object](meant(), outdated()))).
		WithOptions(controller.Options{
			MaxConcurrentReconciles: workers,
			ReconciliationTimeout:   reconcileWithin,
			RateLimiter: workqueue.NewTypedItemExponentialFailureRateLimiter[reconcile.Request](firstPause,
				lastPause),
			SkipNameValidation: new(true), // there is one controller to an operator
			CacheSyncTimeout:   syncsWithin,
		})
	core := corev1.SchemeGroupVersion
	every := predicate.ResourceVersionChangedPredicate{}
	for _, watched := range []struct {
		kind  schema.GroupVersionKind
		which predicate.Predicate
	}{
		{core.WithKind("ConfigMap"), every}, {core.WithKind("Service"), every},
		{core.WithKind("ServiceAccount"), every},
		{core.WithKind("PersistentVolumeClaim"), every}, {core.WithKind("Pod"), every},
		{appsv1.SchemeGroupVersion.WithKind("StatefulSet"), meant()},
		{policyv1.SchemeGroupVersion.WithKind("PodDisruptionBudget"), meant()},
		{networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"), meant()},
	} {
		b = b.Watches(apply.Cached(watched.kind), handler.EnqueueRequestsFromMapFunc(clusterOf),
			builder.WithPredicates(watched.which))
	}
	if r.election != nil {
		b = b.WatchesRawSource(source.Channel(r.election.won, &handler.EnqueueRequestForObject{}))
		if err := m.Add(r.election); err != nil {
			return fmt.Errorf("set up the election: %w", err)
		}
	}
	c, err := b.Build(r)
	if err != nil {
		return fmt.Errorf("set up the watches: %w", err)
	}
	r.observer.optional.watch = c.Watch
	if err := patiently(ctx, r.options.Log, func() error { return r.observer.optional.discover(ctx) }); err != nil {
		return err
	}
	if err := m.Add(r.observer.optional); err != nil {
		return fmt.Errorf("set up the discovery: %w", err)
	}
	return nil
}

// clusterOf is the cluster that an object belongs to.
func clusterOf(_ context.Context, object client.Object) []reconcile.Request {
	name := object.GetLabels()[build.ClusterLabel]
	if name == "" {
		return nil
	}
	return []reconcile.Request{{NamespacedName: types.NamespacedName{Namespace: object.GetNamespace(), Name: name}}}
}
