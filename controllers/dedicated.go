package controllers

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// dedicated gathers what there is of every witness with a pod of its own, by the labels, as parts does of members, and
// names those of the view of whom nothing is.
func (r *Reconciler) dedicated(
	ctx context.Context, cluster *v1alpha1.GeoRegisterCluster, v view.View,
) ([]world.Member, error) {
	if !cluster.Spec.Dedicated() {
		return nil, nil
	}
	found := map[view.MemberID]*world.Member{}
	witness := func(w view.Witness) *world.Member {
		if found[w.ID] == nil {
			found[w.ID] = &world.Member{ID: w.ID, Site: w.Site}
		}
		return found[w.ID]
	}
	for _, w := range v.Witnesses {
		if w.Beside == 0 {
			witness(w)
		}
	}
	of := []client.ListOption{
		client.InNamespace(cluster.Namespace),
		client.MatchingLabels{build.ClusterLabel: cluster.Name, build.ComponentLabel: build.WitnessComponent},
	}
	var sets appsv1.StatefulSetList
	var pods corev1.PodList
	var volumes corev1.PersistentVolumeClaimList
	for _, list := range []client.ObjectList{&sets, &pods, &volumes} {
		if err := r.client.List(ctx, list, of...); err != nil {
			return nil, fmt.Errorf("list %T of witnesses: %w", list, err)
		}
	}
	for i := range sets.Items {
		if w, ok := whoseWitness(&sets.Items[i], cluster.Name, v, build.DedicatedName); ok &&
			build.Claims(cluster, &sets.Items[i]) {
			witness(w).StatefulSet = &sets.Items[i]
		}
	}
	for i := range pods.Items {
		if w, ok := whoseWitness(&pods.Items[i], cluster.Name, v, build.DedicatedPodName); ok &&
			runs(cluster, &pods.Items[i], build.DedicatedName(cluster.Name, w), sets.Items) {
			witness(w).Pod = &pods.Items[i]
		}
	}
	for i := range volumes.Items {
		if w, ok := whoseWitness(&volumes.Items[i], cluster.Name, v, build.DedicatedVolumeName); ok &&
			build.Claims(cluster, &volumes.Items[i]) {
			witness(w).Volume = &volumes.Items[i]
		}
	}
	var all []world.Member
	for _, m := range found { // sorted below
		name := build.DedicatedVolumeName(cluster.Name, view.Witness{ID: m.ID, Site: m.Site})
		if err := r.findVolume(ctx, cluster, m, name); err != nil {
			return nil, err
		}
		all = append(all, *m)
	}
	slices.SortFunc(all, func(a, b world.Member) int { return cmp.Compare(a.ID, b.ID) })
	return all, nil
}

// whoseWitness says which witness's an object is, as whose does of members.
func whoseWitness(
	object client.Object, cluster string, v view.View, named func(string, view.Witness) string,
) (view.Witness, bool) {
	id, ok := labelledID(object, build.WitnessLabel)
	if !ok {
		return view.Witness{}, false
	}
	w := view.Witness{ID: id, Site: object.GetLabels()[build.SiteLabel]}
	if known, in := v.Witness(w.ID); in && known.Beside == 0 {
		w = known
	}
	return w, object.GetName() == named(cluster, w)
}
