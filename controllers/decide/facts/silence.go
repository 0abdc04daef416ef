package facts

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/build"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// Silence says in a few words why a member does not take part, to be read after its name.
func (s *Seen) Silence(m view.Member) string {
	seen := s.Of(m.ID)
	switch {
	case seen.StatefulSet == nil && seen.Pod == nil:
		return "is not made yet"
	case seen.Report != nil && seen.Report.Loss != nil && !seen.Report.Loss.Over:
		return Damage(seen.Report.Loss) + "; it " + Doing(seen.Report, s.View)
	case seen.Report != nil:
		return Doing(seen.Report, s.View)
	}
	return unheard(seen, seen.Silence)
}

// Damage says what happened to the disk of a member that does not vote again yet.
func Damage(l *world.Loss) string {
	what := fmt.Sprintf("%s, and joins again on an empty one: %s", FoundDamaged, l.Cause)
	if l.Aside != "" {
		what += fmt.Sprintf("; what is left is kept in %s until it votes", l.Aside)
	}
	return what
}

// FoundDamaged begins what is said of a member that lost its disk to damage.
const FoundDamaged = "found its disk damaged"

// unheard says why a process of a member's or a witness's pod does not answer; silence is what was heard in place of an
// answer.
func unheard(seen *world.Member, silence string) string {
	if seen.Pod != nil && seen.Pod.DeletionTimestamp != nil {
		return "is ending its pod"
	}
	switch trouble := Trouble(seen); {
	case trouble != nil:
		return trouble.Message
	case seen.Pod == nil:
		return "has no pod"
	case silence != "":
		return "does not answer: " + silence
	}
	return "does not answer"
}

// Doing says what a member that answers does.
func Doing(r *world.Report, v view.View) string {
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

// The reasons why a pod is not there or does not run. Those that only a person can end are stalling (package status).
const (
	PodRefused          = "PodRefused"
	PodNotPlaced        = "PodNotPlaced"
	NodePoolEmpty       = "NodePoolEmpty" // and the pod is not placed
	PodNotStarted       = "PodNotStarted"
	PodFailed           = "PodFailed"
	VolumeNotProvided   = "VolumeNotProvided"
	ImageNotPulled      = "ImageNotPulled"
	ContainerNotStarted = "ContainerNotStarted"
	ContainerCrashes    = "ContainerCrashes"
)

// Trouble is why the pod of a member or a witness is not there or can't run, with a message to be read after the name,
// or nil. The apiserver's events are the only ones to say so where there is no pod, or it waits for something else.
func Trouble(seen *world.Member) *message.Cause {
	if seen.Pod == nil {
		if w := seen.Warning("StatefulSet"); w != nil {
			return message.Because(PodRefused, "has no pod, since StatefulSet %s can't make it: %s",
				seen.StatefulSet.Name, w.Message)
		}
	}
	if seen.Volume != nil && seen.Volume.Status.Phase == corev1.ClaimPending {
		if w := seen.Warning("PersistentVolumeClaim"); w != nil {
			return message.Because(VolumeNotProvided, "gets no volume for its claim %s: %s: %s", seen.Volume.Name,
				w.Reason, w.Message)
		}
	}
	if seen.Pod == nil {
		return nil
	}
	if of := PodTrouble(seen.Pod); of != nil {
		return of
	}
	if w := seen.Warning("Pod"); w != nil && seen.Pod.Status.Phase == corev1.PodPending {
		return message.Because(PodNotStarted, "can't start its pod: %s: %s", w.Reason, w.Message)
	}
	return nil
}

// PodTrouble is why a pod can't start or be placed, as the pod says, or nil.
func PodTrouble(pod *corev1.Pod) *message.Cause {
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse {
		return &message.Cause{Reason: PodNotPlaced, Message: "can't be placed on a node: " + c.Message}
	}
	for _, c := range slices.Concat(pod.Status.ContainerStatuses, pod.Status.InitContainerStatuses) {
		waiting, what := c.State.Waiting, "container"
		if c.Name == build.WitnessContainer && len(pod.Spec.InitContainers) > 0 {
			what = "witness"
		}
		if waiting == nil || waitReasons[waiting.Reason] == "" ||
			c.Name != build.Container && c.Name != build.WitnessContainer {
			continue
		}
		return message.Because(waitReasons[waiting.Reason], "can't start its %s: %s: %s", what, waiting.Reason,
			waiting.Message)
	}
	if pod.Status.Phase == corev1.PodFailed {
		return &message.Cause{Reason: PodFailed, Message: "failed: " + pod.Status.Message}
	}
	return nil
}

// Unplaced is the trouble of a member's pod, which for one that no node takes may be a mistake in the manifest. An
// autoscaler may bring a node for it.
func (s *Seen) Unplaced(m view.Member, of message.Cause) message.Cause {
	i := slices.IndexFunc(s.Cluster.Spec.Sites, func(o v1alpha1.Site) bool { return o.Name == m.Site })
	if of.Reason != PodNotPlaced || i < 0 || !slices.Contains(s.EmptyPools, m.Site) {
		return of
	}
	pool := s.Cluster.Spec.Sites[i].NodePool
	return message.Cause{Reason: NodePoolEmpty, Message: fmt.Sprintf("waits for a node with the label %s=%s, and "+
		"there is none: correct spec.sites[%d].nodePool, or label or "+
		"add such nodes; its pod %s", pool.KeyOrDefault(), pool.Value, i, of.Message)}
}

// waitReasons says of why a container waits, if it will not start by itself in a while, what that is.
var waitReasons = map[string]string{
	"ImagePullBackOff":           ImageNotPulled,
	"ErrImagePull":               ImageNotPulled,
	"InvalidImageName":           ImageNotPulled,
	"ErrImageNeverPull":          ImageNotPulled,
	"ImageInspectError":          ImageNotPulled,
	"RegistryUnavailable":        ImageNotPulled,
	"SignatureValidationFailed":  ImageNotPulled,
	"CreateContainerConfigError": ContainerNotStarted,
	"CreateContainerError":       ContainerNotStarted,
	"RunContainerError":          ContainerNotStarted,
	"CrashLoopBackOff":           ContainerCrashes,
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// PodReady reports whether a pod, which may be nil, is ready.
func PodReady(pod *corev1.Pod) bool {
	if pod == nil {
		return false
	}
	c := podCondition(pod, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}
