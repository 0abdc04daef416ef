//go:build controlplane

package controlplane

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
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
			if home := c.Spec.Home(i); v.Members[v.Index(p.Master)].Site != home || len(p.Formers) > 0 || len(p.Learners) > 0 {
				return fmt.Sprintf("partition %d is not at %s: %+v", i, home, p)
			}
		}
		return ""
	})
	w.servingIn(long, c)
	return w.record(c)
}

// A shard is split while clients work, and the new one goes to its home; what was written before is there, and no pod is restarted.
func TestAShardIsSplit(t *testing.T) {
	t.Parallel()
	w, c, _, load := foundedAs(t, masters)
	check := w.fill(c, 60, 100)
	before := w.record(c)
	pods := w.pods()

	after := w.split(c, 4, "", "", "", "va")
	if after.FoundedPartitions() != 3 || after.Partitions[3].Split <= before.Epoch || after.Partitions[1].Term != before.Partitions[1].Term {
		t.Errorf("of %+v came %+v", before, after)
	}
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

// Shards that were split one after the other are there after a restart of all members, who are started with the number that there were at
// first, and after the record of the view was lost.
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

// A cluster whose shards are raised before it is founded has at first as many as its members' disks were made for; and a newcomer to split
// shards, on an empty disk, is started with that number too.
func TestShardsAreRaisedBeforeTheFounding(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	late := build.PodName("store", view.Member{ID: 5, Site: "ir"})
	w.kubelet.Hold(late)
	StartOperator(t, w.config, settings(w.namespace))
	c := w.create("store", masters)
	eventually(t, "two members wait for the third", func() string {
		is := w.reason(c, v1alpha1.ConditionProgressing, "WaitingForMembers").Message
		if strings.Contains(is, "member 1 ") || strings.Contains(is, "member 3 ") || !strings.Contains(is, "member 5 ") {
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
