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
	next, costs, err := recovered(s)
	if err != nil {
		return waitFor("CannotRecover", "%s", message.Sentence(err.Error()))
	}
	reason := fmt.Sprintf("Recovered from the lost quorum of view %d: view %d has %s", s.View.Epoch, next.Epoch, costs)
	return act(writeRecord(s, next, "Recovering", "%s", reason), message.Warning("QuorumRecovered", "ChangeView", reason))
}

// recovered is the view that goes on with the member that is trusted or, where shards have masters, with all who are
// left; and who is in it, and what that costs.
func recovered(s *views.Views) (next view.View, costs string, err error) {
	if s.Partitioned() {
		d, err := recovery.Rescue(s, recovery.EmptyShards(s))
		members := message.Numbers(facts.IDs(d.View.Members))
		return d.View, fmt.Sprintf("members %s. %s", members, recovery.RescueCosts(s, d)), err
	}
	trusted := view.MemberID(s.Cluster.Spec.Recovery.TrustMember)
	next, err = membership.Recover(s.View, trusted)
	return next, fmt.Sprintf("member %d alone. %s", trusted, recovery.MayBeLost(s, facts.IDs(s.Others(trusted)))), err
}

// stopOthers removes the members that a recovery gave up, and waits until their pods have ended: a member that lives on
// somewhere could form a quorum of the former view again.
func stopOthers(s *views.Views) *Outcome {
	if o := discardMember(s); o != nil {
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
	return waitFor("StoppingMembers", "The recovery goes on once the pods of the members that were given up have "+
		"ended; where their nodes are "+
		"gone for good, delete the pods by force: %s", message.List(living))
}

// blockWithoutQuorum ends the rules where no quorum can come back: no member can be replaced without one.
func blockWithoutQuorum(s *views.Views) *Outcome {
	if !s.QuorumGone() {
		return nil
	}
	return waitFor("QuorumLost", "%s", recovery.GoneForGood(s))
}
