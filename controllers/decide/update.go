package decide

import (
	"fmt"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/replica/view"
)

// beforeRestart is what must hold before a pod is ended: the cluster serves without it, and every member that
// goes does so alone.
var beforeRestart = []predicate{
	nobodyElseLeaves,
	everyoneElseVotes,
	everyoneElseIsReady,
	everyoneElseHasQuorum,
	majorityRemains,
	majorityInReachWithoutIt,
	itsStatefulSetIsUpToDate, // it mends itself, and people want to read of what does not
	itsPartsAreElsewhere,     // last: it is worth the time only when all else agrees
}

// updateOneMember ends a pod that was made for another spec; its StatefulSet makes the next. Members that do not serve
// anyway come first.
func updateOneMember(s *situation) *outcome {
	m, found := s.nextToUpdate()
	if !found {
		return s.leaving()
	}
	if c := first(beforeRestart, s, m); c != nil {
		return waitFor(c.reason, "%s is to be restarted with the changed spec, and waits: %s", sentence(name(m)), c.message)
	}
	return s.restart(m, "the spec changed")
}

// leaving waits for the last pod of a former spec to end: until it has, it serves as if there were nothing to do.
func (s *situation) leaving() *outcome {
	for _, m := range s.view.Members {
		if pod := s.pod(m.ID); pod != nil && pod.DeletionTimestamp != nil && hashOf(pod.Annotations) != s.wanted() {
			return waitFor("MemberRestarts", "%s restarts with the changed spec", sentence(name(m)))
		}
	}
	return nil
}

// restartStuckMember ends a pod of a former spec that can't start: the present one may help. It serves nobody, so
// nothing is lost with it, whatever the others do.
func restartStuckMember(s *situation) *outcome {
	for _, m := range s.members() {
		if !s.outdated(m.ID) || s.report(m.ID) != nil || itsStatefulSetIsUpToDate.violated(s, m) != "" {
			continue
		}
		if trouble := podTrouble(s.pod(m.ID)); trouble != nil {
			return s.restart(m, "the spec changed, and with the former one it "+trouble.message)
		}
	}
	return nil
}

func (s *situation) nextToUpdate() (next view.Member, found bool) {
	for _, m := range s.view.Members {
		if s.outdated(m.ID) && (!found || s.earlier(m, next)) {
			next, found = m, true
		}
	}
	return next, found
}

// earlier reports whether a member is to be updated before another one: who does not serve; where there are partitions,
// who says nothing, and then who has begun to hand over. While it does, others take on views, and don't serve for a
// moment.
func (s *situation) earlier(m, than view.Member) bool {
	if !s.partitioned() {
		return s.serves(than.ID) && !s.serves(m.ID)
	}
	if a, b := s.report(m.ID) == nil, s.report(than.ID) == nil; a != b {
		return a
	}
	return len(s.roles(m.ID)) < len(s.roles(than.ID))
}

// outdated reports whether a member's pod was made for another spec and does not end already.
func (s *situation) outdated(id view.MemberID) bool {
	pod := s.pod(id)
	return pod != nil && pod.DeletionTimestamp == nil && hashOf(pod.Annotations) != s.wanted()
}

func (s *situation) wanted() string { return build.SpecHash(s.Cluster) }

func hashOf(annotations map[string]string) string { return annotations[build.SpecHashAnnotation] }

func (s *situation) restart(m view.Member, why string) *outcome {
	pod := s.pod(m.ID)
	return act(DeletePod{Evict: ready(pod), Member: m.ID, Name: pod.Name, UID: pod.UID, ResourceVersion: pod.ResourceVersion, Reason: why},
		Normal("MemberRestarted", "DeletePod", fmt.Sprintf("Restarted %s: %s", name(m), why)))
}
