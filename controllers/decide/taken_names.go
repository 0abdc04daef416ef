package decide

import (
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// NameTaken is the reason of conditions and events where something waits for an object of somebody else to go.
const NameTaken = "NameTaken"

// objectUnusable is that where the object is the cluster's, and its content is of no use.
const objectUnusable = "ObjectUnusable"

// SayTaken says for people which object stands in the way of a cluster's, whose it is, and what to do.
func SayTaken(cluster *v1alpha1.GeoRegisterCluster, t world.Taken) string {
	switch {
	case t.Flaw != "":
		return fmt.Sprintf("%s %s/%s can't be used, and is left as it is: %s", t.Kind, cluster.Namespace, t.Name, t.Flaw)
	case t.Stored:
		return leftAlone(cluster, t) + ", or create this cluster under another name"
	}
	return fmt.Sprintf("%s, create this cluster under another name, "+
		"or, if no controller owns the object and this cluster is to have it, annotate it with %s=%s",
		leftAlone(cluster, t), build.AdoptAnnotation, cluster.Name)
}

// WhyTaken is the reason of a condition or an event about such an object.
func WhyTaken(t world.Taken) string {
	if t.Flaw != "" {
		return objectUnusable
	}
	return NameTaken
}

func leftAlone(cluster *v1alpha1.GeoRegisterCluster, t world.Taken) string {
	return fmt.Sprintf("%s %s/%s is not this cluster's (%s) and is left alone: delete or rename it", t.Kind, cluster.Namespace, t.Name, t.Whose)
}

// NetworkTaken has a status say that objects of others stand in the way of the emulated network, and returns the event
// that does, if the status of before did not.
func NetworkTaken(cluster *v1alpha1.GeoRegisterCluster, status *v1alpha1.GeoRegisterClusterStatus, taken []world.Taken) (events []Event) {
	var all []string
	for _, t := range taken {
		all = append(all, leftAlone(cluster, t))
	}
	was := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionWANInjected)
	if was == nil || was.Reason != NameTaken {
		events = append(events, Warning(NameTaken, "Block", list(all)))
	}
	set(status, cluster.Generation, condition(v1alpha1.ConditionWANInjected, metav1.ConditionFalse, NameTaken, "%s", list(all)))
	if !isTrue(status.Conditions, v1alpha1.ConditionStalled) {
		set(status, cluster.Generation, condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, NameTaken, "%s", list(all)))
	}
	Conclude(status, cluster.Generation)
	return events
}

// takenRecord is the object in the place of the record.
func (s *situation) takenRecord() world.Taken {
	return world.Taken{Kind: "ConfigMap", Name: build.RecordName(s.Cluster.Name), Whose: s.Record.Taken}
}

// takenProblems are the names that are taken, but for the record's, which is the doubt.
func (s *situation) takenProblems() (all []cause) {
	for _, t := range s.Taken {
		all = append(all, cause{WhyTaken(t), SayTaken(s.Cluster, t)})
	}
	return all
}

// awaitTakenNames ends the rules that start or restart pods while pods would use what is somebody else's.
func awaitTakenNames(s *situation) *outcome {
	i := slices.IndexFunc(s.Taken, func(t world.Taken) bool { return t.Pods })
	if i < 0 {
		return nil
	}
	return waitFor(WhyTaken(s.Taken[i]), "No pod is started or restarted: %s", SayTaken(s.Cluster, s.Taken[i]))
}

// blocked reports whether people alone can help: nothing is wrong but names that are taken.
func (s *situation) blocked(o *outcome) bool {
	of := func(reason string) bool { return reason == NameTaken || reason == objectUnusable }
	if len(s.Stored) > 0 {
		return true
	}
	if len(s.Taken) == 0 && s.Record.Taken == "" || o != nil && (o.wait == nil || !of(o.wait.reason)) {
		return false
	}
	return !slices.ContainsFunc(s.problems(s.members()), func(c cause) bool { return !of(c.reason) })
}
