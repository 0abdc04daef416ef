package decide

import (
	"fmt"
	"slices"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// discardWitness removes what is left of a dedicated witness that no view names any more, and that is not to be taken
// on. The view is settled, and without it, so nobody recovers from what it saved.
func discardWitness(s *situation) *outcome {
	if !s.settled() {
		return nil
	}
	return s.discardWitness()
}

func (s *situation) discardWitness() *outcome {
	for i := range s.Witnesses {
		m := &s.Witnesses[i]
		of := func(w view.Witness) bool { return w.ID == m.ID }
		if slices.ContainsFunc(s.alone(), of) || slices.ContainsFunc(s.coming, of) {
			continue
		}
		var objects []client.Object
		if set := m.StatefulSet; set != nil && set.DeletionTimestamp == nil {
			objects = append(objects, set)
		}
		if v := m.Volume; v != nil && v.DeletionTimestamp == nil && (m.ID > s.view.LastIssued() || !s.wasGivenUp(m)) {
			objects = append(objects, v)
		}
		if len(objects) > 0 {
			who := seenName(m)
			return act(Discard{Member: m.ID, Who: who, Objects: objects}, Normal("WitnessDiscarded", "Discard", "Removed what was left of "+who))
		}
	}
	return nil
}

// outdatedWitness reports whether the pod of a dedicated witness was made for another spec.
func (s *situation) outdatedWitness(seen *world.Member) bool {
	return seen != nil && seen.Pod != nil && hashOf(seen.Pod.Annotations) != build.WitnessHash(s.Cluster)
}

// nextWitness is the dedicated witness of the view whose pod is to be ended since it was made for another spec, or nil;
// first such as say nothing. While one of them is ending there is none.
func (s *situation) nextWitness() (next *world.Member, ends *world.Member) {
	for _, w := range s.alone() {
		seen := s.seenWitness(w.ID)
		switch {
		case !s.outdatedWitness(seen):
		case seen.Pod.DeletionTimestamp != nil:
			ends = seen
		case next == nil || next.Witness != nil && seen.Witness == nil:
			next = seen
		}
	}
	return next, ends
}

// updateOneWitness ends the pod of a dedicated witness that was made for another spec. The witness comes back on its
// disk: what it saved is not lost, and meanwhile updates take a round trip more. A witness that says nothing serves
// nobody, and goes at once. What this rule waits for keeps nothing else from being done.
func updateOneWitness(s *situation) *outcome {
	if !s.dedicated() || !s.partitioned() {
		return nil
	}
	next, ends := s.nextWitness()
	if next == nil || ends != nil || s.witnessHeld(next) != nil {
		return nil
	}
	const why = "the spec changed"
	who := seenName(next)
	return act(DeletePod{Evict: ready(next.Pod), Member: next.ID, Who: who, Name: next.Pod.Name, UID: next.Pod.UID, ResourceVersion: next.Pod.ResourceVersion, Reason: why},
		Normal("WitnessRestarted", "DeletePod", fmt.Sprintf("Restarted %s: %s", who, why)))
}

func seenName(m *world.Member) string { return witnessName(view.Witness{ID: m.ID, Site: m.Site}) }

// witnessHeld says what keeps the pod of a dedicated witness from being ended now, or is nil.
func (s *situation) witnessHeld(seen *world.Member) *cause {
	set := seen.StatefulSet
	if set == nil || hashOf(set.Spec.Template.Annotations) != build.WitnessHash(s.Cluster) || set.Status.ObservedGeneration < set.Generation {
		return &cause{"StatefulSetNotUpdated", "its StatefulSet would make the former pod again"}
	}
	if seen.Witness == nil {
		return nil
	}
	for _, w := range s.alone() {
		if other := s.seenWitness(w.ID); w.ID != seen.ID && s.witnessLost(w) == "" && (other == nil || other.Witness == nil || !ready(other.Pod) || other.Pod.DeletionTimestamp != nil) {
			return &cause{"AnotherWitnessIsNotReady", fmt.Sprintf("%s is not ready", witnessName(w))}
		}
	}
	for _, m := range s.view.Members {
		if pod := s.pod(m.ID); !s.serves(m.ID) || !ready(pod) || pod.DeletionTimestamp != nil {
			return &cause{"AnotherMemberDoesNotVote", fmt.Sprintf("%s does not vote, or its pod is not ready: %s", name(m), s.silence(m))}
		}
	}
	for i := range s.view.Partitions {
		if why := s.lack(i); why != "" {
			return &cause{"PartitionDegraded", fmt.Sprintf("partition %d is not whole: %s", i, why)}
		}
	}
	return nil
}

// awaitWitnesses waits for dedicated witnesses that are to be taken on or restarted, when there is nothing else to do.
func awaitWitnesses(s *situation) *outcome {
	if s.view.Epoch == 0 || !s.dedicated() {
		return nil
	}
	var waits []string
	for _, w := range s.coming {
		why := s.witnessState(w)
		if why == "" {
			why = "is about to be taken on"
		}
		waits = append(waits, fmt.Sprintf("%s %s", witnessName(w), why))
	}
	if len(waits) > 0 {
		return waitFor("StartingWitnesses", "Witnesses are started: %s", list(waits))
	}
	next, ends := s.nextWitness()
	if ends != nil {
		return waitFor("WitnessRestarts", "%s restarts with the changed spec", sentence(seenName(ends)))
	}
	if next == nil {
		return nil
	}
	c := s.witnessHeld(next)
	if c == nil { // what came before it in this round was done instead
		return nil
	}
	return waitFor(c.reason, "%s is to be restarted with the changed spec, and waits: %s", sentence(seenName(next)), c.message)
}
