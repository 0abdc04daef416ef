package rules

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
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

// predicate is something that must hold before a member is taken out. Its name, the reason of the condition
// where it does not hold, says what is in the way; violated says the same in words, or is empty.
type predicate struct {
	name     string
	violated func(*views.Views, view.Member) string
}

// The predicates ask what members said just now, never what was decided before.
var (
	everyoneElseVotes = predicate{"AnotherMemberDoesNotVote", func(s *views.Views, m view.Member) string {
		for _, o := range s.Others(m.ID) {
			if !s.Votes(o.ID) {
				return fmt.Sprintf("%s %s", message.Member(o), s.Silence(o))
			}
		}
		return ""
	}}
	nobodyElseLeaves = predicate{"AnotherMemberRestarts", func(s *views.Views, m view.Member) string {
		for _, o := range s.Others(m.ID) {
			if pod := s.Pod(o.ID); pod == nil || pod.DeletionTimestamp != nil {
				return fmt.Sprintf("%s has no pod that stays", message.Member(o))
			}
		}
		return ""
	}}
	everyoneElseIsReady = predicate{"AnotherMemberIsNotReady", func(s *views.Views, m view.Member) string {
		for _, o := range s.Others(m.ID) {
			if !facts.PodReady(s.Pod(o.ID)) {
				return fmt.Sprintf("the pod of %s is not ready", message.Member(o))
			}
		}
		return ""
	}}
	everyoneElseHasQuorum = predicate{"AnotherMemberHasNoQuorum", func(s *views.Views, m view.Member) string {
		for _, o := range s.Others(m.ID) {
			if r := s.Report(o.ID); r == nil || !r.Quorum {
				return fmt.Sprintf("%s reaches no majority", message.Member(o))
			}
		}
		return ""
	}}
	majorityRemains = predicate{"NoMajorityWithoutIt", func(s *views.Views, m view.Member) string {
		left := facts.IDs(facts.Where(s.Others(m.ID), func(o view.Member) bool { return s.Votes(o.ID) }))
		if !s.View.Quorum(func(id view.MemberID) bool { return slices.Contains(left, id) }) {
			return fmt.Sprintf("without it %d members vote, and a majority is %d", len(left), s.View.Majority())
		}
		return ""
	}}
	// A member may have its quorum only through the one that goes.
	majorityInReachWithoutIt = predicate{"NoQuorumWithoutIt", func(s *views.Views, m view.Member) string {
		for _, o := range facts.Where(s.Others(m.ID), func(o view.Member) bool { return s.Votes(o.ID) }) {
			reached := append(reached(s, o.ID, m.ID), o.ID)
			if !s.View.Quorum(func(id view.MemberID) bool { return slices.Contains(reached, id) }) {
				return fmt.Sprintf("without it %s reaches %d members, itself included, and a majority is %d",
					message.Member(o), len(reached), s.View.Majority())
			}
		}
		return ""
	}}
	itsStatefulSetIsUpToDate = predicate{"StatefulSetNotUpdated", func(s *views.Views, m view.Member) string {
		return outdatedSet(s.Of(m.ID).StatefulSet, s.SpecHash())
	}}
)

// outdatedSet says that a StatefulSet does not make pods for a spec yet, or is empty.
func outdatedSet(set *appsv1.StatefulSet, hash string) string {
	if set == nil || facts.HashOf(set.Spec.Template.Annotations) != hash ||
		set.Status.ObservedGeneration < set.Generation {
		return "its StatefulSet would make the former pod again"
	}
	return ""
}

// A master that restarts stops its shards, and a backup that restarts what has to be synced: others take their parts
// first.
var itsPartsAreElsewhere = predicate{"HandingOver", func(s *views.Views, m view.Member) string {
	if !s.Partitioned() {
		return ""
	}
	if roles := s.Roles(m.ID); len(roles) > 0 {
		why := fmt.Sprintf("it hands over what it is master or backup of in partitions %s", message.Numbers(roles))
		if waits := s.Decision().Waits; len(waits) > 0 {
			why += ": " + message.List(waits)
		}
		return why
	}
	for i := range s.View.Partitions {
		if why := s.Lack(i); why != "" {
			return fmt.Sprintf("partition %d is not whole: %s", i, why)
		}
	}
	return ""
}}

// reached are the voters, other than one, that a member reaches.
func reached(s *views.Views, by, except view.MemberID) (ids []view.MemberID) {
	for _, p := range s.Report(by).Peers {
		if p.Reachable && p.ID != except && s.Votes(p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// first returns the first of the predicates that does not hold, or nil.
func first(of []predicate, s *views.Views, m view.Member) *message.Cause {
	for _, p := range of {
		if why := p.violated(s, m); why != "" {
			return &message.Cause{Reason: p.name, Message: why}
		}
	}
	return nil
}
