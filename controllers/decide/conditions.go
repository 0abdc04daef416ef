package decide

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

func condition(kind string, status metav1.ConditionStatus, reason, format string, args ...any) metav1.Condition {
	return metav1.Condition{Type: kind, Status: status, Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Bounded is a message of which the end is left out if it is long: the apiserver takes no more than 1024 bytes of an
// event.
func Bounded(message string) string {
	const most = 1000
	if len(message) <= most {
		return message
	}
	return strings.ToValidUTF8(message[:most], "") + "..."
}

func isTrue(conditions []metav1.Condition, kind string) bool {
	return meta.IsStatusConditionTrue(conditions, kind)
}

func (s *situation) conditions(o *outcome, members []view.Member) []metav1.Condition {
	serving, there := s.inForce(), members
	if serving != s {
		there = serving.view.Members
	}
	lost := s.quorumIsLost()
	all := []metav1.Condition{
		serving.available(), s.progressing(o, members), serving.degraded(there), serving.quorumHealthy(), lost, s.viewKnown(o),
		serving.toleratesZoneLoss(), s.paused(), serving.stalled(o, there, lost),
	}
	if s.Cluster.Spec.Partitioned() {
		all = append(all, serving.partitionsServing())
	}
	if s.Cluster.Spec.Monitoring.Enabled {
		all = append(all, s.monitoringReady())
	}
	return append(all, s.emulation.conditions()...)
}

// inForce is the situation in the view that members serve clients in: while the recorded one has not taken hold, that
// is an earlier one, if a quorum of it holds it still.
func (s *situation) inForce() *situation {
	if s.doubt != nil || s.settled() {
		return s
	}
	force := s
	for _, m := range s.Members {
		if m.Report == nil || m.Report.View.Epoch >= s.view.Epoch {
			continue
		}
		earlier := *s
		earlier.view, earlier.digest, earlier.asManaged, earlier.decision = m.Report.View, m.Report.Digest, nil, nil
		if earlier.settled() && (force == s || earlier.view.Epoch > force.view.Epoch) {
			force = &earlier
		}
	}
	return force
}

// quorate is how many voters say that a quorum is in their reach.
func (s *situation) quorate() (n int) {
	for _, m := range s.voters() {
		if s.report(m.ID).Quorum {
			n++
		}
	}
	return n
}

// spare is how many more of the voters that reach a quorum may be lost, whoever they are; in a joint view its sides are
// counted apart. Where the manifest promises less than a minority, it is what is left of that: who does not vote
// may be lost already.
func (s *situation) spare() int {
	spare := s.view.Size()
	for _, side := range []view.View{s.view.Before(), s.view.After()} {
		n := 0
		for _, m := range side.Members {
			if s.serves(m.ID) && s.report(m.ID).Quorum {
				n++
			}
		}
		spare = min(spare, n-side.Majority(), n-(side.Size()-s.tolerated(side))-s.witnessesAway())
	}
	return max(spare, 0)
}

// tolerated is how many members of a side may be lost without losing what was acknowledged: any minority, but where
// protocols need more of them than a majority.
func (s *situation) tolerated(side view.View) int {
	spec, most := s.Cluster.Spec, side.Faults()
	switch _, relaxed := view.RelaxedFor(side.Size(), spec.RelaxedFaults()); {
	case spec.Partitioned():
		most = min(most, spec.Faults())
	case spec.ErasureCoding() != nil:
		most = spec.Fragments().Tolerated(side)
	case relaxed:
		most = min(most, spec.RelaxedFaults())
	}
	for _, p := range s.view.Partitions { // one may have fewer than it should
		most = min(most, len(p.Backups), len(p.Witnesses))
	}
	return most
}

// bound says how many members may be missing, where that is fewer than a minority.
func (s *situation) bound() string {
	for _, side := range []view.View{s.view.Before(), s.view.After()} {
		if most := s.tolerated(side); most < side.Faults() {
			return fmt.Sprintf("no more than %d may be missing (spec.faultTolerance)", most)
		}
	}
	return fmt.Sprintf("a majority is %d", s.least())
}

// witnessesAway is how many witnesses with pods of their own do not answer, or are lost with what they saved.
func (s *situation) witnessesAway() (n int) {
	for _, w := range s.alone() {
		if s.witnessLost(w) != "" || s.witnessState(w) != "" {
			n++
		}
	}
	return n
}

func (s *situation) available() metav1.Condition {
	serving := 0
	for _, m := range s.view.Members {
		if s.ready(m) && s.report(m.ID).Quorum {
			serving++
		}
	}
	switch {
	case s.view.Epoch == 0:
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, s.doubt.reason, "%s", s.doubt.message)
	case !s.votesWithQuorum():
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "QuorumLost", "%s", s.quorumLost())
	case serving == 0:
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "NoMemberReady",
			"A majority votes, but no member's pod is ready to take clients")
	case len(s.unserved()) > 0:
		return condition(v1alpha1.ConditionAvailable, metav1.ConditionFalse, "PartitionNotServed",
			"The keys of some shards can't be read or written: %s", list(s.unserved()))
	}
	return condition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, "Serving", "%d of %d members serve clients",
		serving, s.view.Size())
}

// quorumLost says that nothing can be read or written, and who would have to come back.
func (s *situation) quorumLost() string {
	var missing []string
	for _, m := range s.view.Members {
		if r := s.report(m.ID); !s.serves(m.ID) || !r.Quorum {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		}
	}
	if s.view.Joint() {
		return fmt.Sprintf("Nothing can be read or written: %d of %d members vote and reach a quorum, which is %s; missing: %s",
			s.quorate(), s.view.Size(), s.quorum(), list(missing))
	}
	return fmt.Sprintf("Nothing can be read or written: %d of %d members vote and reach a majority, which is %d; missing: %s",
		s.quorate(), s.view.Size(), s.view.Majority(), list(missing))
}

func (s *situation) quorumHealthy() metav1.Condition {
	switch {
	case s.view.Epoch == 0:
		return condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionUnknown, s.doubt.reason, "%s", s.doubt.message)
	case !s.votesWithQuorum():
		return condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionFalse, "QuorumLost", "%s", s.quorumLost())
	case s.quorate() == s.view.Size():
		return condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionTrue, "EveryoneVotes",
			"All %d members vote; %d of them may be lost", s.view.Size(), s.spare())
	}
	var missing []string
	for _, m := range s.view.Members {
		if r := s.report(m.ID); !s.serves(m.ID) || !r.Quorum {
			missing = append(missing, fmt.Sprintf("%s %s", name(m), s.silence(m)))
		}
	}
	return condition(v1alpha1.ConditionQuorumHealthy, metav1.ConditionFalse, "MembersMissing",
		"%d of %d members vote, %s, so %d more may be lost; missing: %s",
		s.quorate(), s.view.Size(), s.bound(), s.spare(), list(missing))
}

func (s *situation) viewKnown(o *outcome) metav1.Condition {
	switch {
	case s.doubt == nil:
		return condition(v1alpha1.ConditionViewKnown, metav1.ConditionTrue, "Recorded", "View %d with %d members is recorded",
			s.view.Epoch, s.view.Size())
	case o != nil && o.wait != nil:
		return condition(v1alpha1.ConditionViewKnown, metav1.ConditionFalse, o.wait.reason, "%s", o.wait.message)
	}
	return condition(v1alpha1.ConditionViewKnown, metav1.ConditionFalse, s.doubt.reason, "%s", s.doubt.message)
}

// progressing names the step that is taken, or exactly what the next one waits for.
func (s *situation) progressing(o *outcome, members []view.Member) metav1.Condition {
	yes := func(reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionProgressing, metav1.ConditionTrue, reason, "%s", message)
	}
	if s.Cluster.Spec.Paused {
		return condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Paused", "Nothing is changed while spec.paused is set")
	}
	if o != nil && o.wait != nil {
		return yes(o.wait.reason, o.wait.message)
	}
	if o != nil {
		return yes(describe(o.step))
	}
	for _, m := range s.view.Members {
		if why := volumeGrowth(s.Member(m.ID)); why != "" {
			return yes("VolumeGrows", sentence(name(m))+" "+why)
		}
	}
	for _, m := range members {
		if !s.serves(m.ID) {
			return yes("WaitingForMember", sentence(name(m))+" "+s.silence(m))
		}
	}
	return condition(v1alpha1.ConditionProgressing, metav1.ConditionFalse, "Settled", "There is nothing to do")
}

// describe says what a step does.
func describe(step Step) (reason, message string) {
	switch step := step.(type) {
	case FoundCluster:
		return "Founding", fmt.Sprintf("Founds the cluster with %d members", step.View.Size())
	case RebuildRecord:
		return "RebuildingRecord", fmt.Sprintf("Rebuilds the record of view %d from what the members hold", step.View.Epoch)
	case KeepRecordMetadata:
		return "KeepingRecord", "Gives the record of the view the labels and the owner that it should have"
	case SendView:
		var ids []string
		for _, id := range step.Members {
			ids = append(ids, fmt.Sprint(id))
		}
		return "TellingView", fmt.Sprintf("Gives view %d to the members that lack it: %s", step.View.Epoch, strings.Join(ids, ", "))
	case Discard:
		if step.Volume != "" {
			return "RemakingVolume", fmt.Sprintf("Makes volume %s again, which nobody has used: it %s", step.Volume, step.Why)
		}
		return "RemovingMember", fmt.Sprintf("Removes what is left of %s, which is not in the view", cmp.Or(step.Who, fmt.Sprintf("member %d", step.Member)))
	case ChangeView:
		return step.Kind, step.Reason
	case DeletePod:
		return "RestartingMember", fmt.Sprintf("Restarts %s: %s", cmp.Or(step.Who, fmt.Sprintf("member %d", step.Member)), step.Reason)
	}
	return "Working", "Takes a step"
}

func (s *situation) degraded(members []view.Member) metav1.Condition {
	problems := s.problems(members)
	if len(problems) == 0 {
		return condition(v1alpha1.ConditionDegraded, metav1.ConditionFalse, "AsAsked", "Nothing is less than asked for")
	}
	var all []string
	for _, p := range problems {
		all = append(all, p.message)
	}
	return condition(v1alpha1.ConditionDegraded, metav1.ConditionTrue, problems[0].reason, "%s", list(all))
}

func (s *situation) paused() metav1.Condition {
	if s.Cluster.Spec.Paused {
		return condition(v1alpha1.ConditionPaused, metav1.ConditionTrue, "Paused",
			"Members serve on, but none is updated, repaired or replaced, until spec.paused is removed")
	}
	return condition(v1alpha1.ConditionPaused, metav1.ConditionFalse, "NotPaused", "The operator keeps the cluster as asked")
}

func (s *situation) monitoringReady() metav1.Condition {
	var missing []string
	if !s.Monitoring.PodMonitor {
		missing = append(missing, "PodMonitor")
	}
	if !s.Monitoring.PrometheusRule {
		missing = append(missing, "PrometheusRule")
	}
	if len(missing) > 0 {
		return condition(v1alpha1.ConditionMonitoringReady, metav1.ConditionFalse, "KindsMissing",
			"The apiserver has no %s; install the Prometheus operator, or set spec.monitoring.enabled to false",
			strings.Join(missing, " and no "))
	}
	return condition(v1alpha1.ConditionMonitoringReady, metav1.ConditionTrue, "Applied",
		"A PodMonitor and a PrometheusRule are kept")
}
