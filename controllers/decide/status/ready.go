package status

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/view"
)

// stalling are the reasons that no time ends: somebody has to do what the message says.
var stalling = []string{
	facts.PodRefused, facts.VolumeNotProvided, facts.ImageNotPulled, facts.ContainerNotStarted, // of pods
	message.NameTaken, message.ObjectUnusable, facts.VolumesDiffer, // of objects that others made
	"MembersLost", "VolumeCannotGrow", "DiskReplaced", "ViewsDiffer", // of disks and records
	"NumberOfMembers", "CannotFound", "CannotChange", "ShardsCannotShrink", "ShardsCannotChange",
	"CannotRecover", // of the spec
}

// stalled is the first cause of all that only a person can end.
func (s *Projection) stalled(members []view.Member, lost metav1.Condition) metav1.Condition {
	causes := s.problems(members)
	if s.outcome != nil && s.outcome.Wait != nil {
		causes = append(causes, *s.outcome.Wait)
	}
	if lost.Status == metav1.ConditionTrue {
		causes = append([]message.Cause{{Reason: lost.Reason, Message: lost.Message}}, causes...)
	}
	for _, c := range causes {
		if slices.Contains(stalling, c.Reason) {
			return message.Condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, c.Reason, "%s", c.Message)
		}
	}
	return message.Condition(v1alpha1.ConditionStalled, metav1.ConditionFalse, "NotStalled", "Nothing waits for a "+
		"person")
}

// flaws are what keeps a cluster from being ready, in the order in which they are told: conditions, and their status in
// which they do so.
var flaws = []struct {
	kind  string
	is    metav1.ConditionStatus
	state v1alpha1.State // what the cluster is then
}{
	{v1alpha1.ConditionStalled, metav1.ConditionTrue, v1alpha1.StateStalled},
	{v1alpha1.ConditionAvailable, metav1.ConditionFalse, v1alpha1.StateUnavailable},
	{v1alpha1.ConditionDegraded, metav1.ConditionTrue, v1alpha1.StateDegraded},
	{v1alpha1.ConditionPaused, metav1.ConditionTrue, v1alpha1.StatePaused},
	{v1alpha1.ConditionProgressing, metav1.ConditionTrue, v1alpha1.StateChanging},
	{v1alpha1.ConditionWANInjected, metav1.ConditionFalse, v1alpha1.StateChanging},
}

// Conclude has a status say in one condition, Ready, and in one word, State, what all the other conditions come to. It
// is for whoever has changed one of them.
func Conclude(status *v1alpha1.GeoRegisterClusterStatus, generation int64) {
	ready := message.Condition(v1alpha1.ConditionReady, metav1.ConditionTrue, "AsAsked", "Every member serves, as "+
		"the manifest asks for")
	status.State = v1alpha1.StateReady
	for _, flaw := range flaws {
		c := meta.FindStatusCondition(status.Conditions, flaw.kind)
		if c == nil || c.Status != flaw.is {
			continue
		}
		status.State = flaw.state
		if c.Type == v1alpha1.ConditionAvailable && c.Reason == facts.NotFounded {
			status.State = v1alpha1.StateStarting
			if isTrue(status.Conditions, v1alpha1.ConditionDegraded) { // that there is no view yet says nothing of why
				c = meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
			}
		}
		ready.Status, ready.Reason, ready.Message = metav1.ConditionFalse, c.Reason, c.Message
		break
	}
	set(status, generation, ready)
}

// Failed has a status say what the operator could not do. With refused the apiserver does not take something as it is
// asked for, which somebody has to mend. A status whose conditions speak of what was seen keeps what the cluster lacks
// first.
func Failed(status *v1alpha1.GeoRegisterClusterStatus, generation int64, text string, refused bool) {
	before := meta.FindStatusCondition(status.Conditions, v1alpha1.ConditionDegraded)
	failed := message.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, OperatorFailed, "The operator "+
		"tries again: %s", text)
	if before != nil && before.Status == metav1.ConditionTrue {
		failed.Reason, failed.Message = before.Reason, before.Message+"; the operator tries again: "+text
	}
	if refused && !isTrue(status.Conditions, v1alpha1.ConditionStalled) {
		set(status, generation, message.Condition(v1alpha1.ConditionStalled, metav1.ConditionTrue, "Refused", "The "+
			"apiserver does not take what is asked for: %s", text))
	}
	Amend(status, generation, failed)
}

// Amend has a status say another condition, for a reason that showed when a plan was carried out.
func Amend(status *v1alpha1.GeoRegisterClusterStatus, generation int64, c metav1.Condition) {
	set(status, generation, c)
	Conclude(status, generation)
}

// Waits has a status say what the operator waits for, for a reason that showed when a plan was carried out.
func Waits(status *v1alpha1.GeoRegisterClusterStatus, generation int64, reason, text string) {
	Amend(status, generation,
		message.Condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, "%s", text))
}

// Unseen has a status say that the operator can't see how the cluster is. The rest of it is of before.
func Unseen(status *v1alpha1.GeoRegisterClusterStatus, generation int64, text string) {
	text = "The operator can't see how the cluster is, and tries again: " + text
	set(status, generation, message.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, OperatorFailed, "%s",
		text))
	set(status, generation, message.Condition(v1alpha1.ConditionReady, metav1.ConditionUnknown, OperatorFailed, "%s",
		text))
	status.State = v1alpha1.StateUnknown
}

// OperatorFailed is the reason of conditions and events that say what the operator could not do.
const OperatorFailed = "OperatorFailed"

// set sets a condition, without a time: whoever writes the status gives it one. Long messages are cut.
func set(status *v1alpha1.GeoRegisterClusterStatus, generation int64, c metav1.Condition) {
	c.ObservedGeneration, c.Message = generation, message.Bounded(c.Message)
	if before := meta.FindStatusCondition(status.Conditions, c.Type); before != nil {
		*before = c
		return
	}
	status.Conditions = append(status.Conditions, c)
}

// NetworkTaken has a status say that objects of others stand in the way of the emulated network, and returns the event
// that does, if the status of before did not.
func NetworkTaken(
	cluster *v1alpha1.GeoRegisterCluster, status *v1alpha1.GeoRegisterClusterStatus, taken []world.Taken,
) (events []message.Event) {
	var all []string
	for _, t := range taken {
		all = append(all, message.LeftAlone(cluster, t))
	}
	was := meta.FindStatusCondition(cluster.Status.Conditions, v1alpha1.ConditionWANInjected)
	if was == nil || was.Reason != message.NameTaken {
		events = append(events, message.Warning(message.NameTaken, "Block", message.List(all)))
	}
	if !isTrue(status.Conditions, v1alpha1.ConditionStalled) {
		set(status, cluster.Generation, message.Condition(v1alpha1.ConditionStalled, metav1.ConditionTrue,
			message.NameTaken, "%s", message.List(all)))
	}
	Amend(status, cluster.Generation, message.Condition(v1alpha1.ConditionWANInjected, metav1.ConditionFalse,
		message.NameTaken, "%s", message.List(all)))
	return events
}
