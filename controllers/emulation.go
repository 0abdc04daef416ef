package controllers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/decide"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/status"
	"github.com/georegister/georegister/controllers/world"
)

// injectionReader reads the objects that emulate a cluster's network; known is false while they can't be read.
type injectionReader interface {
	list(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (all []world.Injection, known bool, err error)
}

// injections reads from the cache that is watched.
type injections struct{ cache cache.Cache }

func (i injections) list(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) ([]world.Injection, bool, error) {
	informer, err := i.cache.GetInformer(ctx, chaosmesh.Empty(), cache.BlockUntilSynced(false))
	if err != nil {
		return nil, false, fmt.Errorf("watch %s: %w", chaosmesh.Kind.Kind, err)
	}
	if !informer.HasSynced() { // what is not in place must not keep the cluster from being looked after
		return nil, false, nil
	}
	all, err := listInjections(ctx, i.cache, cluster)
	return all, err == nil, err
}

func listInjections(
	ctx context.Context, reader client.Reader, cluster *v1alpha1.GeoRegisterCluster,
) ([]world.Injection, error) {
	list := chaosmesh.EmptyList()
	err := reader.List(ctx, list, client.InNamespace(cluster.Namespace),
		client.MatchingLabels{build.ClusterLabel: cluster.Name},
		client.HasLabels{chaosmesh.FromLabel, chaosmesh.ToLabel})
	if err != nil {
		return nil, fmt.Errorf("list %s: %w", chaosmesh.Kind.Kind, err)
	}
	var all []world.Injection
	for n := range list.Items {
		if metav1.IsControlledBy(&list.Items[n], cluster) { // labels alone anybody can give
			all = append(all, chaosmesh.Read(&list.Items[n]))
		}
	}
	slices.SortFunc(all, func(a, b world.Injection) int { return cmp.Compare(a.Name, b.Name) }) // a cache has no order
	return all, nil
}

// observeEmulation reads what emulates the network of a cluster.
func (r *Reconciler) observeEmulation(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster,
) (world.Emulation, error) {
	if !r.optional.has(chaosmesh.Kind) {
		return world.Emulation{}, nil
	}
	all, known, err := r.injections.list(ctx, cluster)
	return world.Emulation{Kind: true, Known: known, Links: all}, err
}

// applyEmulation carries out what a plan says of the network, and has its status say what failed. Nothing else waits
// for it.
func (r *Reconciler) applyEmulation(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, plan *decide.Plan,
) error {
	gone := errors.Join(r.applier.Remove(ctx, plan.Emulation.Remove...),
		r.applier.Annotate(ctx, plan.Emulation.Release...))
	taken, failure := r.applier.Make(ctx, plan.Emulation.Make...)
	if len(taken) > 0 {
		r.tellEvents(cluster, status.NetworkTaken(cluster, &plan.Status, taken)...)
	}
	if failure = errors.Join(gone, failure); failure == nil && len(taken) == 0 {
		if n, m, k := len(plan.Emulation.Remove), len(plan.Emulation.Make), len(plan.Emulation.Release); n+m+k > 0 {
			log.FromContext(ctx).Info("Changed the emulated network", "removed", n, "made", m, "released", k)
		}
		r.tellEvents(cluster, plan.Emulation.Events...)
		return nil
	}
	if failed := apply.Failure(failure); failed != nil && len(taken) == 0 {
		meta.SetStatusCondition(&plan.Status.Conditions, metav1.Condition{
			Type: v1alpha1.ConditionWANInjected, Status: metav1.ConditionFalse, ObservedGeneration: cluster.Generation,
			Reason: "Failed", Message: message.Bounded("The operator tries again: " + reason(failed)),
		})
		status.Conclude(&plan.Status, cluster.Generation)
	}
	return failure
}
