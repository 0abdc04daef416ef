package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
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
func (o *observer) observeEmulation(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster,
) (world.Emulation, error) {
	if !o.optional.has(chaosmesh.Kind) {
		return world.Emulation{}, nil
	}
	all, known, err := o.injections.list(ctx, cluster)
	return world.Emulation{Kind: true, Known: known, Links: all}, err
}
