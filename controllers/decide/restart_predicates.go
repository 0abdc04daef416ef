package decide

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/view"
)

// predicate is something that must hold before a member is taken out. Its name, the reason of the condition
// where it does not hold, says what is in the way; violated says the same in words, or is empty.
type predicate struct {
	name     string
	violated func(*situation, view.Member) string
}

// The predicates ask what members said just now, never what was decided before.
var (
	everyoneElseVotes = predicate{"AnotherMemberDoesNotVote", func(s *situation, m view.Member) string {
		for _, o := range s.others(m.ID) {
			if !s.serves(o.ID) {
				return fmt.Sprintf("%s %s", name(o), s.silence(o))
			}
		}
		return ""
	}}
	nobodyElseLeaves = predicate{"AnotherMemberRestarts", func(s *situation, m view.Member) string {
		for _, o := range s.others(m.ID) {
			if pod := s.pod(o.ID); pod == nil || pod.DeletionTimestamp != nil {
				return fmt.Sprintf("%s has no pod that stays", name(o))
			}
		}
		return ""
	}}
	everyoneElseIsReady = predicate{"AnotherMemberIsNotReady", func(s *situation, m view.Member) string {
		for _, o := range s.others(m.ID) {
			if !ready(s.pod(o.ID)) {
				return fmt.Sprintf("the pod of %s is not ready", name(o))
			}
		}
		return ""
	}}
	everyoneElseHasQuorum = predicate{"AnotherMemberHasNoQuorum", func(s *situation, m view.Member) string {
		for _, o := range s.others(m.ID) {
			if r := s.report(o.ID); r == nil || !r.Quorum {
				return fmt.Sprintf("%s reaches no majority", name(o))
			}
		}
		return ""
	}}
	majorityRemains = predicate{"NoMajorityWithoutIt", func(s *situation, m view.Member) string {
		var left []view.MemberID
		for _, o := range s.others(m.ID) {
			if s.serves(o.ID) {
				left = append(left, o.ID)
			}
		}
		if !s.view.Quorum(func(id view.MemberID) bool { return slices.Contains(left, id) }) {
			return fmt.Sprintf("without it %d members vote, and a majority is %d", len(left), s.view.Majority())
		}
		return ""
	}}
	// A member may have its quorum only through the one that goes.
	majorityInReachWithoutIt = predicate{"NoQuorumWithoutIt", func(s *situation, m view.Member) string {
		for _, o := range s.others(m.ID) {
			if !s.serves(o.ID) {
				continue
			}
			reached := append(s.reached(o.ID, m.ID), o.ID)
			if !s.view.Quorum(func(id view.MemberID) bool { return slices.Contains(reached, id) }) {
				return fmt.Sprintf("without it %s reaches %d members, itself included, and a majority is %d",
					name(o), len(reached), s.view.Majority())
			}
		}
		return ""
	}}
	itsStatefulSetIsUpToDate = predicate{"StatefulSetNotUpdated", func(s *situation, m view.Member) string {
		set := s.statefulSet(m.ID)
		if set == nil || hashOf(set.Spec.Template.Annotations) != s.wanted() || set.Status.ObservedGeneration < set.Generation {
			return "its StatefulSet would make the former pod again"
		}
		return ""
	}}
)

// A master that restarts stops its shards, and a backup that restarts what has to be synced: others take their parts
// first.
var itsPartsAreElsewhere = predicate{"HandingOver", func(s *situation, m view.Member) string {
	if !s.partitioned() {
		return ""
	}
	if roles := s.roles(m.ID); len(roles) > 0 {
		why := fmt.Sprintf("it hands over what it is master or backup of in partitions %s", strings.Trim(strings.ReplaceAll(fmt.Sprint(roles), " ", ", "), "[]"))
		if waits := s.keeping().Waits; len(waits) > 0 {
			why += ": " + list(waits)
		}
		return why
	}
	for i := range s.view.Partitions {
		if why := s.lack(i); why != "" {
			return fmt.Sprintf("partition %d is not whole: %s", i, why)
		}
	}
	return ""
}}

// reached are the voters, other than one, that a member reaches.
func (s *situation) reached(by, except view.MemberID) (ids []view.MemberID) {
	for _, p := range s.report(by).Peers {
		if p.Reachable && p.ID != except && s.serves(p.ID) {
			ids = append(ids, p.ID)
		}
	}
	return ids
}

// first returns the first of the predicates that does not hold, or nil.
func first(of []predicate, s *situation, m view.Member) *cause {
	for _, p := range of {
		if why := p.violated(s, m); why != "" {
			return &cause{p.name, why}
		}
	}
	return nil
}
