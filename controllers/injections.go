package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/controllers/world"
)

// watched reports whether the objects that emulate networks can be read from the cache yet.
func watched(from cache.Cache) func(context.Context) (bool, error) {
	return func(ctx context.Context) (bool, error) {
		informer, err := from.GetInformer(ctx, chaosmesh.Empty(), cache.BlockUntilSynced(false))
		if err != nil {
			return false, fmt.Errorf("watch %s: %w", chaosmesh.Kind.Kind, err)
		}
		return informer.HasSynced(), nil
	}
}

// emulation sees what emulates the network of the cluster. That this can't be read yet must not keep the cluster from
// being looked after.
func (l *look) emulation() {
	if l.err != nil || !l.optional.has(chaosmesh.Kind) {
		return
	}
	l.Emulation.Kind = true
	if l.Emulation.Known, l.err = l.watched(l.ctx); !l.Emulation.Known {
		return
	}
	list := chaosmesh.EmptyList()
	l.list(l.injections, chaosmesh.Kind.Kind, list, client.InNamespace(l.Cluster.Namespace),
		client.MatchingLabels{build.ClusterLabel: l.Cluster.Name},
		client.HasLabels{chaosmesh.FromLabel, chaosmesh.ToLabel})
	for n := range list.Items {
		if metav1.IsControlledBy(&list.Items[n], l.Cluster) { // labels alone anybody can give
			l.Emulation.Links = append(l.Emulation.Links, chaosmesh.Read(&list.Items[n]))
		}
	}
	slices.SortFunc(l.Emulation.Links, func(a, b world.Injection) int { return cmp.Compare(a.Name, b.Name) })
}
