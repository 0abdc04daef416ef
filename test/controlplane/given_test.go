//go:build controlplane

package controlplane

import (
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/proof"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/apiserver"
)

// claim makes the claim of a member by hand, with annotations.
func (w *World) claim(cluster string, m view.Member, notes map[string]string) *corev1.PersistentVolumeClaim {
	w.t.Helper()
	claim := claimOfOthers()
	claim.Namespace, claim.Name, claim.Labels, claim.Annotations = w.namespace, build.VolumeName(cluster, m),
		build.MemberLabels(cluster, m), notes
	if err := w.api.Create(w.ctx, claim); err != nil {
		w.t.Fatal(err)
	}
	return claim
}

// stalledFor waits until a cluster is stalled for a reason and says all parts.
func (w *World) stalledFor(c *v1alpha1.GeoRegisterCluster, reason string, parts ...string) {
	w.t.Helper()
	eventually(w.t, "Stalled says "+strings.Join(parts, " and "), func() string {
		said := w.condition(c, v1alpha1.ConditionStalled, metav1.ConditionTrue)
		for _, part := range parts {
			if said.Reason != reason || !strings.Contains(said.Message, part) {
				return said.Reason + ": " + said.Message
			}
		}
		return ""
	})
}

// delete deletes objects.
func (w *World) delete(objects ...client.Object) {
	w.t.Helper()
	for _, object := range objects {
		if err := w.api.Delete(w.ctx, object); err != nil {
			w.t.Fatal(err)
		}
	}
}

// A copy of what a cluster that lives has stored can't be given to another one: two members would speak for one disk.
func TestWhatALivingClusterStoredIsNotGivenAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	user := "giving-operator-" + w.namespace
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	lives := w.create("web", nil)
	w.condition(lives, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	stored := w.record(lives).Cluster
	copied := w.claim("shop", view.Member{ID: 1, Site: "ca"},
		map[string]string{build.ClusterIDAnnotation: stored, build.AdoptAnnotation: "shop"})
	c := w.create("shop", nil)
	w.stalledFor(c, "NameTaken", copied.Name+" is not this cluster's (it holds what cluster "+stored+" stored)")
	w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
	w.isUntouched(copied)
	if w.get(c); c.Status.View != nil && c.Status.View.ClusterID == stored {
		t.Errorf("it is %+v", c.Status.View)
	}
	w.condition(lives, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	w.delete(copied)
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
	if own := w.record(c).Cluster; !strings.HasPrefix(own, "shop.") || w.record(lives).Cluster != stored {
		t.Errorf("they are %s and %s", own, w.record(lives).Cluster)
	}
}

// Claims that hold what different clusters of the name stored are a question to people, whatever they are annotated
// with.
func TestClaimsOfDifferentClustersAreAQuestion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.claim("store", view.Member{ID: 1, Site: "ca"},
		map[string]string{build.ClusterIDAnnotation: "store.old", build.AdoptAnnotation: "store"})
	two := w.claim("store", view.Member{ID: 2, Site: "va"},
		map[string]string{build.ClusterIDAnnotation: "store.older", build.AdoptAnnotation: "store"})
	user := "asking-operator-" + w.namespace
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	c := w.create("store", nil)
	w.stalledFor(c, "VolumesDiffer", one.Name+" of cluster store.old", two.Name+" of cluster store.older")
	w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
	w.isUntouched(one)
	w.isUntouched(two)
	if pods := w.pods(); len(pods) > 0 {
		t.Errorf("there are the pods %v", pods)
	}
	w.delete(one, two)
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// A Secret that was given to the cluster, or written by hand, is used if there is a key in it; if not, no pod mounts
// it, and the condition says what to write.
func TestASecretWithoutAKeyIsNotUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: w.namespace, Name: build.SecretName("store"),
			Annotations: map[string]string{build.AdoptAnnotation: "store"},
		},
		Data: map[string][]byte{build.KeysKey: []byte("secret")},
	}
	if err := w.api.Create(w.ctx, secret); err != nil {
		t.Fatal(err)
	}
	user := "key-operator-" + w.namespace
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Protocol = "GryffRSC" })
	w.stalledFor(c, "ObjectUnusable", secret.Name+" can't be used", "data.keys", "write 64 hexadecimal digits")
	w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
	w.isUntouched(secret)
	if pods := w.pods(); len(pods) > 0 {
		t.Errorf("there are the pods %v", pods)
	}
	drawn := proof.Draw()
	secret.Data[build.KeysKey] = drawn
	if err := w.api.Update(w.ctx, secret); err != nil {
		t.Fatal(err)
	}
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
	if w.get(secret); string(secret.Data[build.KeysKey]) != string(drawn) {
		t.Error("the key was written over")
	}
}
