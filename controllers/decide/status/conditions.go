package status

import (
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/recovery"
	"github.com/georegister/georegister/replica/view"
)

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

func (s *Projection) conditions(members []view.Member) []metav1.Condition {
	serving, there := Of(s.InForce(), s.outcome, s.network), members
	if serving.Views != s.Views {
		there = serving.View.Members
	}
	lost := s.quorumIsLost()
	all := []metav1.Condition{
		serving.available(), s.progressing(members), serving.degraded(there), serving.quorumHealthy(), lost,
		s.viewKnown(), serving.toleratesZoneLoss(), s.paused(), serving.stalled(there, lost),
	}
	if s.Cluster.Spec.Partitioned() {
		all = append(all, serving.partitionsServing())
	}
	if s.Cluster.Spec.Monitoring.Enabled {
		all = append(all, s.monitoringReady())
	}
	return append(all, s.network.Conditions()...)
}

func (s *Projection) available() metav1.Condition {
	switch serving := s.CountQuorate(facts.Where(s.View.Members, s.Ready)); {
	case s.View.Epoch == 0:
		return message.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, s.Doubt.Reason, "%s",
			s.Doubt.Message)
	case !s.HasQuorum():
		return message.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "QuorumLost", "%s", s.quorumLost())
	case serving == 0:
		return message.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "NoMemberReady",
			"A majority votes, but no member's pod is ready to take clients")
	case len(s.unserved()) > 0:
		return message.Condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "PartitionNotServed",
			"The keys of some shards can't be read or written: %s", message.List(s.unserved()))
	default:
		return message.Condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Serving", "%d of %d members "+
			"serve clients",
			serving, s.View.Size())
	}
}

// quorate is how many members of the view vote, and say that a quorum is in their reach.
func (s *Projection) quorate() int { return s.CountQuorate(s.View.Members) }

// unquorate says of each of the others what it does.
func (s *Projection) unquorate() []string {
	return facts.Say(facts.Where(s.View.Members, func(m view.Member) bool { return !s.Quorate(m.ID) }), s.Silence)
}

// quorumLost says that nothing can be read or written, and who would have to come back.
func (s *Projection) quorumLost() string {
	if s.View.Joint() {
		return fmt.Sprintf("Nothing can be read or written: %d of %d members vote and reach a quorum, which is %s; "+
			"missing: %s",
			s.quorate(), s.View.Size(), s.Quorum(), message.List(s.unquorate()))
	}
	return fmt.Sprintf("Nothing can be read or written: %d of %d members vote and reach a majority, which is %d; "+
		"missing: %s",
		s.quorate(), s.View.Size(), s.View.Majority(), message.List(s.unquorate()))
}

func (s *Projection) quorumHealthy() metav1.Condition {
	switch {
	case s.View.Epoch == 0:
		return message.Condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionUnknown, s.Doubt.Reason, "%s",
			s.Doubt.Message)
	case !s.HasQuorum():
		return message.Condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionFalse, "QuorumLost", "%s",
			s.quorumLost())
	case s.quorate() == s.View.Size():
		return message.Condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionTrue, "EveryoneVotes",
			"All %d members vote; %d of them may be lost", s.View.Size(), s.spare())
	}
	return message.Condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionFalse, "MembersMissing",
		"%d of %d members vote, %s, so %d more may be lost; missing: %s",
		s.quorate(), s.View.Size(), s.bound(), s.spare(), message.List(s.unquorate()))
}

func (s *Projection) viewKnown() metav1.Condition {
	switch {
	case s.Doubt == nil:
		return message.Condition(v1alpha1.ConditionViewKnown, metav1.ConditionTrue, "Recorded", "View %d with %d "+
			"members is recorded",
			s.View.Epoch, s.View.Size())
	case s.outcome != nil && s.outcome.Wait != nil:
		return message.Condition(v1alpha1.ConditionViewKnown, metav1.ConditionFalse, s.outcome.Wait.Reason, "%s",
			s.outcome.Wait.Message)
	}
	return message.Condition(v1alpha1.ConditionViewKnown, metav1.ConditionFalse, s.Doubt.Reason, "%s", s.Doubt.Message)
}

// progressing names the step that is taken, or exactly what the next one waits for.
func (s *Projection) progressing(members []view.Member) metav1.Condition {
	yes := func(reason, text string) metav1.Condition {
		return message.Condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, "%s", text)
	}
	if s.Cluster.Spec.Paused {
		return message.Condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Paused", "Nothing is changed "+
			"while spec.paused is set")
	}
	if s.outcome != nil {
		said := s.outcome.Says()
		return yes(said.Reason, said.Message)
	}
	for _, m := range s.View.Members {
		if why := volumeGrowth(s.Of(m.ID)); why != "" {
			return yes("VolumeGrows", message.Sentence(message.Member(m))+" "+why)
		}
	}
	for _, m := range members {
		if !s.Votes(m.ID) {
			return yes("WaitingForMember", message.Sentence(message.Member(m))+" "+s.Silence(m))
		}
	}
	return message.Condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Settled", "There is nothing to do")
}

func (s *Projection) degraded(members []view.Member) metav1.Condition {
	problems := s.problems(members)
	if len(problems) == 0 {
		return message.Condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, "AsAsked", "Nothing is less than "+
			"asked for")
	}
	return message.Condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, problems[0].Reason, "%s",
		message.List(message.Of(problems)))
}

func (s *Projection) paused() metav1.Condition {
	if s.Cluster.Spec.Paused {
		return message.Condition(v1alpha1.ConditionPaused, metav1.ConditionTrue, "Paused",
			"Members serve on, but none is updated, repaired or replaced, until spec.paused is removed")
	}
	return message.Condition(v1alpha1.ConditionPaused, metav1.ConditionFalse, "NotPaused", "The operator keeps the "+
		"cluster as asked")
}

func (s *Projection) monitoringReady() metav1.Condition {
	var missing []string
	if !s.Monitoring.PodMonitor {
		missing = append(missing, "PodMonitor")
	}
	if !s.Monitoring.PrometheusRule {
		missing = append(missing, "PrometheusRule")
	}
	if len(missing) > 0 {
		return message.Condition(v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse, "KindsMissing",
			"The apiserver has no %s; install the Prometheus operator, or set spec.monitoring.enabled to false",
			strings.Join(missing, " and no "))
	}
	return message.Condition(v1alpha1.ConditionMonitoringReady, metav1.ConditionTrue, "Applied",
		"A PodMonitor and a PrometheusRule are kept")
}

// quorumIsLost is the condition QuorumLost.
func (s *Projection) quorumIsLost() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, text string) metav1.Condition {
		return message.Condition(v1alpha1.ConditionQuorumLost, status, reason, "%s", text)
	}
	switch {
	case s.Doubt != nil:
		return say(metav1.ConditionUnknown, s.Doubt.Reason, s.Doubt.Message)
	case s.QuorumGone():
		return say(metav1.ConditionTrue, "MembersLost", recovery.GoneForGood(s.Views))
	case s.Cluster.Spec.Recovery != nil:
		if c := recovery.Refusal(s.Views); c != nil {
			return say(metav1.ConditionFalse, c.Reason, c.Message)
		}
	}
	return say(metav1.ConditionFalse, "QuorumThere", "A majority has its disks")
}
