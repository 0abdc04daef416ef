//go:build controlplane

package controlplane

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/test/apiserver"
)

// theirs are the labels of somebody else's pods.
var theirs = map[string]string{"app": "web"}

// ofOthers are objects that somebody else made under the names of a cluster's, one of each kind and use.
func ofOthers(cluster string) map[string]client.Object {
	first, witness := view.Member{ID: 1, Site: "ca"}, view.Witness{ID: 2, Site: "ca"}
	service := func() *corev1.Service {
		return &corev1.Service{Spec: corev1.ServiceSpec{Selector: theirs, Ports: []corev1.ServicePort{{Port: 80}}}}
	}
	named := func(name string, object client.Object) client.Object {
		object.SetName(name)
		return object
	}
	return map[string]client.Object{
		"Service of clients": named(build.ClientsName(cluster), service()),
		"Service of a site":  named(build.SiteName(cluster, "ca"), service()),
		"Service of peers":   named(build.PeersName(cluster), service()),
		"ConfigMap of boot": named(build.BootName(cluster),
			&corev1.ConfigMap{Data: map[string]string{"theirs": "kept"}}),
		"ConfigMap of record": named(build.RecordName(cluster),
			&corev1.ConfigMap{Data: map[string]string{"theirs": "kept"}}),
		"Secret": named(build.SecretName(cluster),
			&corev1.Secret{Data: map[string][]byte{"theirs": []byte("kept")}}),
		"ServiceAccount":                     named(build.MembersName(cluster), &corev1.ServiceAccount{}),
		"PodDisruptionBudget":                named(build.MembersName(cluster), budgetOfOthers()),
		"NetworkPolicy":                      named(build.MembersName(cluster), policyOfOthers()),
		"PersistentVolumeClaim":              named(build.VolumeName(cluster, first), claimOfOthers()),
		"StatefulSet":                        named(build.StatefulSetName(cluster, first), setOfOthers()),
		"PodDisruptionBudget of witnesses":   named(build.WitnessesName(cluster), budgetOfOthers()),
		"NetworkPolicy of witnesses":         named(build.WitnessesName(cluster), policyOfOthers()),
		"PersistentVolumeClaim of a witness": named(build.DedicatedVolumeName(cluster, witness), claimOfOthers()),
		"StatefulSet of a witness":           named(build.DedicatedName(cluster, witness), setOfOthers()),
	}
}

func budgetOfOthers() *policyv1.PodDisruptionBudget {
	return &policyv1.PodDisruptionBudget{
		Spec: policyv1.PodDisruptionBudgetSpec{
			Selector: &metav1.LabelSelector{MatchLabels: theirs}, MinAvailable: new(intstr.IntOrString),
		},
	}
}

func policyOfOthers() *networkingv1.NetworkPolicy {
	return &networkingv1.NetworkPolicy{
		Spec: networkingv1.NetworkPolicySpec{PodSelector: metav1.LabelSelector{MatchLabels: theirs}},
	}
}

func claimOfOthers() *corev1.PersistentVolumeClaim {
	return &corev1.PersistentVolumeClaim{Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
		Resources: corev1.VolumeResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
		},
	}}
}

func setOfOthers() *appsv1.StatefulSet {
	return &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{
		Replicas: new(int32), ServiceName: "web", Selector: &metav1.LabelSelector{MatchLabels: theirs},
		Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: theirs},
			Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "web"}}},
		},
	}}
}

// needing makes a cluster of which objects of all these uses are, and that takes its volumes along.
func needing(what string) func(*v1alpha1.GeoRegisterClusterSpec) {
	return func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Protocol = "GryffRSC" // whose sessions have keys
		if strings.Contains(what, "witness") {
			apart(s)
		}
		s.Storage.Retention = v1alpha1.Delete
	}
}

// What somebody else made under a name that a cluster needs is named in a condition, and is neither changed nor
// deleted, not with the resource either; nothing is written again and again meanwhile; and once it is gone the cluster
// goes on.
func TestWhatIsOfOthersIsLeftAlone(t *testing.T) {
	t.Parallel()
	for what := range ofOthers("") {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			other := w.create("other", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Paused = true })
			owners := map[string][]metav1.OwnerReference{
				"nobodys": nil,
				"others":  {ownerOf(v1alpha1.GroupVersion.String(), v1alpha1.Kind, other, true)},
			}
			objects := map[string]client.Object{}
			for name, owner := range owners {
				object := ofOthers(name)[what]
				object.SetNamespace(w.namespace)
				object.SetOwnerReferences(owner)
				if err := w.api.Create(w.ctx, object); err != nil {
					t.Fatal(err)
				}
				objects[name] = object
			}
			user := "blocked-operator-" + w.namespace
			StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
			clusters := map[string]*v1alpha1.GeoRegisterCluster{}
			for name := range owners {
				clusters[name] = w.create(name, needing(what))
			}
			for name, c := range clusters {
				eventually(t, "a condition names the object", func() string { return w.namesTaken(c, objects[name]) })
			}
			w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
			for _, object := range objects {
				w.isUntouched(object)
			}
			if err := w.api.Delete(w.ctx, objects["nobodys"]); err != nil {
				t.Fatal(err)
			}
			w.condition(clusters["nobodys"], v1alpha1.ConditionReady, metav1.ConditionTrue)
			for _, c := range clusters {
				if err := w.api.Delete(w.ctx, c); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "what was the clusters' goes", func() string {
				var services corev1.ServiceList
				if err := w.api.List(w.ctx, &services, client.InNamespace(w.namespace)); err != nil {
					return err.Error()
				}
				for i := range services.Items {
					if s := &services.Items[i]; !maps.Equal(s.Spec.Selector, theirs) {
						return s.Name + " is there"
					}
				}
				return ""
			})
			w.isUntouched(objects["others"])
		})
	}
}

// What emulates the network has the hash of its pods in its name, so nobody has that name by chance; but an object of
// Chaos Mesh may have been released from its cluster, or been given to another one. It is named, left alone, and once
// it is gone the network is made again.
func (in *wide) leavesOthersAlone(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, in.control.Config)
	first := in.operator(t, w, "fifth")
	other := w.create("other", func(s *v1alpha1.GeoRegisterClusterSpec) { s.Paused = true })
	mesh := StartChaosMesh(t, in.control.Config, w.namespace)
	c := w.create("store", loses)
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	objects := w.injections(mesh, 6)[:2]
	first.Stop()
	for i, owners := range [][]metav1.OwnerReference{
		nil, {ownerOf(v1alpha1.GroupVersion.String(), v1alpha1.Kind, other, true)},
	} {
		theirs := chaosmesh.Empty()
		theirs.SetName(objects[i].GetName())
		theirs.SetNamespace(w.namespace)
		theirs.SetOwnerReferences(owners)
		theirs.SetLabels(map[string]string{"app": "web"})
		theirs.Object["spec"] = objects[i].Object["spec"]
		if err := w.api.Delete(w.ctx, &objects[i]); err != nil {
			t.Fatal(err)
		}
		eventually(t, "somebody else has the name", func() string {
			if err := w.api.Create(w.ctx, theirs); err != nil {
				return err.Error()
			}
			return ""
		})
		objects[i] = *theirs
	}
	in.operatorAs(t, w, "fifth")
	for i := range objects {
		eventually(t, "a condition names the object", func() string { return w.namesTaken(c, &objects[i]) })
	}
	w.condition(c, v1alpha1.ConditionStalled, metav1.ConditionTrue)
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	w.restsWithin(6*time.Second, func() []apiserver.Request { return in.requests(t, "fifth") })
	for i := range objects {
		w.isUntouched(&objects[i])
		if err := w.api.Delete(w.ctx, &objects[i]); err != nil {
			t.Fatal(err)
		}
	}
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	w.injections(mesh, 6)
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// Clusters whose names and sites look alike have nothing in common.
func TestClustersOfLikeNamesLiveSideBySide(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	addNodes(t, w.api, "eu")
	user := "operator-of-two-" + w.namespace
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	first := w.create("shop", func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Sites = []v1alpha1.Site{{Name: "ca"}, {Name: "va"}, {Name: "eu"}}
	})
	second := w.create("shop-eu", nil)
	for _, c := range []*v1alpha1.GeoRegisterCluster{first, second} {
		w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
	}
	w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
	var services corev1.ServiceList
	if err := w.api.List(w.ctx, &services, client.InNamespace(w.namespace)); err != nil {
		t.Fatal(err)
	}
	seen := map[string]int{}
	for i := range services.Items {
		seen[metav1.GetControllerOf(&services.Items[i]).Name]++
	}
	if seen["shop"] != 5 || seen["shop-eu"] != 5 {
		t.Errorf("they have %v Services", seen)
	}
	if err := w.api.Delete(w.ctx, first); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first one's pods end", func() string {
		if pods := w.pods(); len(pods) != 3 {
			return fmt.Sprintf("there are the pods %v", pods)
		}
		return ""
	})
	w.condition(second, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// An operator that starts anew finds taken what the one before it found so, without a write; and what is theirs keeps
// the name as long as somebody's finalizer keeps it from going.
func TestATakenNameOutlivesTheOperator(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	object := ofOthers("store")["Service of clients"]
	object.SetNamespace(w.namespace)
	object.SetFinalizers([]string{"example.com/held"})
	if err := w.api.Create(w.ctx, object); err != nil {
		t.Fatal(err)
	}
	user := "restarted-operator-" + w.namespace
	config := boundOperator(t, w, user)
	operator := StartOperator(t, config, settings(w.namespace))
	c := w.create("store", nil)
	eventually(t, "a condition names the object", func() string { return w.namesTaken(c, object) })
	operator.Stop()
	if err := w.api.Delete(w.ctx, object); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Get(w.ctx, client.ObjectKeyFromObject(object), object); err != nil ||
		object.GetDeletionTimestamp() == nil {
		t.Fatalf("the finalizer does not hold it: %v", err)
	}
	StartOperator(t, config, settings(w.namespace))
	w.restsWithin(6*time.Second, func() []apiserver.Request { return requests(t, user) })
	if missing := w.namesTaken(c, object); missing != "" {
		t.Error(missing)
	}
	w.isUntouched(object)
	object.SetFinalizers(nil)
	if err := w.api.Update(w.ctx, object); err != nil {
		t.Fatal(err)
	}
	w.condition(c, v1alpha1.ConditionReady, metav1.ConditionTrue)
}

// restsWithin waits until an operator, whose requests are given, has written nothing for a while: it does not go round
// and round.
func (w *World) restsWithin(window time.Duration, requests func() []apiserver.Request) {
	w.t.Helper()
	writes := func() (n int) {
		for _, r := range requests() {
			if !slices.Contains([]string{"get", "list", "watch"}, r.Verb) && r.ObjectRef.Resource != "leases" {
				n++
			}
		}
		return n
	}
	eventuallyIn(w.t, 3*within, "nothing is written", func() string { // masters may move before that
		before := writes()
		time.Sleep(window) // in which nothing may happen
		if after := writes(); after != before {
			return fmt.Sprintf("%d writes within %v", after-before, window)
		}
		return ""
	})
}

// namesTaken says what keeps the conditions of a cluster from naming an object, or nothing.
func (w *World) namesTaken(c *v1alpha1.GeoRegisterCluster, object client.Object) string {
	w.get(c)
	for _, condition := range c.Status.Conditions {
		if strings.Contains(condition.Message, "/"+object.GetName()+" is not this cluster's") {
			return ""
		}
	}
	return fmt.Sprintf("the conditions are %v", c.Status.Conditions)
}

// isUntouched fails if an object is not there any more, or the operator has written it.
func (w *World) isUntouched(object client.Object) {
	w.t.Helper()
	uid, labels, notes, ends := object.GetUID(), object.GetLabels(), object.GetAnnotations(),
		!object.GetDeletionTimestamp().IsZero()
	w.get(object)
	if !maps.Equal(labels, object.GetLabels()) || !maps.Equal(notes, object.GetAnnotations()) {
		w.t.Errorf("%T %s has the labels %v and annotations %v", object, object.GetName(), object.GetLabels(),
			object.GetAnnotations())
	}
	if object.GetUID() != uid || ends == object.GetDeletionTimestamp().IsZero() {
		w.t.Errorf("%T %s was deleted", object, object.GetName())
	}
	for _, field := range object.GetManagedFields() {
		if field.Manager == string(apply.Owner) {
			w.t.Errorf("the operator has written %T %s: %s", object, object.GetName(), field.FieldsV1)
		}
	}
}

// Between the look for an object and the apply that makes it somebody else may make one: the apiserver then refuses the
// apply.
func TestAnApplyThatMakesTakesNothingOver(t *testing.T) {
	t.Parallel()
	api := newClient(t, environment.Config)
	namespace := newNamespace(t, api)
	theirs := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "theirs"}, Data: map[string]string{"k": "theirs"},
	}
	if err := api.Create(t.Context(), theirs); err != nil {
		t.Fatal(err)
	}
	made := func(name string) error {
		u := &unstructured.Unstructured{Object: map[string]any{"data": map[string]any{"k": "ours"}}}
		u.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
		u.SetNamespace(namespace)
		u.SetName(name)
		u.SetResourceVersion(apply.Absent)
		return api.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(u), apply.Owner, client.ForceOwnership)
	}
	if err := made("theirs"); !apierrors.IsConflict(err) {
		t.Errorf("an apply over an object that is there: %v", err)
	}
	if err := api.Get(t.Context(), client.ObjectKeyFromObject(theirs), theirs); err != nil ||
		theirs.Data["k"] != "theirs" {
		t.Errorf("it holds %v: %v", theirs.Data, err)
	}
	if err := made("ours"); err != nil {
		t.Errorf("an apply where nothing is: %v", err)
	}
}
