package decide

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// recoverLostQuorum goes on with what one member holds, where spec.recovery consents to it. First that is recorded,
// then all other members are stopped, and only then is the trusted one told: until it is told it serves nobody alone.
func recoverLostQuorum(s *situation) *outcome {
	if s.recovered() && !s.settled() {
		return s.stopOthers()
	}
	asked := s.Cluster.Spec.Recovery
	if asked == nil || s.refusal() != nil {
		return nil
	}
	if s.partitioned() {
		return s.recoverPartitions()
	}
	next, err := membership.Recover(s.view, view.MemberID(asked.TrustMember))
	if err != nil {
		return waitFor("CannotRecover", "%s", sentence(err.Error()))
	}
	reason := fmt.Sprintf("Recovered from the lost quorum of view %d: view %d has member %d alone. %s", s.view.Epoch, next.Epoch,
		asked.TrustMember, s.mayBeLost(ids(s.others(view.MemberID(asked.TrustMember)))))
	return act(s.record(next, "Recovering", reason), Warning("QuorumRecovered", "ChangeView", reason))
}

// mayBeLost says what a recovery may cost.
func (s *situation) mayBeLost(givenUp []view.MemberID) string {
	var all []string
	for _, id := range givenUp {
		all = append(all, fmt.Sprint(id))
	}
	return fmt.Sprintf("Given up are members %s: what they acknowledged and the trusted member had not heard of is lost, and reads may "+
		"go back to older values", strings.Join(all, ", ")) + s.fragmentsLost(". ")
}

// fragmentsLost says, after a separator, what becomes of large values when one member alone goes on, if they are
// stored as fragments and one fragment does not restore a value; else it is empty.
func (s *situation) fragmentsLost(separator string) string {
	e := s.Cluster.Spec.ErasureCoding()
	if e == nil || e.DataFragments == 1 {
		return ""
	}
	return separator + sentence(e.LostWithOne())
}

// recovered reports whether the view is one that a recovery made. No other has one member, where shards have no
// masters.
func (s *situation) recovered() bool {
	return membership.Recovered(s.view) || s.view.Size() == 1 && s.view.Epoch > 1 && s.view.Since == s.view.Epoch
}

// stopOthers removes the members that a recovery gave up, and waits until their pods have ended: a member that lives on
// somewhere could form a quorum of the former view again.
func (s *situation) stopOthers() *outcome {
	if o := s.discardMember(); o != nil {
		return o
	}
	var living []string
	for _, m := range s.leftover() {
		if m.Pod != nil {
			living = append(living, m.Pod.Name)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return waitFor("StoppingMembers", "The recovery goes on once the pods of the members that were given up have ended; where their nodes are "+
		"gone for good, delete the pods by force: %s", list(living))
}

const mayComeBack = "a majority may come back with its disks; of members that never will, delete the claims and the pods, by force where their " +
	"nodes are gone for good"

// refusal says why spec.recovery does nothing, or is nil if it is to be carried out now. It is asked for.
func (s *situation) refusal() *cause {
	asked := s.Cluster.Spec.Recovery
	no := func(reason, format string, args ...any) *cause {
		return &cause{reason, "spec.recovery does nothing: " + fmt.Sprintf(format, args...)}
	}
	id := view.MemberID(asked.TrustMember)
	r := s.report(id)
	switch i := s.view.Index(id); {
	case s.doubt != nil:
		return no("ViewUnknown", "which view is in force is not known")
	case uint64(asked.Epoch) < s.view.Epoch:
		return no("RecoveryIsPast", "it is for view %d, and view %d is in force", asked.Epoch, s.view.Epoch)
	case uint64(asked.Epoch) > s.view.Epoch:
		return no("RecoveryOfNoView", "it is for view %d, and view %d is in force; epoch must be that of status.view", asked.Epoch, s.view.Epoch)
	case s.votesWithQuorum():
		return no("QuorumThere", "a quorum votes")
	case s.Cluster.Spec.Partitioned():
		if c := s.refusalOfPartitions(no); c != nil {
			return c
		}
		if s.Cluster.Spec.Paused {
			return no("Paused", "spec.paused is set; remove it")
		}
	case i < 0:
		return no("TrustsNobody", "member %d is not in view %d", id, s.view.Epoch)
	case r == nil:
		return no("TrustedMemberSilent", "%s %s", name(s.view.Members[i]), s.silence(s.view.Members[i]))
	case r.Quorum:
		return no("QuorumThere", "member %d says that it reaches a quorum", id)
	case !s.quorumGone():
		// A consent that was left behind must not turn a moment without a quorum into a loss.
		return no("QuorumMayComeBack", mayComeBack)
	case r.Role != world.Voter || s.view.Members[i].Joining && !r.Change.Fetched:
		return no("TrustedMemberLacksState", "%s holds no state that it could vote with: it %s", name(s.view.Members[i]), doing(r, s.view))
	case s.Cluster.Spec.Paused:
		return no("Paused", "spec.paused is set; remove it")
	}
	return nil
}

// votesWithQuorum reports whether the voters that say so are a quorum.
func (s *situation) votesWithQuorum() bool {
	return s.view.Quorum(func(id view.MemberID) bool { return s.serves(id) && s.report(id).Quorum })
}

// blockWithoutQuorum ends the rules where no quorum can come back: no member can be replaced without one.
func blockWithoutQuorum(s *situation) *outcome {
	if !s.quorumGone() {
		return nil
	}
	return waitFor("QuorumLost", "%s", s.goneForGood())
}

// goneForGood names the members that are lost, those that are left, and the way on.
func (s *situation) goneForGood() string {
	var lost, left []string
	var trusted []view.Member
	for _, m := range s.view.Members {
		r := s.report(m.ID)
		switch why := s.lost(m); {
		case s.remains(m):
			left = append(left, fmt.Sprintf("%s %s", name(m), s.silence(m)))
			if r != nil && r.Role == world.Voter && !m.Joining {
				trusted = append(trusted, m)
			}
		case why != "":
			lost = append(lost, fmt.Sprintf("%s %s", name(m), why))
		default:
			lost = append(lost, fmt.Sprintf("%s lost what it held: its disk is a new one", name(m)))
		}
	}
	text := fmt.Sprintf("Nothing can be read or written, and no majority can come back: %s.", list(lost))
	if len(left) > 0 {
		text += fmt.Sprintf(" Left: %s.", list(left))
	}
	text += " Bring the lost volumes back if they exist."
	if s.partitioned() {
		text += s.wayOn()
	} else if len(trusted) > 0 {
		text += fmt.Sprintf(" If they do not, set spec.recovery to {trustMember: %d, epoch: %d} to go on with what that member holds and give up "+
			"what only others acknowledged", trusted[0].ID, s.view.Epoch)
		if len(trusted) > 1 {
			text += "; any other that is left may be trusted instead, best one that was reachable until the end"
		}
		text += "." + s.fragmentsLost(" ")
	}
	if s.Cluster.Spec.Recovery != nil {
		if c := s.refusal(); c != nil {
			text += " " + c.message + "."
		}
	}
	return text
}

// quorumIsLost is the condition QuorumLost.
func (s *situation) quorumIsLost() metav1.Condition {
	say := func(status metav1.ConditionStatus, reason, message string) metav1.Condition {
		return condition(v1alpha1.ConditionQuorumLost, status, reason, "%s", message)
	}
	switch {
	case s.doubt != nil:
		return say(metav1.ConditionUnknown, s.doubt.reason, s.doubt.message)
	case s.quorumGone():
		return say(metav1.ConditionTrue, "MembersLost", s.goneForGood())
	case s.Cluster.Spec.Recovery != nil:
		if c := s.refusal(); c != nil {
			return say(metav1.ConditionFalse, c.reason, c.message)
		}
	}
	return say(metav1.ConditionFalse, "QuorumThere", "A majority has its disks")
}

// projectRecovery remembers the last recovery. The status alone does, so it is made again from what is left if that was
// lost.
func (s *situation) projectRecovery(out *v1alpha1.GeoRegisterClusterStatus, o *outcome) {
	last, asked := s.Cluster.Status.Recovered, s.Cluster.Spec.Recovery
	if last != nil && (s.doubt != nil || uint64(last.Epoch) < s.view.Epoch) {
		out.Recovered = last.DeepCopy()
	}
	var givenUp []view.MemberID
	next, costs := s.view, ""
	if s.partitioned() {
		costs = "What the members and witnesses that were given up alone had acknowledged may be lost"
	}
	if o != nil {
		if step, ok := o.step.(ChangeView); ok && step.Kind == "Recovering" {
			givenUp, next = s.without(step.View), step.View
			if d, err := s.rescue(s.emptyShards()); err == nil && s.partitioned() {
				costs = s.rescueCosts(d)
			}
		}
	}
	if s.doubt == nil && s.recovered() && asked != nil && uint64(asked.Epoch)+1 == s.view.Epoch {
		givenUp = s.leftRunning()
	}
	if len(givenUp) == 0 || out.Recovered != nil && out.Recovered.Epoch == asked.Epoch {
		return
	}
	slices.Sort(givenUp)
	out.Recovered = &v1alpha1.RecoveredStatus{
		Epoch: asked.Epoch, TrustedMember: asked.TrustMember, GivenUp: numbers(givenUp),
		Time: metav1.NewTime(s.Now).Rfc3339Copy(), Message: cmp.Or(costs, s.mayBeLost(givenUp)),
	}
	for i, p := range next.Partitions {
		if p.Empty {
			out.Recovered.EmptyShards = append(out.Recovered.EmptyShards, int32(i))
		}
	}
}
