package controllers

import (
	"context"
	"slices"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// observer looks at clusters. It changes nothing.
type observer struct {
	*access
	optional   *optional
	injections injectionReader
	silences   silences
	warnings   *cache.Expiring // the latest warning of each object that was asked about lately, or nil; by its UID
	places     bool            // nodes and volumes may be read
}

// observe looks at everything of a cluster once: its objects as the cache has them, and what its members say now.
func (o *observer) observe(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (world.Snapshot, error) {
	s := world.Snapshot{
		Cluster: cluster, Now: o.now(), Settings: o.options.Settings, Monitoring: o.optional.monitoring(),
	}
	record, err := o.record(ctx, cluster)
	if err != nil {
		return s, err
	}
	s.Taken = o.applier.Taken(client.ObjectKeyFromObject(cluster))
	if record != nil && !claimsRecord(cluster, record) {
		s.Record.Taken, record = build.Whose(record), nil
	} else {
		s.Record = recordOf(record, cluster)
	}
	if s.Members, err = o.gather(ctx, cluster, membersOf(cluster, s.Record.View)); err != nil {
		return s, err
	}
	if cluster.Spec.Dedicated() {
		if s.Witnesses, err = o.gather(ctx, cluster, dedicatedOf(cluster, s.Record.View)); err != nil {
			return s, err
		}
	}
	if s.Sites, err = o.sites(ctx, cluster); err != nil {
		return s, err
	}
	boot, err := o.boot(ctx, cluster)
	if err != nil {
		return s, err
	}
	everyone := slices.Concat(s.Members, s.Witnesses)
	s.Former = former(cluster, record, everyone)
	s.ClusterID, s.Stored = clusterID(cluster, record, everyone, boot)
	dropOthers(cluster, s.Members, s.ClusterID)
	dropOthers(cluster, s.Witnesses, s.ClusterID)
	if boot != nil && metav1.IsControlledBy(boot, cluster) { // a former resource's says nothing of disks that come now
		s.Shards = build.BootShards(boot)
	}
	if err := o.place(ctx, &s); err != nil {
		return s, err
	}
	if s.Emulation, err = o.observeEmulation(ctx, cluster); err != nil {
		return s, err
	}
	o.warn(ctx, &s)
	return s, o.slots.without(func() error {
		var asking sync.WaitGroup
		asking.Go(func() { o.askWitnesses(ctx, &s) })
		o.ask(ctx, &s)
		asking.Wait()
		return nil
	})
}
