package rules

import (
	"fmt"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
)

// updateOneWitness ends the pod of a dedicated witness that was made for another spec. The witness comes back on its
// disk: what it saved is not lost, and meanwhile updates take a round trip more. A witness that says nothing serves
// nobody, and goes at once. What this rule waits for keeps nothing else from being done.
func updateOneWitness(s *views.Views) *Outcome {
	if !s.HasDedicated() || !s.Partitioned() {
		return nil
	}
	next, ends := nextWitness(s)
	if next == nil || ends != nil || witnessHeld(s, next) != nil {
		return nil
	}
	const why = "the spec changed"
	who := message.SeenWitness(next)
	return act(DeletePod{Evict: facts.PodReady(next.Pod), Member: next.ID, Who: who, Name: next.Pod.Name,
		UID: next.Pod.UID, ResourceVersion: next.Pod.ResourceVersion, Reason: why},
		message.Normal("WitnessRestarted", "DeletePod", fmt.Sprintf("Restarted %s: %s", who, why)))
}

// awaitWitnesses waits for dedicated witnesses that are to be taken on or restarted, when there is nothing else to do.
func awaitWitnesses(s *views.Views) *Outcome {
	if s.View.Epoch == 0 || !s.HasDedicated() {
		return nil
	}
	var waits []string
	for _, w := range s.Coming {
		why := s.WitnessState(w)
		if why == "" {
			why = "is about to be taken on"
		}
		waits = append(waits, fmt.Sprintf("%s %s", message.Witness(w), why))
	}
	if len(waits) > 0 {
		return waitFor("StartingWitnesses", "Witnesses are started: %s", message.List(waits))
	}
	next, ends := nextWitness(s)
	if ends != nil {
		return waitFor("WitnessRestarts", "%s restarts with the changed spec",
			message.Sentence(message.SeenWitness(ends)))
	}
	if next == nil {
		return nil
	}
	c := witnessHeld(s, next)
	if c == nil { // what came before it in this round was done instead
		return nil
	}
	return waitFor(c.Reason, "%s is to be restarted with the changed spec, and waits: %s",
		message.Sentence(message.SeenWitness(next)), c.Message)
}

// nextWitness is the dedicated witness of the view whose pod is to be ended since it was made for another spec, or nil;
// first such as say nothing. While one of them is ending there is none.
func nextWitness(s *views.Views) (next *world.Member, ends *world.Member) {
	for _, w := range s.DedicatedWitnesses() {
		seen := s.Dedicated(w.ID)
		switch {
		case !outdatedWitness(s, seen):
		case seen.Pod.DeletionTimestamp != nil:
			ends = seen
		case next == nil || next.Witness != nil && seen.Witness == nil:
			next = seen
		}
	}
	return next, ends
}

// outdatedWitness reports whether the pod of a dedicated witness was made for another spec.
func outdatedWitness(s *views.Views, seen *world.Member) bool {
	return seen.Pod != nil && facts.HashOf(seen.Pod.Annotations) != build.WitnessHash(s.Cluster)
}

// witnessHeld says what keeps the pod of a dedicated witness from being ended now, or is nil.
func witnessHeld(s *views.Views, seen *world.Member) *message.Cause {
	if why := outdatedSet(seen.StatefulSet, build.WitnessHash(s.Cluster)); why != "" {
		return &message.Cause{Reason: itsStatefulSetIsUpToDate.name, Message: why}
	}
	if seen.Witness == nil {
		return nil
	}
	for _, w := range s.DedicatedWitnesses() {
		if other := s.Dedicated(w.ID); w.ID != seen.ID && s.WitnessLost(w) == "" && (other.Witness == nil ||
			!facts.PodReady(other.Pod) || other.Pod.DeletionTimestamp != nil) {
			return message.Because("AnotherWitnessIsNotReady", "%s is not ready", message.Witness(w))
		}
	}
	for _, m := range s.View.Members {
		if pod := s.Pod(m.ID); !s.Votes(m.ID) || !facts.PodReady(pod) || pod.DeletionTimestamp != nil {
			return message.Because("AnotherMemberDoesNotVote", "%s does not vote, or its pod is not ready: %s",
				message.Member(m), s.Silence(m))
		}
	}
	for i := range s.View.Partitions {
		if why := s.Lack(i); why != "" {
			return message.Because("PartitionDegraded", "partition %d is not whole: %s", i, why)
		}
	}
	return nil
}
