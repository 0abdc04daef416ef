package rules

import (
	"fmt"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/view"
)

// restartStuckMember ends a pod of a former spec that can't start: the present one may help. It serves nobody, so
// nothing is lost with it, whatever the others do.
func restartStuckMember(s *views.Views) *Outcome {
	for _, m := range s.MembersToKeep() {
		if !s.Outdated(m.ID) || s.Report(m.ID) != nil || itsStatefulSetIsUpToDate.violated(s, m) != "" {
			continue
		}
		if trouble := facts.PodTrouble(s.Pod(m.ID)); trouble != nil {
			return restart(s, m, "the spec changed, and with the former one it "+trouble.Message)
		}
	}
	return nil
}

// updateOneMember ends a pod that was made for another spec; its StatefulSet makes the next. Members that do not serve
// anyway come first.
func updateOneMember(s *views.Views) *Outcome {
	m, found := s.NextToUpdate()
	if !found {
		return leaving(s)
	}
	if c := first(beforeRestart, s, m); c != nil {
		return waitFor(c.Reason, "%s is to be restarted with the changed spec, and waits: %s",
			message.Sentence(message.Member(m)), c.Message)
	}
	return restart(s, m, "the spec changed")
}

// leaving waits for the last pod of a former spec to end: until it has, it serves as if there were nothing to do.
func leaving(s *views.Views) *Outcome {
	for _, m := range s.View.Members {
		if pod := s.Pod(m.ID); pod != nil && pod.DeletionTimestamp != nil &&
			facts.HashOf(pod.Annotations) != s.SpecHash() {
			return waitFor("MemberRestarts", "%s restarts with the changed spec", message.Sentence(message.Member(m)))
		}
	}
	return nil
}

func restart(s *views.Views, m view.Member, why string) *Outcome {
	pod := s.Pod(m.ID)
	return act(DeletePod{Evict: facts.PodReady(pod), Member: m.ID, Name: pod.Name, UID: pod.UID,
		ResourceVersion: pod.ResourceVersion, Reason: why},
		message.Normal("MemberRestarted", "DeletePod", fmt.Sprintf("Restarted %s: %s", message.Member(m), why)))
}
