package rules

import (
	"fmt"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/recovery"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// recoverLostQuorum goes on with what one member holds, where spec.recovery consents to it. First that is recorded,
// then all other members are stopped, and only then is the trusted one told: until it is told it serves nobody alone.
func recoverLostQuorum(s *views.Views) *Outcome {
	if s.Recovered() && !s.Committed() {
		return stopOthers(s)
	}
	asked := s.Cluster.Spec.Recovery
	if asked == nil || recovery.Refusal(s) != nil {
		return nil
	}
	if s.Partitioned() {
		return recoverPartitions(s)
	}
	next, err := membership.Recover(s.View, view.MemberID(asked.TrustMember))
	if err != nil {
		return waitFor("CannotRecover", "%s", message.Sentence(err.Error()))
	}
	reason := fmt.Sprintf("Recovered from the lost quorum of view %d: view %d has member %d alone. %s", s.View.Epoch, next.Epoch,
		asked.TrustMember, recovery.MayBeLost(s, facts.IDs(s.Others(view.MemberID(asked.TrustMember)))))
	return act(changeView(s, next, "Recovering", reason), message.Warning("QuorumRecovered", "ChangeView", reason))
}

// stopOthers removes the members that a recovery gave up, and waits until their pods have ended: a member that lives on
// somewhere could form a quorum of the former view again.
func stopOthers(s *views.Views) *Outcome {
	if o := discardLeftover(s); o != nil {
		return o
	}
	var living []string
	for _, m := range s.Leftover() {
		if m.Pod != nil {
			living = append(living, m.Pod.Name)
		}
	}
	if len(living) == 0 {
		return nil
	}
	return waitFor("StoppingMembers", "The recovery goes on once the pods of the members that were given up have ended; where their nodes are "+
		"gone for good, delete the pods by force: %s", message.List(living))
}

// recoverPartitions goes on with all who are left, where spec.recovery consents to it.
func recoverPartitions(s *views.Views) *Outcome {
	d, err := recovery.Rescue(s, recovery.EmptyShards(s))
	if err != nil {
		return waitFor("CannotRecover", "%s", message.Sentence(err.Error()))
	}
	reason := fmt.Sprintf("Recovered from the lost quorum of view %d: view %d has members %s. %s", s.View.Epoch, d.View.Epoch,
		message.Numbers(facts.IDs(d.View.Members)), recovery.RescueCosts(s, d))
	return act(changeView(s, d.View, "Recovering", reason), message.Warning("QuorumRecovered", "ChangeView", reason))
}

// blockWithoutQuorum ends the rules where no quorum can come back: no member can be replaced without one.
func blockWithoutQuorum(s *views.Views) *Outcome {
	if !s.QuorumGone() {
		return nil
	}
	return waitFor("QuorumLost", "%s", recovery.GoneForGood(s))
}
