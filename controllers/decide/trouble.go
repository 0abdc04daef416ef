package decide

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// silence says in a few words why a member does not take part, to be read after its name.
func (s *situation) silence(m view.Member) string {
	seen := s.Member(m.ID)
	switch {
	case seen == nil || seen.StatefulSet == nil && seen.Pod == nil:
		return "is not made yet"
	case seen.Report != nil:
		return doing(seen.Report, s.view)
	}
	return unheard(seen.Pod, seen.Silence)
}

// unheard says why a process of a pod, which may be nil, does not answer; silence is what was heard in place of an answer.
func unheard(pod *corev1.Pod, silence string) string {
	switch {
	case pod == nil:
		return "has no pod"
	case pod.DeletionTimestamp != nil:
		return "is ending its pod"
	}
	if trouble := podTrouble(pod); trouble != "" {
		return trouble
	}
	if silence != "" {
		return "does not answer: " + silence
	}
	return "does not answer"
}

// doing says what a member that answers does.
func doing(r *world.Report, v view.View) string {
	switch {
	case r.Role == world.Waiting && r.Disk == "":
		return "has not named its disk yet"
	case r.Role == world.Waiting:
		return "has an empty disk and waits for its view"
	case r.View.Epoch != v.Epoch && v.Epoch > 0:
		return fmt.Sprintf("holds view %d, not %d", r.View.Epoch, v.Epoch)
	case v.Epoch > 0 && r.Digest != v.Digest():
		return fmt.Sprintf("holds another view %d", v.Epoch)
	case r.Role == world.Learner:
		return fmt.Sprintf("takes a state transfer: %d of %d shards vote", r.Voting, r.Shards)
	case r.Role == world.Removed:
		return "is not in the view any more"
	case !r.Quorum:
		return "votes, but reaches no majority"
	}
	return "votes"
}

// podTrouble says why a pod can't start or be placed, or is empty.
func podTrouble(pod *corev1.Pod) string {
	for _, c := range pod.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return "can't be placed on a node: " + c.Message
		}
	}
	for _, c := range pod.Status.ContainerStatuses {
		if waiting := c.State.Waiting; (c.Name == build.Container || c.Name == build.WitnessContainer) && waiting != nil && stuckReasons[waiting.Reason] {
			return fmt.Sprintf("can't start its container: %s: %s", waiting.Reason, waiting.Message)
		}
	}
	for _, c := range pod.Status.InitContainerStatuses {
		if waiting := c.State.Waiting; c.Name == build.WitnessContainer && waiting != nil && stuckReasons[waiting.Reason] {
			return fmt.Sprintf("can't start its witness: %s: %s", waiting.Reason, waiting.Message)
		}
	}
	if pod.Status.Phase == corev1.PodFailed {
		return "failed: " + pod.Status.Message
	}
	return ""
}

// stuckReasons are why a container waits that will not start by itself in a while.
var stuckReasons = map[string]bool{
	"ImagePullBackOff": true, "ErrImagePull": true, "InvalidImageName": true, "ErrImageNeverPull": true,
	"CreateContainerConfigError": true, "CreateContainerError": true, "RunContainerError": true, "CrashLoopBackOff": true,
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

func ready(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}
