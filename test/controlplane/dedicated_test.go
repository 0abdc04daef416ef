//go:build controlplane

package controlplane

import (
	"fmt"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// long bounds what takes many views: on a busy machine members miss each other meanwhile, and more of them are made.
const long = 3 * within

// apart asks for masters whose witnesses have pods of their own.
func apart(s *v1alpha1.GeoRegisterClusterSpec) {
	masters(s)
	s.CURP = &v1alpha1.CURPOptions{Witness: &v1alpha1.Witness{Placement: v1alpha1.Dedicated}}
}

// witnessPods are the pods of dedicated witnesses, by site.
func (w *World) witnessPods() map[string]corev1.Pod {
	w.t.Helper()
	var pods corev1.PodList
	err := w.api.List(w.ctx, &pods, client.InNamespace(w.namespace),
		client.MatchingLabels{build.ComponentLabel: build.WitnessComponent})
	if err != nil {
		w.t.Fatal(err)
	}
	all := map[string]corev1.Pod{}
	for _, pod := range pods.Items {
		all[pod.Labels[build.SiteLabel]] = pod
	}
	return all
}

// shared names a partition of which two keepers are at one site, or is empty.
func shared(v view.View) string {
	for i, p := range v.Partitions {
		var sites []string
		for _, id := range slices.Concat([]view.MemberID{p.Master}, p.Backups, p.Witnesses) {
			if at := v.Index(id); at >= 0 {
				sites = append(sites, v.Members[at].Site)
			} else {
				witness, _ := v.Witness(id)
				sites = append(sites, witness.Site)
			}
		}
		slices.Sort(sites)
		if n := len(sites); len(slices.Compact(sites)) < n {
			return fmt.Sprintf("partition %d is kept at %v: %+v", i, sites, p)
		}
	}
	return ""
}

// witnessed waits until the witnesses of the view are as many at sites as wanted, and nobody who keeps a partition
// shares a site.
func (w *World) witnessed(c *v1alpha1.GeoRegisterCluster, want ...string) view.View {
	w.t.Helper()
	var v view.View
	eventuallyIn(w.t, long, fmt.Sprintf("the witnesses are %v", want), func() string {
		var got []string
		v = w.record(c)
		for _, witness := range v.Witnesses {
			got = append(got, fmt.Sprintf("%d %s", witness.ID, witness.Site))
		}
		slices.Sort(got)
		if slices.Sort(want); !slices.Equal(got, want) || v.Joint() || shared(v) != "" {
			w.get(c)
			return fmt.Sprintf("they are %v, %s; %s", got, shared(v), conditions(c))
		}
		return ""
	})
	return v
}

func TestDedicatedWitnesses(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, apart)
	w.condition(c, v1alpha1.ConditionPartitionsServing, metav1.ConditionTrue)
	w.condition(c, v1alpha1.ConditionToleratesZoneLoss, metav1.ConditionTrue)
	w.witnessed(c, "2 ca", "4 va", "6 ir")
	pods := w.witnessPods()
	if len(pods) != 3 {
		t.Fatalf("there are witness pods at %d sites", len(pods))
	}
	for _, m := range w.record(c).Members {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PodName(c.Name, m)}}
		if w.get(pod); len(pod.Spec.InitContainers) > 0 {
			t.Errorf("%s has a sidecar", pod.Name)
		}
	}
	// Order is irrelevant: each is looked at.
	for name, want := range map[string]int{build.MembersName(c.Name): 2, build.WitnessesName(c.Name): 2} {
		budget := &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: name}}
		if w.get(budget); budget.Spec.MinAvailable.IntValue() != want || budget.Status.CurrentHealthy != 3 {
			t.Errorf("budget %s: %+v %+v", name, budget.Spec, budget.Status)
		}
	}

	// A witness whose volume is lost is replaced by another one; so is one that stays away, with its volume.
	lost := pods["va"]
	for _, object := range []client.Object{
		&corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: claimOf(&lost)}},
		&lost,
	} {
		if err := w.api.Delete(w.ctx, object); err != nil {
			t.Fatal(err)
		}
	}
	w.witnessed(c, "2 ca", "6 ir", "8 va")
	w.servingIn(long, c)
	load.Progress(20)
	w.kubelet.Hold(pods["ir"].Name)
	w.witnessed(c, "10 ir", "2 ca", "8 va")
	w.servingIn(long, c)
	load.Progress(20)
	eventuallyIn(t, long, "nothing is left of those that were replaced", func() string {
		if n := len(w.volumes()); n != 6 {
			return fmt.Sprintf("there are %d volumes", n)
		}
		return ""
	})
	load.Finish()
}

// Witnesses and members are updated one at a time, and what only witnesses are told restarts no member.
func TestDedicatedWitnessesAreUpdated(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, apart)
	members := w.pods()
	for _, pod := range w.witnessPods() { // order is irrelevant: each is left out
		delete(members, pod.Name)
	}
	before := w.witnessPods()
	slots := int32(256)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.CURP.Witness.Slots = &slots })
	eventuallyIn(t, long, "all witnesses were restarted", func() string {
		for site, pod := range w.witnessPods() { // order is irrelevant: any may be first
			if pod.UID == before[site].UID {
				w.get(c)
				return fmt.Sprintf("%s was not: %s", pod.Name, conditions(c))
			}
		}
		return ""
	})
	w.servingIn(long, c)
	load.Progress(20)
	now := w.pods()
	for name, uid := range members { // order is irrelevant: each is looked at
		if now[name] != uid {
			t.Errorf("%s was restarted", name)
		}
	}
	w.witnessed(c, "2 ca", "4 va", "6 ir")

	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Image = "georegister:next" })
	eventuallyIn(t, long, "members and witnesses run the next image", func() string { // six pods, one at a time
		var pods corev1.PodList
		if err := w.api.List(w.ctx, &pods, client.InNamespace(w.namespace)); err != nil {
			return err.Error()
		}
		for _, pod := range pods.Items {
			if got := pod.Spec.Containers[0].Image; got != "georegister:next" {
				w.get(c)
				return fmt.Sprintf("%s runs %s: %s", pod.Name, got, conditions(c))
			}
		}
		return ""
	})
	w.servingIn(long, c)
	w.witnessed(c, "2 ca", "4 va", "6 ir")
	load.Progress(20)
	load.Finish()
}

// A site that comes gets a witness once it has a member, and one that goes takes its witness along.
func TestSitesOfDedicatedWitnessesChange(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) {
		apart(s)
		shards := int32(3)
		s.Shards = &shards
	})
	faults := int32(1)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.FaultTolerance = &faults
		s.Sites = append(s.Sites, v1alpha1.Site{Name: "or"}, v1alpha1.Site{Name: "jp"})
	})
	w.witnessed(c, "10 or", "12 jp", "2 ca", "4 va", "6 ir")
	w.servingIn(long, c)
	load.Progress(20)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Sites = s.Sites[1:4] })
	eventuallyIn(t, long, "two sites have left", func() string {
		if v := w.record(c); v.Joint() || v.Size() != 3 || len(v.Witnesses) != 3 || len(w.witnessPods()) != 3 {
			w.get(c)
			return fmt.Sprintf("%+v; %s", v, conditions(c))
		}
		return ""
	})
	w.witnessed(c, "10 or", "4 va", "6 ir")
	w.servingIn(long, c)
	load.Progress(20)
	load.Finish()
}

// The record is made again with the witnesses, and the resource too finds them when it comes again.
func TestDedicatedWitnessesAreTakenUpAgain(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, apart)
	v := w.record(c)
	if err := w.api.Delete(w.ctx, w.recordObject(c)); err != nil {
		t.Fatal(err)
	}
	w.holds(c, v)
	load.Progress(20)
	load.Finish()
	volumes := func() map[types.UID]bool {
		all := map[types.UID]bool{}
		for _, claim := range w.volumes() {
			all[claim.UID] = true
		}
		return all
	}
	before := volumes()
	w.remove(c)
	again := w.create("store", apart)
	w.servingIn(long, again)
	w.witnessed(again, "2 ca", "4 va", "6 ir")
	if after := volumes(); len(before) != 6 || len(after) != 6 {
		t.Errorf("there were %d volumes, and are %d", len(before), len(after))
	} else {
		for uid := range after { // order is irrelevant: each is looked for
			if !before[uid] {
				t.Error("a volume was made anew")
			}
		}
	}
}
