package controllers

import (
	"context"
	"fmt"
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
	injections client.Reader                       // of what emulates networks: from the cache that is watched
	watched    func(context.Context) (bool, error) // whether that cache is filled
	silences   silences
	warnings   *cache.Expiring // the latest warning of each object that was asked about lately, or nil; by its UID
	places     bool            // nodes and volumes may be read
}

// look is one look at a cluster: what was seen so far. If something can't be read it keeps that error, and reads nothing
// more.
type look struct {
	*observer
	world.Snapshot
	ctx context.Context
	err error
}

// observe looks at everything of a cluster once: its objects as the cache has them, and what its members say now.
func (o *observer) observe(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) (world.Snapshot, error) {
	l := o.look(ctx, cluster)
	l.objects()
	l.place()
	l.emulation()
	if l.err != nil {
		return l.Snapshot, l.err
	}
	o.warn(ctx, &l.Snapshot)
	return l.Snapshot, o.slots.without(func() error {
		var asking sync.WaitGroup
		asking.Go(func() { o.askWitnesses(ctx, &l.Snapshot) })
		o.ask(ctx, &l.Snapshot)
		asking.Wait()
		return nil
	})
}

func (o *observer) look(ctx context.Context, cluster *v1alpha1.GeoRegisterCluster) *look {
	return &look{observer: o, ctx: ctx, Snapshot: world.Snapshot{
		Cluster: cluster, Now: o.now(), Settings: o.options.Settings, Monitoring: o.optional.monitoring(),
	}}
}

// objects sees the objects of the cluster, and whose data they are.
func (l *look) objects() {
	cluster, record := l.Cluster, l.record()
	l.Taken = l.applier.Taken(client.ObjectKeyFromObject(cluster))
	if record != nil && !claimsRecord(cluster, record) {
		l.Record.Taken, record = build.Whose(record), nil
	} else {
		l.Record = recordOf(record, cluster)
	}
	l.Members = l.gather(membersOf(cluster, l.Record.View))
	if cluster.Spec.Dedicated() {
		l.Witnesses = l.gather(dedicatedOf(cluster, l.Record.View))
	}
	l.Sites = l.sites()
	boot := l.boot()
	everyone := slices.Concat(l.Members, l.Witnesses)
	l.Former = former(cluster, record, everyone)
	l.ClusterID, l.Stored = clusterID(cluster, record, everyone, boot)
	dropOthers(cluster, l.Members, l.ClusterID)
	dropOthers(cluster, l.Witnesses, l.ClusterID)
	if boot != nil && metav1.IsControlledBy(boot, cluster) { // a former resource's says nothing of disks that come now
		l.Shards = build.BootShards(boot)
	}
}

// list reads a list of objects.
func (l *look) list(from client.Reader, what string, into client.ObjectList, options ...client.ListOption) {
	if l.err != nil {
		return
	}
	if err := from.List(l.ctx, into, options...); err != nil {
		l.err = fmt.Errorf("list %s: %w", what, err)
	}
}

// get reads an object, and reports whether it is there.
func (l *look) get(from client.Reader, what string, key client.ObjectKey, into client.Object) (there bool) {
	if l.err != nil {
		return false
	}
	err := from.Get(l.ctx, key, into)
	if client.IgnoreNotFound(err) != nil {
		l.err = fmt.Errorf("read %s %s: %w", what, key.Name, err)
	}
	return err == nil
}

// ours is the name of an object in the cluster's namespace.
func (l *look) ours(name string) client.ObjectKey {
	return client.ObjectKey{Namespace: l.Cluster.Namespace, Name: name}
}
