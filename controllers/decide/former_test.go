package decide

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
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
			s.Former = []string{"ConfigMap demo--view"}
			p := Next(*s)
			if p.Step != nil || p.Apply != nil || p.Prune != nil || p.Again != soon {
				t.Errorf("step %q, %d objects, %d to prune, again after %v", line(p.Step), len(p.Apply),
					len(p.Prune), p.Again)
			}
			want := "Progressing=True FormerResourceLeaves: A former resource of this name was deleted, and these go " +
				"with it first: " +
				"ConfigMap demo--view"
			if all := summary(p); all[1] != want {
				t.Errorf("got %s", all[1])
			}
			if p.Status.View != nil || len(p.Status.Conditions) == 0 {
				t.Errorf("the view of the former one is told as this one's: %+v", p.Status.View)
			}
		})
	}
}

// While volumes of different clusters are there, nothing is made of either.
func TestVolumesOfDifferentClusters(t *testing.T) {
	s := healthy(3)
	s.Record = world.Record{}
	s.Stored = []string{"claim a of cluster demo.1", "claim b of cluster demo.2"}
	p := Next(*s)
	stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
	if p.Step != nil || p.Apply != nil || p.Prune != nil || stalled.Status != metav1.ConditionTrue ||
		stalled.Reason != facts.VolumesDiffer ||
		!strings.Contains(stalled.Message, "claim a of cluster demo.1; claim b of cluster demo.2") {
		t.Errorf("step %q, %d objects, %d to prune; %+v", line(p.Step), len(p.Apply), len(p.Prune), stalled)
	}
	if p.Again != late {
		t.Errorf("it is looked at again after %v", p.Again)
	}
}

func TestRecordIsKept(t *testing.T) {
	s := healthy(3)
	s.Record.Astray = true
	step, ok := written(Next(*s).Step, "KeepingRecord")
	if !ok || step.View.Digest() != s.Record.View.Digest() || step.UID != "record" || step.ResourceVersion != "1" {
		t.Errorf("step %+v", step)
	}
	next := s.Record.View // the record is behind
	next.Epoch++
	hold(s, 2, next)
	if got := line(Next(*s).Step); got != `rebuild 2 over "1"` {
		t.Errorf("a record that is behind is kept: %q", got)
	}
	s = healthy(3)
	s.Record.Astray = true
	silent(s, 1)
	if _, ok := written(Next(*s).Step, "KeepingRecord"); !ok {
		t.Error("a member that is down is in the way")
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
			t.Fatalf("step %q, view %+v", line(p.Step), p.Status.View)
		}
		if got := summary(p)[0]; !strings.HasPrefix(got, "Available=False RecordMissing: The record of the view") {
			t.Fatal(got)
		}
		s.Cluster.Status = p.Status
	}
	s.Cluster.Status = v1alpha1.GeoRegisterClusterStatus{}
	if got := line(Next(*s).Step); got != "found 3" {
		t.Errorf("a new resource: %q", got)
	}
}
