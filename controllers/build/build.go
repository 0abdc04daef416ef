// Package build makes the objects of a cluster from its resource and its view: pure functions, so that what is
// in the apiserver can be compared with what should be there, and read as golden files. It decides nothing: when
// an object is made, replaced or removed is decided elsewhere (controllers/decide).
package build

import (
	"cmp"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Input is what the objects of one cluster are made from. Nothing in it is changed.
type Input struct {
	// Cluster is a valid resource, with its UID: owner references name it.
	Cluster *v1alpha1.GeoRegisterCluster
	// View is the recorded one; epoch 0 says that the cluster was not founded yet.
	View view.View
	// ClusterID is the identity of the stored data: never empty.
	ClusterID string
	// Shards is how many members were started with, before there was a view; 0: none was started yet.
	Shards int
	// Unfounded says that the cluster surely was never founded, and is not about to be: volumes go with the resource.
	Unfounded bool
	// Beside is how many members have pods though the view left them out.
	Beside int
	// Image is what members run (see the function Image).
	Image string
	// Settings are the operator's own; Namespace and ClusterDomain are needed.
	Settings world.Settings
	// Monitoring says which optional kinds may be made.
	Monitoring world.MonitoringKinds
}

// Founded is how many shards the cluster has or had when it was founded. Members' disks are made for as many, for ever,
// whatever spec.shards and its default became since: before there is a view that says it, for what the first member was
// started with.
func (in Input) Founded() int {
	return cmp.Or(in.View.FoundedPartitions(), in.Shards, in.Cluster.Spec.ShardCount())
}

// Objects are what the members of a cluster share, each complete for a server-side apply, in the order to apply
// them in. The record is not among them: it changes by compare-and-swap alone.
func Objects(in Input) []client.Object {
	objects := []client.Object{serviceAccount(in), boot(in), networkPolicy(in), disruptionBudget(in), peers(in)}
	for _, s := range in.Cluster.Spec.Sites {
		objects = append(objects, site(in, s.Name))
	}
	objects = append(objects, clients(in))
	objects = append(objects, dedicatedObjects(in)...)
	if in.Cluster.Spec.Monitoring.Enabled {
		objects = append(objects, monitoring(in)...)
	}
	return objects
}

// Unwanted are the objects that the cluster may have had and does not want now, by kind, namespace and name
// alone: where they exist and have the cluster as their owner, they are to be removed. Kinds that the apiserver
// does not have are left out.
func Unwanted(in Input) []client.Object {
	if in.Cluster.Spec.Monitoring.Enabled {
		return nil
	}
	return monitoringNames(in)
}

// SiteService is the Service of a site, as far as it is needed to remove it: that of a site that is not asked for any
// more.
func SiteService(in Input, name string) client.Object { return site(in, name) }

// Member are the objects of one member, in the order to apply them in: its volume, unless nothing is kept on
// disk, and its StatefulSet.
func Member(in Input, m view.Member) []client.Object {
	if !OnDisk(in.Cluster) {
		return []client.Object{statefulSet(in, m)}
	}
	disk := volume(in, VolumeName(in.Cluster.Name, m), MemberLabels(in.Cluster.Name, m),
		in.Cluster.Spec.Storage.StorageSize())
	return []client.Object{disk, statefulSet(in, m)}
}

// NextID is the first id for a newcomer after the last that was given to anybody: the next one, or where witnesses run
// in members' pods one that leaves the id after it to the witness.
func NextID(cluster *v1alpha1.GeoRegisterCluster, last view.MemberID) view.MemberID {
	if cluster.Spec.Partitioned() {
		return membership.PairedIDs(last, 1)[0]
	}
	return last + 1
}

// NextWitness is the first id for a dedicated witness after the last that was given to anybody.
func NextWitness(last view.MemberID) view.MemberID { return membership.DedicatedIDs(last, 1)[0] }

// Image is what the members of a cluster should run: what the resource says, else what they already run, so
// that a new operator restarts nothing, else the operator's default. Running is empty where nothing runs yet.
func Image(cluster *v1alpha1.GeoRegisterCluster, running string, settings world.Settings) string {
	return cmp.Or(cluster.Spec.Image, running, settings.DefaultImage)
}
