//go:build controlplane

package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers"
	"github.com/georegister/georegister/controllers/apply"
	"github.com/georegister/georegister/controllers/chaosmesh"
	"github.com/georegister/georegister/test/apiserver"
)

// wide is a control plane of its own: Chaos Mesh's kind comes to it while operators of a role work there.
type wide struct {
	control *envtest.Environment
	audit   string
}

func startWide(t *testing.T) *wide {
	t.Helper()
	directory := t.TempDir()
	control, audit, err := apiserver.Start(root, directory)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = control.Stop() }) // an error says that the apiserver had to be killed
	w := &wide{control, audit}
	role := operatorRole(t)
	if err := newClient(t, control.Config).Create(t.Context(), role); err != nil {
		t.Fatal(err)
	}
	return w
}

// operator runs an operator of the generated role in a world, under a name of its own.
func (w *wide) operator(t *testing.T, in *World, user string) *Operator {
	t.Helper()
	err := in.api.Create(in.ctx, &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: in.namespace, Name: "operator"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: operatorRole(t).Name},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: user}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return w.operatorAs(t, in, user)
}

// operatorAs runs an operator as a user that has the role in a world already.
func (w *wide) operatorAs(t *testing.T, in *World, user string) *Operator {
	t.Helper()
	authenticated, err := w.control.AddUser(envtest.User{Name: user}, w.control.Config)
	if err != nil {
		t.Fatal(err)
	}
	return startOperator(t, authenticated.Config(),
		controllers.Options{Settings: settings(in.namespace), DiscoverEvery: time.Second}, nil)
}

// requests are those of a user, but for those that ask which kinds there are.
func (w *wide) requests(t *testing.T, user string) (all []apiserver.Request) {
	t.Helper()
	file, err := os.Open(w.audit)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = file.Close() }() // only read
	every, err := apiserver.Requests(file, user)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(every, func(r apiserver.Request) bool { return r.ObjectRef.Resource == "" })
}

// loses is a network that nothing here emulates, and that is as declared even so: some packets are said to be lost.
func loses(s *v1alpha1.GeoRegisterClusterSpec) {
	s.WAN = &v1alpha1.WAN{Provider: v1alpha1.ChaosMesh}
	for _, between := range [][]string{{"ca", "va"}, {"va", "ir"}, {"ir", "ca"}} {
		s.WAN.Links = append(s.WAN.Links, v1alpha1.Link{Between: between, RTT: "0s", Loss: "1%"})
	}
}

// far is the same, but that va and ir are said to be far from each other: nothing here has them so.
func far(s *v1alpha1.GeoRegisterClusterSpec) {
	loses(s)
	s.WAN.Links[1].RTT = "30ms"
}

// Chaos Mesh's kind comes for these tests alone, into a control plane of their own.
func TestWAN(t *testing.T) {
	t.Parallel()
	in := startWide(t)
	t.Run("comes with Chaos Mesh", in.comesWithChaosMesh) // first: the kind stays for the others
	t.Run("is there", func(t *testing.T) {
		t.Run("and follows pods", in.followsPods)
		t.Run("and costs nothing at rest", in.costsNothingAtRest)
		t.Run("and is made again without effect", in.isMadeAgain)
		t.Run("and leaves objects of others alone", in.leavesOthersAlone)
	})
}

func (in *wide) comesWithChaosMesh(t *testing.T) {
	w := newWorldIn(t, in.control.Config)
	in.operator(t, w, "first")
	c := w.create("store", loses)
	w.serving(c) // which it does without Chaos Mesh too
	w.reason(c, v1alpha1.ConditionWANInjected, "ChaosMeshMissing")
	w.reason(c, v1alpha1.ConditionWANWithinTolerance, "WaitingForInjection")

	crds := envtest.CRDInstallOptions{
		Paths: []string{filepath.Join("testdata", "chaos-mesh")}, ErrorIfPathMissing: true,
	}
	if _, err := envtest.InstallCRDs(in.control.Config, crds); err != nil {
		t.Fatal(err)
	}
	w.reason(c, v1alpha1.ConditionWANInjected, "Injecting") // there is a kind, and nobody who does it
	mesh := StartChaosMesh(t, in.control.Config, w.namespace)
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	all := w.injections(mesh, 6)
	for i := range all {
		w.isOurs(c, &all[i])
	}
	w.serving(c)

	// What can't be undone is waited for, and said.
	mesh.Stick(true)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.WAN.Provider = v1alpha1.NoProvider })
	w.reason(c, v1alpha1.ConditionWANInjected, "Removing")
	w.injections(mesh, 6)
	mesh.Stick(false)
	w.injections(mesh, 0)
	eventually(t, "nothing is said of a network", func() string {
		w.get(c)
		for _, kind := range []string{v1alpha1.ConditionWANInjected, v1alpha1.ConditionWANWithinTolerance} {
			if is := meta.FindStatusCondition(c.Status.Conditions, kind); is != nil {
				return fmt.Sprintf("%s is %s: %s", kind, is.Reason, is.Message)
			}
		}
		if len(c.Status.Links) > 0 {
			return fmt.Sprintf("there are %+v", c.Status.Links)
		}
		return ""
	})
	w.tells(c, "WANInjected", "WANRemoved")
	in.usesItsRole(t, "first")
}

// isOurs asks the apiserver whose an object is. Its status is Chaos Mesh's: an apply that owned it would take it back.
func (w *World) isOurs(c *v1alpha1.GeoRegisterCluster, u *unstructured.Unstructured) {
	w.t.Helper()
	owners := u.GetOwnerReferences()
	if len(owners) != 1 || owners[0].UID != c.UID || owners[0].Controller == nil || !*owners[0].Controller {
		w.t.Errorf("%s goes with %+v", u.GetName(), owners)
	}
	ours := false
	for _, f := range u.GetManagedFields() {
		text := f.FieldsV1.GetRawString()
		switch f.Manager {
		case string(apply.Owner):
			ours = f.Operation == metav1.ManagedFieldsOperationApply && strings.Contains(text, `"f:spec"`)
			if strings.Contains(text, `"f:status"`) {
				w.t.Errorf("the operator owns the status of %s: %s", u.GetName(), text)
			}
		case string(chaosManager):
			if strings.Contains(text, `"f:spec"`) {
				w.t.Errorf("Chaos Mesh has changed %s: %s", u.GetName(), text)
			}
		}
	}
	if !ours {
		w.t.Errorf("the operator does not own the spec of %s: %+v", u.GetName(), u.GetManagedFields())
	}
}

// usesItsRole compares what an operator asked of the kind with what the role grants, and looks for what it was refused.
func (in *wide) usesItsRole(t *testing.T, user string) {
	t.Helper()
	used := map[string]bool{}
	for _, r := range in.requests(t, user) {
		if r.ResponseStatus.Code == 403 && r.ObjectRef.Resource != "nodes" &&
			r.ObjectRef.Resource != "persistentvolumes" {
			t.Errorf("the operator was refused: %+v", r)
		}
		if r.ObjectRef.Resource == "networkchaos" {
			used[r.Verb] = true
			if r.Verb == "patch" && r.ResponseStatus.Code == 201 { // an apply that made the object
				used["create"] = true
			}
		}
	}
	used["update"] = true // Chaos Mesh's webhook asks for it when an object is annotated
	used["list"] = true   // what a watch begins with where the apiserver can't stream what is there
	for _, rule := range operatorRole(t).Rules {
		if !slices.Contains(rule.Resources, "networkchaos") {
			continue
		}
		for _, verb := range rule.Verbs {
			if !used[verb] {
				t.Errorf("granted and not used: %s", verb)
			}
			delete(used, verb)
		}
	}
	if len(used) > 0 {
		t.Errorf("used and not granted: %v", used)
	}
}

func (in *wide) followsPods(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, in.control.Config)
	in.operator(t, w, "second")
	mesh := StartChaosMesh(t, in.control.Config, w.namespace)
	c := w.create("store", loses)
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	first := namesOf(w.injections(mesh, 6))

	pod := "store--ca--1-0"
	mesh.Deafen(pod)
	w.kubelet.Hold(pod)
	w.endPod(pod)
	w.reason(c, v1alpha1.ConditionWANInjected, "WaitingForPods")
	w.kubelet.Release(pod)
	w.reasonIn(2*within, c, v1alpha1.ConditionWANInjected, "Injected") // it was made a moment ago
	second := namesOf(w.injections(mesh, 6))
	for _, d := range [][2]string{{"ca", "va"}, {"va", "ca"}, {"ca", "ir"}, {"ir", "ca"}, {"va", "ir"}, {"ir", "va"}} {
		made := mesh.History(d[0], d[1])
		want := 1
		if d[0] == "ca" || d[1] == "ca" {
			want = 2
		}
		if len(made) != want {
			t.Errorf("%s to %s was made %d times, want %d", d[0], d[1], len(made), want)
		}
		if want == 2 && made[0].GetName() == made[1].GetName() {
			t.Errorf("%s to %s is still called %s", d[0], d[1], made[0].GetName())
		}
		// To the second.
		apart := made[len(made)-1].GetCreationTimestamp().Sub(made[0].GetCreationTimestamp().Time)
		if want == 2 && apart < 29*time.Second {
			t.Errorf("%s to %s was made again after %v", d[0], d[1], apart)
		}
	}
	if slices.Equal(first, second) {
		t.Errorf("nothing was made again: %v", second)
	}
	w.serving(c)
	w.tells(c, "WANInjected", "WANRemade")
}

// endPod deletes a pod, and waits for the one after it.
func (w *World) endPod(name string) {
	w.t.Helper()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
	w.get(pod)
	before := pod.UID
	if err := w.api.Delete(w.ctx, pod); err != nil {
		w.t.Fatal(err)
	}
	eventually(w.t, "there is another pod", func() string {
		err := w.api.Get(w.ctx, client.ObjectKeyFromObject(pod), pod)
		if err != nil || pod.UID == before {
			return fmt.Sprintf("there is %s (%v)", pod.UID, err)
		}
		return ""
	})
}

func (in *wide) costsNothingAtRest(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, in.control.Config)
	in.operator(t, w, "third")
	StartChaosMesh(t, in.control.Config, w.namespace)
	c := w.create("store", loses)
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	w.reason(c, v1alpha1.ConditionWANWithinTolerance, "WithinTolerance")
	for _, l := range c.Status.Links {
		if !l.WithinTolerance || l.Declared != "0s" || l.Measured == "" {
			t.Errorf("the link %+v", l)
		}
	}
	if len(c.Status.Links) != 3 || c.Status.Links[0].Between != "ca-va" {
		t.Errorf("the links are %+v", c.Status.Links)
	}
	w.serving(c)
	nudge := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: "nudge",
		Labels: map[string]string{
			"georegister.io/cluster": c.Name, "app.kubernetes.io/managed-by": "georegister",
		}}}
	if err := w.api.Create(w.ctx, nudge); err != nil {
		t.Fatal(err)
	}
	settled := 0
	eventually(t, "the last writes of the start are over", func() string {
		before := settled
		time.Sleep(2 * time.Second) // a window in which nothing may happen
		if settled = len(in.requests(t, "third")); settled != before {
			return "there were more requests"
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
	for _, r := range in.requests(t, "third")[settled:] {
		if r.Verb != "watch" {
			t.Errorf("at rest the operator asked: %+v", r)
		}
	}
}

// A pod whose sandbox was made again keeps its name and its address, and its rules are gone: members measure that.
func (in *wide) isMadeAgain(t *testing.T) {
	t.Parallel()
	w := newWorldIn(t, in.control.Config)
	in.operator(t, w, "fourth")
	mesh := StartChaosMesh(t, in.control.Config, w.namespace)
	c := w.create("store", far)
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	short := w.reason(c, v1alpha1.ConditionWANWithinTolerance, "TooShort")
	if !strings.HasPrefix(short.Message, "va-ir: a round trip of 30ms is declared, and one of ") {
		t.Errorf("the condition says: %s", short.Message)
	}
	var before []types.UID
	for _, u := range w.injections(mesh, 6) {
		before = append(before, u.GetUID())
	}
	eventuallyIn(t, 3*within, "what has no effect is made again", func() string {
		made := len(mesh.History("va", "ir")) + len(mesh.History("ir", "va"))
		if made < 4 {
			return fmt.Sprintf("both directions were made %d times together", made)
		}
		return ""
	})
	w.reason(c, v1alpha1.ConditionWANInjected, "Injected")
	if made := mesh.History("va", "ir"); made[0].GetName() != made[1].GetName() {
		t.Errorf("the pods are the same, and its name is another: %s", made[1].GetName())
	}
	for _, u := range w.injections(mesh, 6) {
		if far := u.GetLabels()[chaosmesh.FromLabel] != "ca" &&
			u.GetLabels()[chaosmesh.ToLabel] != "ca"; far == slices.Contains(before, u.GetUID()) {
			t.Errorf("%s was made again: %v", u.GetName(), !slices.Contains(before, u.GetUID()))
		}
	}
	w.tells(c, "WANOutOfTolerance", "WANRemade")
}

// reason waits until a condition has a reason, and returns it.
func (w *World) reason(c *v1alpha1.GeoRegisterCluster, kind, reason string) metav1.Condition {
	w.t.Helper()
	return w.reasonIn(within, c, kind, reason)
}

func (w *World) reasonIn(within time.Duration, c *v1alpha1.GeoRegisterCluster, kind, reason string) metav1.Condition {
	w.t.Helper()
	var found metav1.Condition
	eventuallyIn(w.t, within, fmt.Sprintf("condition %s is %s", kind, reason), func() string {
		w.get(c)
		is := meta.FindStatusCondition(c.Status.Conditions, kind)
		if is == nil || is.Reason != reason || is.ObservedGeneration != c.Generation {
			return fmt.Sprintf("it is %+v", is)
		}
		found = *is
		return ""
	})
	return found
}

// injections waits until there are so many objects of Chaos Mesh, and returns them.
func (w *World) injections(mesh *ChaosMesh, count int) (all []unstructured.Unstructured) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("there are %d objects of Chaos Mesh", count), func() string {
		var err error
		if all, err = mesh.All(w.ctx); err != nil || len(all) != count {
			return fmt.Sprintf("there are %d (%v)", len(all), err)
		}
		return ""
	})
	return all
}

func namesOf(all []unstructured.Unstructured) (names []string) {
	for _, u := range all {
		names = append(names, u.GetName())
	}
	slices.Sort(names)
	return names
}

// tells waits until events of some reasons were told of a cluster.
func (w *World) tells(c *v1alpha1.GeoRegisterCluster, reasons ...string) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("events %v are told", reasons), func() string {
		var events eventsv1.EventList
		if err := w.api.List(w.ctx, &events, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		told := map[string]bool{}
		for _, e := range events.Items {
			told[e.Reason] = told[e.Reason] || e.Regarding.Name == c.Name
		}
		for _, r := range reasons {
			if !told[r] {
				return r + " was not"
			}
		}
		return ""
	})
}
