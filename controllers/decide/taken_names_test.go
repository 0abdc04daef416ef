package decide

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
)

// A name that is taken is told with what to do about it, and no pod is touched where pods would use the object; the
// operator looks as seldom as at rest.
func TestNamesThatAreTaken(t *testing.T) {
	const says = "default/demo--members is not this cluster's (no cluster controls it) and is left alone: delete or " +
		"rename it"
	taken := func(kind string, pods bool) func(*world.Snapshot) {
		return func(s *world.Snapshot) {
			s.Taken = []world.Taken{{Kind: kind, Name: "demo--members", Whose: "no cluster controls it", Pods: pods}}
		}
	}
	for name, test := range map[string]struct {
		change func(*world.Snapshot)
		says   string
		step   bool
	}{
		"what pods don't use": {taken("PodDisruptionBudget", false), "PodDisruptionBudget " + says, false},
		"what pods use":       {taken("ServiceAccount", true), "ServiceAccount " + says, false},
		"an update goes on without": {func(s *world.Snapshot) {
			taken("Service", false)(s)
			newImage(s)
		}, "Service " + says, true},
		"an update waits for a pod's": {func(s *world.Snapshot) {
			taken("ConfigMap", true)(s)
			newImage(s)
		}, "ConfigMap " + says, false},
		"the record": {func(s *world.Snapshot) { s.Record = world.Record{Taken: "no cluster controls it"} },
			"ConfigMap default/demo--view is not this cluster's", false},
	} {
		s := healthy(3)
		test.change(s)
		p := Next(*s)
		stalled := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionStalled)
		if stalled.Status != metav1.ConditionTrue || stalled.Reason != message.NameTaken ||
			!strings.Contains(stalled.Message, test.says) {
			t.Errorf("%s: Stalled is %s, %s: %s", name, stalled.Status, stalled.Reason, stalled.Message)
		}
		if got := p.Step != nil; got != test.step {
			t.Errorf("%s: the step is %+v", name, p.Step)
		}
		if !test.step && p.Again != late {
			t.Errorf("%s: the next look is in %v", name, p.Again)
		}
		ready := meta.FindStatusCondition(p.Status.Conditions, v1alpha1.ConditionReady)
		if ready.Status != metav1.ConditionFalse {
			t.Errorf("%s: Ready is %s", name, ready.Status)
		}
	}
}

// What is in the place of the record is no record: nothing is founded beside it.
func TestNothingIsFoundedBesideAForeignRecord(t *testing.T) {
	s := healthy(3)
	s.Record = world.Record{Taken: "no cluster controls it"}
	for i := range s.Members {
		s.Members[i].Report.ClusterID, s.Members[i].Report.Role = "demo.1", world.Waiting
	}
	if p := Next(*s); p.Step != nil {
		t.Errorf("the step is %+v", p.Step)
	}
}
