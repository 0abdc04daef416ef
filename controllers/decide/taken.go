package decide

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
)

// NameTaken is the reason of conditions and events where something waits for an object of somebody else to go.
const NameTaken = "NameTaken"

// SayTaken says for people which object stands in the way of a cluster's, whose it is, and what to do.
func SayTaken(cluster *v1alpha1.GeoRegisterCluster, t world.Taken) string {
	return fmt.Sprintf("%s %s/%s is not this cluster's (%s) and is left alone: delete or rename it, create this cluster under another name, "+
		"or, if no controller owns the object and this cluster is to have it, annotate it with %s=%s",
		t.Kind, cluster.Namespace, t.Name, t.Whose, build.AdoptAnnotation, cluster.Name)
}

// takenRecord is the object in the place of the record.
func (s *situation) takenRecord() world.Taken {
	return world.Taken{Kind: "ConfigMap", Name: build.RecordName(s.Cluster.Name), Whose: s.Record.Taken}
}

// takenProblems are the names that are taken, but for the record's, which is the doubt.
func (s *situation) takenProblems() (all []cause) {
	for _, t := range s.Taken {
		all = append(all, cause{NameTaken, SayTaken(s.Cluster, t)})
	}
	return all
}

// awaitNames starts and restarts no pod while pods would use what is somebody else's.
func awaitNames(s *situation) *outcome {
	i := slices.IndexFunc(s.Taken, func(t world.Taken) bool { return t.Pods })
	if i < 0 {
		return nil
	}
	return waitFor(NameTaken, "No pod is started or restarted: %s", SayTaken(s.Cluster, s.Taken[i]))
}

// blocked reports whether people alone can help: nothing is wrong but names that are taken.
func (s *situation) blocked(o *outcome) bool {
	if len(s.Taken) == 0 && s.Record.Taken == "" || o != nil && (o.wait == nil || o.wait.reason != NameTaken) {
		return false
	}
	return !slices.ContainsFunc(s.problems(s.members()), func(c cause) bool { return c.reason != NameTaken })
}
