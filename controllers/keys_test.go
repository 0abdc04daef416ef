package controllers

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/proof"
)

func withSessions(protocol string) world.Snapshot {
	cluster := &v1alpha1.GeoRegisterCluster{
		ObjectMeta: metav1.ObjectMeta{Namespace: "stores", Name: "shop", UID: "mine"},
	}
	cluster.Spec.Protocol = protocol
	return world.Snapshot{Cluster: cluster}
}

// The keys are drawn once; whoever replaces them does so by hand, and the operator never takes that back.
func TestKeysAreMadeOnce(t *testing.T) {
	d := &diary{}
	r, s := operator(t, d), withSessions("GryffRSC")
	secret := &corev1.Secret{}
	for range 3 {
		if taken, err := r.executor.keys(t.Context(), s); err != nil || taken != nil {
			t.Fatal(taken, err)
		}
	}
	if err := r.client.Get(t.Context(), client.ObjectKey{Namespace: "stores", Name: "shop--token-keys"},
		secret); err != nil {
		t.Fatal(err)
	}
	if _, err := proof.Parse(secret.Data[build.KeysKey], "c"); err != nil || len(secret.OwnerReferences) != 1 ||
		secret.OwnerReferences[0].UID != "mine" {
		t.Errorf("%v, owned by %v", err, secret.OwnerReferences)
	}
	secret.Data[build.KeysKey] = append(proof.Draw(), secret.Data[build.KeysKey]...)
	if err := r.client.Update(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	if taken, err := r.executor.keys(t.Context(), s); err != nil || taken != nil {
		t.Fatal(taken, err)
	}
	after := &corev1.Secret{}
	if err := r.client.Get(t.Context(), client.ObjectKeyFromObject(secret), after); err != nil ||
		!bytes.Equal(after.Data[build.KeysKey], secret.Data[build.KeysKey]) {
		t.Errorf("what people wrote is gone: %v", err)
	}
	made := slices.DeleteFunc(d.lines, func(line string) bool { return line != "create shop--token-keys" })
	if len(made) != 1 {
		t.Errorf("it was made %d times", len(made))
	}
}

func TestNoKeysWithoutSessionsOrForWhoGoes(t *testing.T) {
	gone := withSessions("GryffRSC")
	gone.Cluster.DeletionTimestamp = &metav1.Time{}
	gone.Cluster.DeletionTimestamp.Time = gone.Cluster.DeletionTimestamp.AddDate(2026, 0, 0)
	for _, s := range []world.Snapshot{withSessions("Gryff"), gone} {
		d := &diary{}
		if taken, err := operator(t, d).executor.keys(t.Context(), s); err != nil || taken != nil || len(d.lines) > 0 {
			t.Errorf("%v: %v, %v, %q", s.Cluster.Spec.Protocol, taken, err, d.lines)
		}
	}
}

// What is given to the cluster, or was written by hand, is used if it holds a key, and never written over.
func TestKeysThatAreNone(t *testing.T) {
	for content, flaw := range map[string]string{
		"": "data.keys: line 1 is no key", "short": "data.keys: line 1 is no key", string(proof.Draw()): "",
		string(proof.Draw()) + "x": "data.keys: line 2 is no key",
	} {
		d := &diary{}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
			Namespace: "stores", Name: "shop--token-keys",
			Annotations: map[string]string{build.AdoptAnnotation: "shop"},
		}, Data: map[string][]byte{build.KeysKey: []byte(content)}}
		taken, err := operator(t, d, secret).executor.keys(t.Context(), withSessions("GryffRSC"))
		if err != nil || len(d.lines) > 0 || (len(taken) == 1) != (flaw != "") ||
			len(taken) == 1 && !strings.Contains(taken[0].Flaw, flaw) {
			t.Errorf("%q: %+v, %v, %q", content, taken, err, d.lines)
		}
	}
}

// A Secret of somebody else is neither read nor changed, and said so, also that of a former cluster of the name, which
// may stay.
func TestForeignKeysAreLeftAlone(t *testing.T) {
	yes := true
	for name, test := range map[string]struct {
		owner metav1.OwnerReference
	}{
		"nobody's": {},
		"another's": {
			owner: metav1.OwnerReference{
				APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: "other", UID: "other", Controller: &yes,
			},
		},
		"a namesake's": {
			owner: metav1.OwnerReference{
				APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: "shop", UID: "former", Controller: &yes,
			},
		},
		"a workload's": {
			owner: metav1.OwnerReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "shop", UID: "web", Controller: &yes,
			},
		},
		"not controlled": {
			owner: metav1.OwnerReference{
				APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.Kind, Name: "shop", UID: "mine",
			},
		},
	} {
		d := &diary{}
		secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "stores", Name: "shop--token-keys"}}
		if test.owner.Name != "" {
			secret.OwnerReferences = []metav1.OwnerReference{test.owner}
		}
		taken, err := operator(t, d, secret).executor.keys(t.Context(), withSessions("GryffRSC"))
		if err != nil || len(taken) != 1 || len(d.lines) > 0 {
			t.Errorf("%s: %v, %v, %q", name, taken, err, d.lines)
		}
	}
}
