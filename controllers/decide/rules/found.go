package rules

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// KeepingVolumes is the reason of an outcome where nothing but the volumes' owner is in the way of the founding.
const KeepingVolumes = "KeepingVolumes"

// founded is how many shards the cluster is founded with.
func founded(s *views.Views) int {
	return build.Input{Cluster: s.Cluster, Shards: s.Shards}.Founded()
}

// foundCluster makes the first view out of the disks of the first members, once every one of them says that its disk
// is empty. One that is silent may hold the cluster's view: a majority of empty disks proves nothing.
func foundCluster(s *views.Views) *Outcome {
	if !s.MayBeNew() || s.Record.Taken != "" {
		return nil
	}
	var founders []membership.Founder
	var missing []string
	if o := discardMember(s); o != nil && s.AllWait() { // of a spec that was edited before this
		return o
	}
	if o := discardWitness(s); o != nil {
		return o
	}
	if o := remake(s); o != nil {
		return o
	}
	for _, m := range s.First {
		if why := awaited(s, m); why != "" {
			missing = append(missing, why)
			continue
		}
		r := s.Report(m.ID)
		if want := founded(s); r.Shards != want {
			missing = append(missing, fmt.Sprintf("%s was started with %d shards, where the cluster is to have %d at "+
				"first; delete its claim and its pod", message.Member(m), r.Shards, want))
			continue
		}
		founders = append(founders, membership.Founder{ID: m.ID, Site: m.Site, Address: m.Address, Disk: r.Disk})
	}
	missing = append(missing, unfounded(s)...)
	if len(missing) > 0 {
		return waitFor("WaitingForMembers", "The cluster is founded once every first member tells what its disk "+
			"holds; "+
			"missing: %s", message.List(missing))
	}
	if owned := owned(s); len(owned) > 0 {
		return waitFor(KeepingVolumes, "The cluster is founded once its volumes outlive the resource, as "+
			"spec.storage.retention asks for: %s", message.List(owned))
	}
	first, err := membership.Found(s.ClusterID, founders)
	switch {
	case err != nil:
	case s.Cluster.Spec.Partitioned():
		first, err = place(s, first)
	default:
		first.Founded = founded(s) // the default follows spec.resources, and disks do not
	}
	if err != nil {
		return waitFor("CannotFound", "%s", message.Sentence(err.Error()))
	}
	return act(writeRecord(s, first, "Founding", "Founds the cluster with %d members", first.Size()),
		message.Normal("Founded", "Found", fmt.Sprintf("Founded the cluster %s with %d members", s.ClusterID, first.Size())))
}

// remake removes, before the cluster is founded, a volume of another class than spec.storage asks for, or a larger one,
// if surely nothing is on it. It is made again as it is asked for.
func remake(s *views.Views) *Outcome {
	for _, m := range s.First {
		seen := s.Of(m.ID)
		if seen.Volume == nil || !s.Unused(seen) ||
			// Who is silent may hold a view that names its disk.
			seen.Volume.Status.Phase != corev1.ClaimPending && !s.AllWait() {
			continue
		}
		objects, why := remains(seen, true), volumeMisfit(seen.Volume, s.Cluster.Spec.Storage)
		if seen.Volume.DeletionTimestamp != nil {
			why = "is being deleted"
		}
		if why == "" || len(objects) == 0 {
			continue
		}
		return act(Discard{Member: m.ID, Volume: seen.Volume.Name, Why: why, Objects: objects},
			message.Normal("VolumeRemade", "Discard", fmt.Sprintf("Removed the unused volume %s of %s, which %s",
				seen.Volume.Name, message.Member(m), why)))
	}
	return nil
}

// owned names the volumes that would go with the resource though they are to outlive it. Before the founding they do:
// nothing is on them.
func owned(s *views.Views) (all []string) {
	for _, m := range s.First {
		if seen := s.Of(m.ID); seen.Volume != nil && build.Retained(s.Cluster) &&
			metav1.IsControlledBy(seen.Volume, s.Cluster) {
			all = append(all, seen.Volume.Name)
		}
	}
	return all
}

// volumeMisfit says how a volume differs from what is asked for in what no volume can change, or is empty.
func volumeMisfit(volume *corev1.PersistentVolumeClaim, asked v1alpha1.Storage) string {
	if class := volume.Spec.StorageClassName; asked.Class != "" && class != nil && *class != asked.Class {
		return fmt.Sprintf("is of class %s, not %s", *class, asked.Class)
	}
	if has, want := volume.Spec.Resources.Requests[corev1.ResourceStorage], asked.StorageSize(); has.Cmp(want) > 0 {
		return fmt.Sprintf("asks for %s, not %s", has.String(), want.String())
	}
	return ""
}

// unfounded says of each of the first witnesses that can't be founded with what it does. One that served a cluster
// before may hand that one's requests to this one's masters.
func unfounded(s *views.Views) (missing []string) {
	for _, w := range s.Coming {
		why := s.WitnessState(w)
		if seen := s.Dedicated(w.ID); seen.Witness != nil && len(seen.Witness.Lives) > 0 {
			why = fmt.Sprintf("served another cluster on its volume; delete the claim %s and its pod",
				build.DedicatedVolumeName(s.Cluster.Name, w))
		}
		if why != "" {
			missing = append(missing, fmt.Sprintf("%s %s", message.Witness(w), why))
		}
	}
	return missing
}

// place gives the first view of a cluster its partitions, once all witnesses named their disks.
func place(s *views.Views, first view.View) (view.View, error) {
	all := slices.Clone(s.Coming)
	for _, m := range first.Members {
		if !s.HasDedicated() {
			all = append(all, s.WitnessBeside(m))
		}
	}
	return membership.Place(first, all, s.Placement(founded(s), s.Cluster.Spec.Faults()))
}
