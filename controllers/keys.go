package controllers

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/proof"
)

// keys makes the Secret with which members prove what sessions depend on, once in the cluster's life. Secrets are neither listed nor
// cached: it is asked for by name, without its content, and only as long as a member does not answer.
func (r *Reconciler) keys(ctx context.Context, s world.Snapshot) error {
	cluster := s.Cluster
	seen, _ := r.keyed.Load(client.ObjectKeyFromObject(cluster))
	if !cluster.Spec.Regular() || !cluster.DeletionTimestamp.IsZero() || seen == cluster.UID && allAnswer(s) {
		return nil
	}
	found := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: build.KeysName(cluster.Name)}
	err := r.live.Get(ctx, name, found)
	if apierrors.IsNotFound(err) {
		// To wait until its cache has what it wrote, the client would list all Secrets.
		err = r.client.Create(ctx, build.Keys(cluster, proof.Draw()), apply.Owner, client.DisableReadYourWritesConsistency)
		if apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("%w: Secret %s was made meanwhile", apply.ErrStale, name.Name)
		}
		if err != nil {
			return fmt.Errorf("make Secret %s: %w", name.Name, err)
		}
		return nil
	}
	if err != nil {
		return fmt.Errorf("look for Secret %s: %w", name.Name, err)
	}
	if err := ownedBy(cluster, found); err != nil {
		return err
	}
	r.keyed.Store(client.ObjectKeyFromObject(cluster), cluster.UID)
	return nil
}

// ownedBy reports an object that is not a cluster's.
func ownedBy(cluster *v1alpha1.GeoRegisterCluster, object client.Object) error {
	for _, owner := range object.GetOwnerReferences() {
		switch {
		case owner.UID == cluster.UID:
			return nil
		case owner.Kind == v1alpha1.Kind && owner.Name == cluster.Name: // of a former resource of the name
			return fmt.Errorf("%w: Secret %s goes with a former cluster of this name", apply.ErrStale, object.GetName())
		}
	}
	return errors.New("Secret " + object.GetName() + " is not this cluster's, and is left alone; its members need a Secret of this name: " +
		"rename the cluster, or delete the Secret if nobody needs it")
}

// allAnswer reports whether every member runs: its pod has mounted what it needs.
func allAnswer(s world.Snapshot) bool {
	for i := range s.Members {
		if s.Members[i].Report == nil {
			return false
		}
	}
	return len(s.Members) > 0
}
