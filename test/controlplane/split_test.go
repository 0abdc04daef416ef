//go:build controlplane

package controlplane

import (
	"context"
	"fmt"
	"net"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/members"
	"github.com/georegister/georegister/replica/view"
)

// split asks for so many shards with homes, and waits until they are there, at home, and nothing is under way.
func (w *World) split(c *v1alpha1.GeoRegisterCluster, shards int, homes ...string) view.View {
	w.t.Helper()
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		n := int32(shards)
		s.Shards, s.Homes = &n, homes
	})
	eventuallyIn(w.t, long, fmt.Sprintf("%d shards are at home", shards), func() string {
		v := w.record(c)
		if len(v.Partitions) != shards {
			w.get(c)
			return fmt.Sprintf("there are %d: %s", len(v.Partitions), conditions(c))
		}
		for i, p := range v.Partitions {
			if home := c.Spec.Home(i); v.Members[v.Index(p.Master)].Site != home || len(p.Formers) > 0 {
				return fmt.Sprintf("partition %d is not at %s: %+v", i, home, p)
			}
		}
		return ""
	})
	w.servingIn(long, c)
	return w.record(c)
}

// A shard is split while clients work, and the new one goes to its home; what was written before is there, and no pod
// is restarted.
func TestAShardIsSplit(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, masters)
	check := w.fill(c, 60, 100)
	before := w.record(c)
	pods := w.pods()
	views := w.recorded(c)

	after := w.split(c, 4, "", "", "", "va")
	if after.FoundedPartitions() != 3 || after.Partitions[3].Split <= before.Epoch {
		t.Errorf("of %+v came %+v", before, after)
	}
	var recorded []view.View
	eventually(t, "the last view is among those that were recorded", func() string {
		if recorded = views(); len(recorded) == 0 || recorded[len(recorded)-1].Epoch < after.Epoch {
			return fmt.Sprintf("%d are there", len(recorded))
		}
		return ""
	})
	splits(t, recorded)
	w.hasOneOwnerEach(c)
	is := w.condition(c, v1alpha1.ConditionPartitionsServing, metav1.ConditionTrue)
	if want := "Each of 4 shards has a master that serves, with 1 backups and 1 witnesses"; is.Message != want {
		t.Errorf("PartitionsServing: %q, want %q", is.Message, want)
	}
	if len(c.Status.Partitions) != 4 || !c.Status.Partitions[3].Serving {
		t.Errorf("status.partitions is %+v", c.Status.Partitions)
	}
	w.tells(c, "ShardSplit")
	if now := w.pods(); fmt.Sprint(now) != fmt.Sprint(pods) {
		t.Errorf("pods %v became %v", pods, now)
	}
	check()
	load.Progress(50)
	load.Finish()
}

// recorded are the views that are recorded from now on, the present one first. The apiserver tells every one of them.
func (w *World) recorded(c *v1alpha1.GeoRegisterCluster) func() []view.View {
	w.t.Helper()
	api, err := client.NewWithWatch(w.config, client.Options{Scheme: scheme(w.t)})
	if err != nil {
		w.t.Fatal(err)
	}
	record := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.RecordName(c.Name)}}
	w.get(record)
	// The apiserver may end a watch at any time; the next one goes on where it was.
	list, err := watchtools.NewRetryWatcherWithContext(w.ctx, record.ResourceVersion, &cache.ListWatch{
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			return api.Watch(ctx, &corev1.ConfigMapList{}, &client.ListOptions{
				Namespace:     w.namespace,
				FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, record.Name), Raw: &options,
			})
		},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(list.Stop)
	first, err := build.ParseRecord(record)
	if err != nil {
		w.t.Fatal(err)
	}
	all := []view.View{first}
	return func() []view.View {
		for {
			select {
			case event, open := <-list.ResultChan():
				if !open {
					w.t.Fatal("the watch of the record ended")
				}
				record, ok := event.Object.(*corev1.ConfigMap)
				if !ok {
					w.t.Fatalf("the watch of the record tells: %+v", event.Object)
				}
				v, err := build.ParseRecord(record)
				if err != nil {
					w.t.Fatal(err)
				}
				all = append(all, v)
			default:
				return all
			}
		}
	}
}

// splits fails unless some view has one shard more than the one before it, and every such view leaves all but the one
// that is split as they were. The operator may move a shard whose master is slow in any other view.
func splits(t *testing.T, views []view.View) {
	t.Helper()
	found := false
	for i := 1; i < len(views); i++ {
		before, after := views[i-1], views[i]
		if len(after.Partitions) <= len(before.Partitions) {
			continue
		}
		found = true
		parent, child := before.NextSplit()
		if len(after.Partitions) != child+1 ||
			!slices.Equal(after.Partitions[child].Backups, after.Partitions[parent].Backups) ||
			after.Partitions[child].Master != after.Partitions[parent].Master {
			t.Errorf("shard %d, split off %d, is %+v of %+v", child, parent, after.Partitions[child],
				after.Partitions[parent])
		}
		for p := range before.Partitions {
			if p != parent && !reflect.DeepEqual(before.Partitions[p], after.Partitions[p]) {
				t.Errorf("the split of shard %d made of shard %d, %+v: %+v", parent, p, before.Partitions[p],
					after.Partitions[p])
			}
		}
	}
	if !found {
		t.Errorf("no view of %+v splits a shard", views)
	}
}

// hasOneOwnerEach waits until every shard of the recorded view is served by its master, and by nobody else, as all
// members say themselves.
func (w *World) hasOneOwnerEach(c *v1alpha1.GeoRegisterCluster) {
	w.t.Helper()
	talk := members.NewClient()
	defer talk.Close()
	eventuallyIn(w.t, long, "every shard has one owner", func() string {
		v := w.record(c)
		var targets []members.Target
		for _, m := range v.Members {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: w.namespace, Name: build.PodName(c.Name, m)}}
			w.get(pod)
			targets = append(targets,
				members.Target{
					ID: m.ID, ClusterID: v.Cluster,
					Address: net.JoinHostPort(pod.Status.PodIP, strconv.Itoa(build.AdminPort)),
				})
		}
		owners := make([][]view.MemberID, len(v.Partitions))
		for i, answer := range talk.Ask(w.ctx, c.Name, targets) {
			if answer.Err != nil {
				return answer.Err.Error()
			}
			for n, part := range answer.Report.Partitions {
				if part.Serving && n < len(owners) {
					owners[n] = append(owners[n], targets[i].ID)
				}
			}
		}
		for i, p := range v.Partitions {
			if len(owners[i]) != 1 || owners[i][0] != p.Master {
				return fmt.Sprintf("shard %d is served by %v, and its master is %d", i, owners[i], p.Master)
			}
		}
		return ""
	})
}

// Shards that were split one after the other are there after a restart of all members, who are started with the number
// that there were at first, and after the record of the view was lost.
func TestSplitShardsOutliveTheRecord(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", masters)
	w.serving(c)
	check := w.fill(c, 60, 100)
	after := w.split(c, 5)
	for i, p := range after.Partitions {
		if split := i >= 3; split != (p.Split > 0) {
			t.Errorf("partition %d is %+v", i, p)
		}
	}
	check()
	w.restart(c, after)
	w.servingIn(long, c)
	check()
	if err := w.api.Delete(w.ctx, w.recordObject(c)); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the record is made again", func() string {
		if v := w.record(c); len(v.Partitions) != 5 || v.FoundedPartitions() != 3 {
			return fmt.Sprintf("%+v", v)
		}
		return ""
	})
	w.servingIn(long, c)
	check()
}

// A cluster whose shards are raised before it is founded has at first as many as its members' disks were made for; and
// a newcomer to split shards, on an empty disk, is started with that number too.
func TestShardsAreRaisedBeforeTheFounding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := build.PodName("store", view.Member{ID: 5, Site: "ir"})
	w.kubelet.Hold(late)
	StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", masters)
	eventually(t, "two members wait for the third", func() string {
		is := w.reason(c, v1alpha1.ConditionProgressing, "WaitingForMembers").Message
		if strings.Contains(is, "member 1 ") || strings.Contains(is, "member 3 ") ||
			!strings.Contains(is, "member 5 ") {
			return is
		}
		return ""
	})
	w.change(c, func(s *v1alpha1.GeoRegisterClusterSpec) {
		n := int32(4)
		s.Shards = &n
	})
	w.reason(c, v1alpha1.ConditionProgressing, "WaitingForMembers")
	w.kubelet.Release(late)
	v := w.split(c, 4)
	if v.FoundedPartitions() != 3 {
		t.Errorf("it was founded with %d partitions: %+v", v.FoundedPartitions(), v)
	}
	check := w.fill(c, 30, 100)
	lost := v.Members[0]
	w.loseVolume(c, lost)
	eventuallyIn(t, long, "another member has joined", func() string {
		if v := w.record(c); v.Joint() || v.Size() != 3 || v.Index(lost.ID) >= 0 || len(v.Partitions) != 4 {
			w.get(c)
			return fmt.Sprintf("the view is %+v: %s", v, conditions(c))
		}
		return ""
	})
	w.servingIn(long, c)
	check()
}

// A shard whose witnesses have pods of their own is split too; these go on as they are.
func TestAShardWithDedicatedWitnessesIsSplit(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, apart)
	before := w.record(c)
	pods := w.witnessPods()
	after := w.split(c, len(before.Partitions)+1)
	if after.FoundedPartitions() != len(before.Partitions) {
		t.Errorf("of %+v came %+v", before, after)
	}
	for name, pod := range w.witnessPods() { // order is irrelevant: each is looked for
		if pods[name].UID != pod.UID {
			t.Errorf("witness %s was restarted", name)
		}
	}
	load.Progress(50)
	load.Finish()
}
