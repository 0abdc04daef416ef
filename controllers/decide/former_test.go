package decide

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
)

// A resource that is made again at once meets what goes with the former one: neither its record nor its members
// count, nothing is applied over its objects, and nothing is founded beside them.
func TestFormerResource(t *testing.T) {
	for name, change := range map[string]func(*world.Snapshot){
		"its record is there":         func(*world.Snapshot) {},
		"its record went first":       func(s *world.Snapshot) { s.Record = world.Record{} },
		"its members went first":      func(s *world.Snapshot) { s.Members = nil },
		"new members wait beside it":  empty,
		"a volume is missing already": func(s *world.Snapshot) { gone(s, 3) },
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(3)
			change(s)
			s.Former = []string{"ConfigMap demo-view"}
			p := Next(*s)
			if p.Step != nil || p.Apply != nil || p.Prune != nil || p.Again != soon {
				t.Errorf("step %q, %d objects, %d to prune, again after %v", told(p.Step), len(p.Apply), len(p.Prune), p.Again)
			}
			want := "Progressing=True FormerResourceLeaves: A former resource of this name was deleted, and these go with it first: " +
				"ConfigMap demo-view"
			if all := summary(p); all[1] != want {
				t.Errorf("got %s", all[1])
			}
			if p.Status.View != nil || len(p.Status.Conditions) == 0 {
				t.Errorf("the view of the former one is told as this one's: %+v", p.Status.View)
			}
		})
	}
}

func TestRecordIsKept(t *testing.T) {
	s := healthy(3)
	s.Record.Astray = true
	step, ok := Next(*s).Step.(KeepRecord)
	if !ok || step.View.Digest() != s.Record.View.Digest() || step.UID != "record" || step.ResourceVersion != "1" {
		t.Errorf("step %+v", step)
	}
	hold(s, 2, after(s.Record.View, 1)) // the record is behind
	if got := told(Next(*s).Step); got != `rebuild 2 over "1"` {
		t.Errorf("a record that is behind is kept: %q", got)
	}
	s = healthy(3)
	s.Record.Astray = true
	silent(s, 1)
	if _, ok := Next(*s).Step.(KeepRecord); !ok {
		t.Error("a member that is down is in the way")
	}
}

// A node that is gone takes only the volumes along that can't move.
func TestAVolumeThatCanMoveIsNotLost(t *testing.T) {
	s := healthy(3)
	silent(s, 3)
	delete(s.Zones, "node-c")
	if got := told(Next(*s).Step); got != "" {
		t.Errorf("step %q", got)
	}
	s.Member(3).VolumeNode, s.Member(3).NodeGone = "node-c", true
	if got := told(Next(*s).Step); got != "change to 2 with 4" {
		t.Errorf("step %q for a volume that was on the node", got)
	}
}

// Members that hold two views do not serve each other, so a change that was begun is told to those that are left.
func TestAPauseEndsTheChangeThatWasBegun(t *testing.T) {
	s := healthy(3)
	s.Cluster.Spec.Paused = true
	replaced(s)
	hold(s, 1, s.Record.View)
	if p := Next(*s); told(p.Step) != "tell 2 to [2]" || p.Apply != nil {
		t.Errorf("step %q", told(p.Step))
	}
	hold(s, 2, s.Record.View)
	s.Members = append(s.Members, world.Member{ID: 4, Site: "c", Pod: &corev1.Pod{}, Report: &world.Report{Disk: "disk-4"}})
	if p := Next(*s); p.Step != nil || p.Apply != nil {
		t.Errorf("once it is settled: %q", told(p.Step))
	}
}

// A resource that takes up volumes of other sites serves their data, and says that it has not what it asks for.
func TestSitesThatDiffer(t *testing.T) {
	for name, change := range map[string]func(*world.Snapshot){
		"another name":  func(s *world.Snapshot) { s.Cluster.Spec.Sites[2].Name = "d" },
		"one more":      func(s *world.Snapshot) { s.Cluster.Spec.Sites = testCluster(4).Spec.Sites },
		"one less":      func(s *world.Snapshot) { s.Cluster.Spec.Sites = testCluster(2).Spec.Sites },
		"other numbers": func(s *world.Snapshot) { n := int32(3); s.Cluster.Spec.Sites[0].Members = &n },
	} {
		t.Run(name, func(t *testing.T) {
			s := healthy(3)
			change(s)
			p := Next(*s)
			const want = "Degraded=True SitesDiffer: The data is that of a cluster with other members than spec.sites: sites a with 1, " +
				"b with 1, c with 1; make the resource again with these, or to start without the data, delete the volumes and " +
				"ConfigMap demo-view too"
			if all := summary(p); all[2] != want || p.Step != nil {
				t.Errorf("step %q, %s", told(p.Step), all[2])
			}
		})
	}
}

// A cluster whose record and disks are all gone, such as one in memory, is not founded again behind its clients' backs.
func TestWhatWasFoundedIsNotFoundedAgain(t *testing.T) {
	s := healthy(3)
	s.Cluster.Spec.Storage.Durability = v1alpha1.Memory
	s.Cluster.Status = Next(*s).Status
	empty(s)
	for range 2 { // it is remembered
		p := Next(*s)
		if p.Step != nil || p.Status.View == nil || p.Status.View.Epoch != 1 {
			t.Fatalf("step %q, view %+v", told(p.Step), p.Status.View)
		}
		if got := summary(p)[0]; !strings.HasPrefix(got, "Available=False RecordMissing: The record of the view") {
			t.Fatal(got)
		}
		s.Cluster.Status = p.Status
	}
	s.Cluster.Status = v1alpha1.GeoRegisterClusterStatus{}
	if got := told(Next(*s).Step); got != "found 3" {
		t.Errorf("a new resource: %q", got)
	}
}
