//go:build controlplane

package controlplane

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/test/apiserver"
)

// requests are those of a user that the apiserver answered, in order.
func requests(t *testing.T, user string) []apiserver.Request {
	t.Helper()
	file, err := os.Open(auditLog)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	all, err := apiserver.Requests(file, user)
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// operatorRole reads the generated role of the operator.
func operatorRole(t *testing.T) *rbacv1.ClusterRole {
	t.Helper()
	role, err := apiserver.Role(root, "georegister-operator")
	if err != nil {
		t.Fatal(err)
	}
	return role
}

// boundOperator is how to reach the apiserver as a user that may do what the generated role says, in one namespace.
func boundOperator(t *testing.T, w *World, user string) *rest.Config {
	t.Helper()
	authenticated, err := environment.AddUser(envtest.User{Name: user}, environment.Config)
	if err != nil {
		t.Fatal(err)
	}
	role := operatorRole(t)
	role.Name = "operator-" + w.namespace
	binding := &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role.Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	}
	if err := w.api.Create(w.ctx, role); err != nil {
		t.Fatal(err)
	}
	if err := w.api.Create(w.ctx, binding); err != nil {
		t.Fatal(err)
	}
	return authenticated.Config()
}

// optional are the groups of kinds that are not here.
var optional = map[string]bool{"monitoring.coreos.com": true, "chaos-mesh.org": true}

// The role is all that is needed, and all of it is: but for the kinds of other operators, which are not here.
func TestTheGeneratedRoleIsWhatIsUsed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	const user = "bound-operator"
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	c := w.create("store", func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Protocol, s.Storage.Retention = "GryffRSC", v1alpha1.Delete // whose sessions have keys
	})
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	w.condition(c, v1alpha1.ConditionToleratesZoneLoss, metav1.ConditionUnknown)
	before := w.record(c)
	if err := w.api.Delete(w.ctx, w.recordObject(c)); err != nil {
		t.Fatal(err)
	}
	w.holds(c, before)
	w.breakVolume(c, before.Members[0])
	w.replaced(c, 3)
	w.change(c, at("ca", "va", "or"))
	w.replaced(c, 5)
	w.unserved(c, "ir")
	down := build.PodName(c.Name, w.record(c).Members[1])
	w.kubelet.Hold(down)
	w.condition(c, v1alpha1.ConditionDegraded, metav1.ConditionTrue)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	eventually(t, "the pod that is not ready is deleted", func() string {
		pod := &corev1.Pod{}
		err := w.api.Get(w.ctx, client.ObjectKey{Namespace: w.namespace, Name: down}, pod)
		if err != nil || pod.Spec.Containers[0].Image != "georegister:next" {
			return fmt.Sprintf("it runs %v (%v)", pod.Spec.Containers, err)
		}
		return ""
	})
	w.kubelet.Release(down)
	w.updated(c, "georegister:next")
	w.serving(c)

	granted, used := map[string]bool{}, map[string]bool{
		"patch events.events.k8s.io": true, // client-go does so for an event that comes twice in the same second or so
	}
	for _, rule := range operatorRole(t).Rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					// A list is what a watch begins with where the apiserver can't stream what is there.
					if !optional[group] && verb != "list" {
						granted[verb+" "+resource+"."+group] = true
					}
				}
			}
		}
	}
	eventually(t, "the requests are what the role grants", func() string {
		for _, r := range requests(t, user) {
			if r.ObjectRef.Resource == "" || r.ResponseStatus.Code == 403 || r.Verb == "list" {
				continue
			}
			resource := r.ObjectRef.Resource
			if r.ObjectRef.Subresource != "" {
				resource += "/" + r.ObjectRef.Subresource
			}
			used[r.Verb+" "+resource+"."+r.ObjectRef.APIGroup] = true
			if r.Verb == "patch" && r.ResponseStatus.Code == 201 { // an apply that made the object
				used["create "+resource+"."+r.ObjectRef.APIGroup] = true
			}
		}
		return difference(granted, used)
	})
	for _, r := range requests(t, user) {
		if r.ResponseStatus.Code == 403 && r.ObjectRef.Resource != "nodes" &&
			r.ObjectRef.Resource != "persistentvolumes" {
			t.Errorf("the operator was refused: %+v", r)
		}
	}
}

func difference(granted, used map[string]bool) string {
	var all []string
	for pair := range granted { // sorted below
		if !used[pair] {
			all = append(all, "granted and not used: "+pair)
		}
	}
	for pair := range used { // sorted below
		if !granted[pair] {
			all = append(all, "used and not granted: "+pair)
		}
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// It runs beside no other test: a probe of a pod that ends late, since others take the processors, is told in the
// status, and is no rest.
func TestAtRestNothingIsAskedOfTheAPIServer(t *testing.T) {
	w := newWorld(t)
	const user = "resting-operator"
	StartOperator(t, boundOperator(t, w, user), settings(w.namespace))
	c := w.create("store", nil)
	w.condition(c, v1alpha1.ConditionAvailable, metav1.ConditionTrue)
	w.condition(c, v1alpha1.ConditionProgressing, metav1.ConditionFalse)
	// Rounds without a change: an object that nobody asks for has the cluster looked at.
	nudge := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: w.namespace, Name: "nudge", Labels: map[string]string{
			"georegister.io/cluster": c.Name, "app.kubernetes.io/managed-by": "georegister",
		},
	}}
	if err := w.api.Create(w.ctx, nudge); err != nil {
		t.Fatal(err)
	}
	settled := len(requests(t, user))
	eventually(t, "the last writes of the start are over", func() string {
		before := settled
		time.Sleep(2 * time.Second) // a window in which nothing may happen
		all := requests(t, user)
		if settled = len(all); settled != before {
			return fmt.Sprintf("there were more requests: %+v", all[before:])
		}
		return ""
	})
	for i := range 5 {
		nudge.Data = map[string]string{"round": strings.Repeat("x", i+1)}
		if err := w.api.Update(w.ctx, nudge); err != nil {
			t.Fatal(err)
		}
		time.Sleep(500 * time.Millisecond) // a round of its own
	}
	for _, r := range requests(t, user)[settled:] {
		if r.Verb != "watch" {
			t.Errorf("at rest the operator asked: %+v", r)
		}
	}
}
