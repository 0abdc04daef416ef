//go:build controlplane

package controlplane

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// at asks for one member at each of some sites.
func at(names ...string) func(*v1alpha1.GeoRegisterClusterSpec) {
	return func(s *v1alpha1.GeoRegisterClusterSpec) {
		var sites []v1alpha1.Site
		for _, name := range names {
			sites = append(sites, v1alpha1.Site{Name: name})
		}
		s.Sites = sites
	}
}

// three are the sites that every test begins with, five are all.
var three, five = at("ca", "va", "ir"), at("ca", "va", "ir", "or", "jp")

// consists fails unless a view has the members, spelled as id@site, in the order of their ids.
func (w *World) consists(v view.View, members ...string) {
	w.t.Helper()
	slices.SortFunc(v.Members, func(a, b view.Member) int { return int(a.ID) - int(b.ID) })
	var got []string
	for _, m := range v.Members {
		got = append(got, fmt.Sprintf("%d@%s", m.ID, m.Site))
	}
	if !slices.Equal(got, members) {
		w.t.Errorf("view %d has the members %v, want %v", v.Epoch, got, members)
	}
}

// step waits until a change of members is at a step, and returns what the status tells of it.
func (w *World) step(c *v1alpha1.GeoRegisterCluster, step v1alpha1.ChangeStep) v1alpha1.ChangeStatus {
	w.t.Helper()
	var is v1alpha1.ChangeStatus
	eventually(w.t, fmt.Sprintf("a change is at the step %s", step), func() string {
		w.get(c)
		if c.Status.Change == nil || c.Status.Change.Step != step {
			return fmt.Sprintf("view %+v, %s%s", c.Status.View, change(c), conditions(c))
		}
		is = *c.Status.Change
		return ""
	})
	return is
}

// joint waits until a joint view is recorded and a quorum holds it, and returns it.
func (w *World) joint(c *v1alpha1.GeoRegisterCluster) view.View {
	w.t.Helper()
	w.step(c, v1alpha1.CatchingUp)
	v := w.record(c)
	if !v.Joint() {
		w.t.Fatalf("the record holds %+v while members catch up", v)
	}
	return v
}

// fetching has members that join fetch so much a second.
func fetching(rate string) func(*v1alpha1.GeoRegisterClusterSpec) {
	return func(s *v1alpha1.GeoRegisterClusterSpec) {
		quantity := resource.MustParse(rate)
		s.Storage.TransferRate = &quantity
	}
}

// slowly has members fetch what they join with for much longer than a test takes, once there are some megabytes.
var slowly = fetching("64Ki")

// foundedForPatientClients is a cluster that serves, with an operator, whose clients are not to see any error.
func foundedForPatientClients(t *testing.T) (*World, *v1alpha1.GeoRegisterCluster, *Load) {
	t.Helper()
	w := newWorld(t)
	StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", nil)
	w.serving(c)
	load := StartPatientLoad(t, w.kubelet, c)
	load.Progress(50)
	return w, c, load
}

// unbroken fails if the load had an operation that ended as unavailable or unknown.
func (w *World) unbroken(l *Load) {
	w.t.Helper()
	if n := l.failed.Load(); n > 0 {
		w.t.Errorf("%d operations ended as unavailable or unknown", n)
	}
}

func TestSitesAreAddedAndOthersRemoved(t *testing.T) {
	t.Parallel()
	w, c, load := foundedForPatientClients(t)
	check := w.fill(c, 10, 10_000)
	w.change(c, five)
	after := w.replaced(c, 3)
	w.consists(after, "1@ca", "2@va", "3@ir", "4@or", "5@jp")
	if c.Status.Quorum != "5/3" || c.Status.SitesReady != "5/5" || c.Status.Change != nil {
		t.Errorf("of five members the status tells quorum %s, sites %s and change %+v", c.Status.Quorum,
			c.Status.SitesReady, c.Status.Change)
	}
	load.Progress(100)
	w.unbroken(load)

	// The majority of those that had everything leaves.
	w.change(c, at("ir", "or", "jp"))
	after = w.replaced(c, 5)
	w.consists(after, "3@ir", "4@or", "5@jp")
	for _, m := range []view.Member{{ID: 1, Site: "ca"}, {ID: 2, Site: "va"}} {
		w.gone(c, m)
		claim := &corev1.PersistentVolumeClaim{
			ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.VolumeName(c.Name, m)},
		}
		w.get(claim) // retained
		w.unserved(c, m.Site)
	}
	check()
	load.Progress(100)
	load.Finish()
}

// unserved waits until the Service of a site that was removed is gone.
func (w *World) unserved(c *v1alpha1.GeoRegisterCluster, site string) {
	w.t.Helper()
	eventually(w.t, "site "+site+" has no Service", func() string {
		var services corev1.ServiceList
		err := w.api.List(w.ctx, &services, client.InNamespace(w.namespace),
			client.MatchingLabels{build.SiteLabel: site})
		if err != nil {
			return err.Error()
		}
		if len(services.Items) > 0 {
			return "it has " + services.Items[0].Name
		}
		return ""
	})
}

func TestASiteIsReplacedByAnother(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	w.change(c, at("ca", "va", "or"))
	w.consists(w.replaced(c, 3), "1@ca", "2@va", "4@or")
	w.gone(c, view.Member{ID: 3, Site: "ir"})
	load.Progress(50)
	load.Finish()
}

func TestAllSitesAreReplacedAtOnce(t *testing.T) {
	t.Parallel()
	w, c, _, load := founded(t)
	check := w.fill(c, 10, 10_000)
	two := int32(2)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		s.Sites = []v1alpha1.Site{{Name: "or", Members: &two}, {Name: "jp"}}
	})
	after := w.replaced(c, 3)
	slices.SortFunc(after.Members, func(a, b view.Member) int { return strings.Compare(a.Site, b.Site) })
	for i, m := range after.Members {
		if want := []string{"jp", "or", "or"}[i]; m.Site != want || m.ID < 4 || m.ID > 6 {
			t.Errorf("member %d is at site %s, want %s", m.ID, m.Site, want)
		}
	}
	check()
	load.Progress(50)
	load.Finish()
}

// Members in memory have no volumes: what there is of a newcomer is its StatefulSet.
func TestSitesOfMembersInMemoryAreExchanged(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Storage.Durability = v1alpha1.Memory })
	check := w.fill(c, 10, 10_000)
	w.change(c, at("ca", "or", "jp"))
	w.consists(w.replaced(c, 3), "1@ca", "4@or", "5@jp")
	w.gone(c, view.Member{ID: 2, Site: "va"})
	check()
	load.Progress(50)
	load.Finish()
}

func TestANodePoolMovesItsMembers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	pool := func(name string) func(*v1alpha1.GeoRegisterClusterSpec) {
		node := w.namespace + "-" + name // nodes have no namespace
		addNode(t, w.api, node, map[string]string{corev1.LabelTopologyZone: "ir", "pool": node})
		return func(s *v1alpha1.GeoRegisterClusterSpec) {
			s.Sites[2].NodePool = &v1alpha1.NodePool{Key: "pool", Value: node}
		}
	}
	w, c, _, load := foundedIn(w, pool("old"))
	w.change(c, pool("new"))
	w.consists(w.replaced(c, 3), "1@ca", "2@va", "4@ir")
	w.gone(c, view.Member{ID: 3, Site: "ir"})
	w.get(c)
	if node := c.Status.Members[2].Node; node != w.namespace+"-new" {
		t.Errorf("the moved member runs on %s", node)
	}
	load.Progress(50)
	load.Finish()
}

// A newcomer that no node takes keeps the change from beginning; the sites are edited back.
func TestAChangeThatCanNotBeginIsTakenBack(t *testing.T) {
	t.Parallel()
	w, c, load := foundedForPatientClients(t)
	before := w.record(c)
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		five(s)
		s.Sites[4].NodePool = &v1alpha1.NodePool{Value: "nowhere"}
	})
	pod := "store--jp--5-0"
	eventually(t, "the status tells what is waited for", func() string {
		is := w.step(c, v1alpha1.StartingMembers)
		progressing := w.condition(c, v1alpha1.ConditionProgressing, metav1.ConditionTrue)
		if !slices.Equal(is.Joining, []int32{4, 5}) || len(is.Leaving) > 0 ||
			!strings.Contains(progressing.Message, "member 5 (site jp)") {
			return change(c) + conditions(c)
		}
		return ""
	})
	load.Progress(50)
	if got := w.record(c); got.Digest() != before.Digest() {
		t.Errorf("the view is %+v while a newcomer can't run", got)
	}
	w.change(c, three)
	w.gone(c, view.Member{ID: 4, Site: "or"})
	w.gone(c, view.Member{ID: 5, Site: "jp"})
	w.holds(c, before)
	if sets := w.statefulSets(); len(sets) != 3 || c.Status.Change != nil {
		t.Errorf("%s is gone, and there are %d StatefulSets, and a change %+v", pod, len(sets), c.Status.Change)
	}
	load.Progress(50)
	w.unbroken(load)
	load.Finish()
}

// The sites are edited back while a newcomer fetches the state.
func TestAChangeIsAbandonedByEditingBack(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, slowly)
	check := w.fill(c, 30, 100_000)
	w.change(c, five)
	joint := w.joint(c)
	w.consists(joint, "1@ca", "2@va", "3@ir", "4@or", "5@jp")
	eventually(t, "the status tells how far the change is", func() string {
		is := w.step(c, v1alpha1.CatchingUp)
		if is.Epoch != 2 || is.Bytes == 0 || is.RemainingBytes == 0 || is.Percent == nil || *is.Percent >= 100 ||
			is.Fetched != "0/2" {
			return change(c)
		}
		return ""
	})
	load.Progress(50)

	// A paused change stays as it is.
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		three(s)
		s.Paused = true
	})
	w.condition(c, v1alpha1.ConditionPaused, metav1.ConditionTrue)
	load.Progress(50)
	if got := w.record(c); got.Digest() != joint.Digest() {
		t.Errorf("while the cluster is paused its view became %+v", got)
	}
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) { s.Paused = false })
	after := w.replaced(c, 3)
	w.consists(after, "1@ca", "2@va", "3@ir")
	w.gone(c, view.Member{ID: 4, Site: "or"})
	w.gone(c, view.Member{ID: 5, Site: "jp"})
	if got := w.record(c); got.Epoch != 3 || got.LastIssued() != 5 {
		t.Errorf("an abandoned change led to %+v", got)
	}
	check()
	load.Progress(50)
	load.Finish()
}

// A newcomer that loses its volume can't be waited for: the change is abandoned, and begins again with another one.
func TestANewcomerIsLostWhileItFetches(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, slowly)
	check := w.fill(c, 30, 100_000)
	w.change(c, at("ca", "va", "or"))
	w.joint(c)
	w.loseVolume(c, view.Member{ID: 4, Site: "or"})
	eventually(t, "the change begins again with another newcomer", func() string {
		w.get(c)
		if v := w.record(c); v.Epoch != 4 || !v.Joint() || v.Index(5) < 0 || v.Index(4) >= 0 || v.Index(3) < 0 {
			return fmt.Sprintf("the record holds %+v; %s%s", v, change(c), conditions(c))
		}
		return ""
	})
	w.gone(c, view.Member{ID: 4, Site: "or"})
	load.Progress(50)
	w.change(c, three)
	w.consists(w.replaced(c, 5), "1@ca", "2@va", "3@ir")
	check()
	load.Progress(50)
	load.Finish()
}

// The record is lost while members catch up, and made again from what they hold; the change goes on, and one of the
// former members is lost in it.
func TestTheRecordAndAMemberAreLostDuringAChange(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, fetching("256Ki"))
	check := w.fill(c, 6, 100_000) // some seconds for each change
	w.change(c, five)
	joint := w.joint(c)
	object := w.recordObject(c)
	if err := w.api.Delete(w.ctx, object); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record is made again", func() string {
		again := &corev1.ConfigMap{}
		err := w.api.Get(w.ctx, client.ObjectKeyFromObject(object), again)
		if err != nil && !apierrors.IsNotFound(err) {
			return err.Error()
		}
		if v := w.record(c); again.UID == object.UID || v.Epoch == 0 {
			w.get(c)
			return conditions(c)
		} else if v.Epoch == 2 && v.Digest() != joint.Digest() {
			t.Fatalf("the view %+v became %+v", joint, v)
		}
		return ""
	})
	w.loseVolume(c, view.Member{ID: 3, Site: "ir"})
	after := w.replaced(c, 5)
	w.consists(after, "1@ca", "2@va", "4@or", "5@jp", "6@ir")
	check()
	load.Progress(50)
	load.Finish()
}

// Each operator is killed at the first write that none before it made, sent or not; the next one goes on.
func TestOperatorsAreKilledAtEachWriteOfAChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	fuse := NewFuse()
	operator := StartValvedOperator(t, w.config, settings(w.namespace), fuse)
	c := w.create("store", nil)
	w.serving(c)
	load := StartLoad(t, w.kubelet, c)
	load.Progress(50)
	fuse.Arm()
	for _, next := range []struct {
		sites   func(*v1alpha1.GeoRegisterClusterSpec)
		epoch   uint64
		members []string
	}{
		{five, 3, []string{"1@ca", "2@va", "3@ir", "4@or", "5@jp"}},
		{at("va", "or", "jp"), 5, []string{"2@va", "4@or", "5@jp"}},
	} {
		w.change(c, next.sites)
		killed := 0
		for w.diesOnTheWay(c, fuse, next.epoch) {
			killed++
			operator.Stop()
			fuse.Renew()
			operator = StartValvedOperator(t, w.config, settings(w.namespace), fuse)
		}
		t.Logf("%d operators were killed on the way to epoch %d", killed, next.epoch)
		if killed < 5 { // two records, what members are told of each, and what comes or goes
			t.Errorf("only %d operators were killed", killed)
		}
	}
	operator.Stop()
	StartOperator(t, w.config, settings(w.namespace))
	w.noticed(c)
	w.consists(w.replaced(c, 5), "2@va", "4@or", "5@jp")
	if got := w.record(c); got.Epoch != 5 {
		t.Errorf("two changes led to epoch %d", got.Epoch)
	}
	load.Progress(50)
	load.Finish()
}

// diesOnTheWay waits until an operator is killed, or until a change has led to an epoch and nothing is left to write:
// the status that an operator of before left says neither.
func (w *World) diesOnTheWay(c *v1alpha1.GeoRegisterCluster, fuse *Fuse, epoch uint64) (killed bool) {
	w.t.Helper()
	eventually(w.t, fmt.Sprintf("the operator is killed, or view %d is there", epoch), func() string {
		select {
		case <-fuse.Blown():
			killed = true
			return ""
		default:
		}
		w.get(c)
		progressing := meta.FindStatusCondition(c.Status.Conditions, v1alpha1.ConditionProgressing)
		if c.Status.View == nil || c.Status.View.Epoch < int64(epoch) || c.Status.Change != nil ||
			progressing.Status != metav1.ConditionFalse || progressing.ObservedGeneration != c.Generation {
			return fmt.Sprintf("the record is at epoch %d; %s%s", w.record(c).Epoch, change(c), conditions(c))
		}
		if sets := w.memberSets(c); sets != w.record(c).Size() {
			return fmt.Sprintf("there are StatefulSets for %d members", sets)
		}
		return ""
	})
	return killed
}

// memberSets is how many members of a cluster have a StatefulSet.
func (w *World) memberSets(c *v1alpha1.GeoRegisterCluster) int {
	w.t.Helper()
	var sets appsv1.StatefulSetList
	err := w.api.List(w.ctx, &sets, client.InNamespace(w.namespace), client.MatchingLabels{build.ClusterLabel: c.Name})
	if err != nil {
		w.t.Fatal(err)
	}
	return len(sets.Items)
}

// An operator is stopped before it records, or before it tells, a joint view. Another one makes that change and takes
// it back, and then the first goes on with what it believed.
func TestAnOperatorThatWasStoppedInAChangeDoesNoHarm(t *testing.T) {
	for name, only := range map[string]string{
		"before it records the view": "/configmaps/" + build.RecordName("store"),
		"before it tells the view":   "no write to the apiserver",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			gate := NewGate(only)
			StartValvedOperator(t, w.config, settings(w.namespace), gate)
			t.Cleanup(gate.Open) // before the operator is ended
			c := w.create("store", nil)
			w.serving(c)
			load := StartLoad(t, w.kubelet, c)
			load.Progress(50)

			gate.Close()
			w.change(c, five)
			gate.holds(t)
			StartOperator(t, w.config, settings(w.namespace))
			w.consists(w.replaced(c, 3), "1@ca", "2@va", "3@ir", "4@or", "5@jp")
			w.change(c, three)
			after := w.replaced(c, 5)
			gate.release(t)
			load.Progress(200)
			w.holds(c, after)
			w.consists(w.record(c), "1@ca", "2@va", "3@ir")
			if got := w.record(c); got.Epoch != 5 {
				t.Errorf("the record is at epoch %d: the stopped operator changed members", got.Epoch)
			}
			load.Finish()
		})
	}
}
