package controllers

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/proof"
)

// keys makes the Secret with which members prove what sessions depend on, once in the cluster's life. Secrets are
// neither listed nor cached: it is asked for by name, without its content unless it is the cluster's, and only as long
// as a member does not answer. One of somebody else in its place, or one that holds no key, is returned.
func (e *executor) keys(ctx context.Context, s world.Snapshot) (taken []world.Taken, err error) {
	cluster := s.Cluster
	seen, _ := e.keyed.Load(client.ObjectKeyFromObject(cluster))
	if !cluster.Spec.Regular() || !cluster.DeletionTimestamp.IsZero() || seen == cluster.UID && allAnswer(s) {
		return nil, nil
	}
	found := &metav1.PartialObjectMetadata{TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}}
	name := client.ObjectKey{Namespace: cluster.Namespace, Name: build.SecretName(cluster.Name)}
	err = e.live.Get(ctx, name, found)
	if apierrors.IsNotFound(err) {
		return nil, e.applier.Secret(ctx, build.Keys(cluster, proof.Draw()))
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("look for Secret %s: %w", name.Name, err)
	case !build.Owns(cluster, found, ""):
		return []world.Taken{{Kind: "Secret", Name: name.Name, Whose: build.Whose(found)}}, nil
	}
	secret := &corev1.Secret{} // which people may have given to the cluster, or written since
	if err := e.live.Get(ctx, name, secret); err != nil {
		return nil, fmt.Errorf("read Secret %s: %w", name.Name, err)
	}
	if _, err := proof.Parse(secret.Data[build.KeysKey], "any"); err != nil {
		return []world.Taken{
			{Kind: "Secret", Name: name.Name, Flaw: fmt.Sprintf("its entry data.%s: %v", build.KeysKey, err)},
		}, nil
	}
	e.keyed.Store(client.ObjectKeyFromObject(cluster), cluster.UID)
	return nil, nil
}

// allAnswer reports whether every member runs: its pod has mounted what it needs.
func allAnswer(s world.Snapshot) bool {
	return len(s.Members) > 0 &&
		!slices.ContainsFunc(s.Members, func(m world.Member) bool { return m.Report == nil })
}
