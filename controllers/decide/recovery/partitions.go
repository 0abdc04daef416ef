package recovery

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
	"github.com/georegister/georegister/controllers/decide/views"
	"github.com/georegister/georegister/controllers/world"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// Where shards have masters, no member has all of them, so nobody is trusted alone: all who are left go on, and each
// shard goes on from one of them. Of a shard whose master and backups are all lost there is only what others have
// followed, or nothing: it goes on only with a consent. What the decision rests on is what they say, so all have to
// have said it.

// left are the members of the view that are not lost.
func left(s *views.Views) []view.Member { return facts.Where(s.View.Members, s.Remains) }

// unheardOf says who is left and has not said what it holds, or is empty.
func unheardOf(s *views.Views) (silent []string) {
	for _, m := range left(s) {
		beside, known := s.View.Witness(membership.WitnessOf(m.ID))
		switch {
		case s.Report(m.ID) == nil || !s.Holds(m.ID):
			silent = append(silent, fmt.Sprintf("%s %s", message.Member(m), s.Silence(m)))
		case known && beside.Beside == m.ID && s.Member(m.ID).Witness == nil:
			silent = append(silent, fmt.Sprintf("the witness beside %s %s", message.Member(m),
				cmp.Or(s.BesideSilence(m), "does not answer")))
		}
	}
	for _, w := range s.DedicatedWitnesses() {
		if seen := s.Dedicated(w.ID); seen.Witness == nil && s.WitnessVolumeLost(seen) == "" {
			silent = append(silent, fmt.Sprintf("%s %s", message.Witness(w), s.WitnessState(w)))
		}
	}
	return silent
}

// Rescue decides how those who are left go on, with the shards that may go on from a copy that nobody waited for, or
// empty.
func Rescue(s *views.Views, unheld []int) (membership.Rescue, error) {
	told := s.MembershipSnapshot()
	told.Placement = s.Placement(s.Cluster.Spec.ShardCount(), s.Cluster.Spec.Faults())
	told.Members = slices.DeleteFunc(slices.Clone(told.Members), func(r membership.MemberReport) bool {
		return !slices.Contains(facts.IDs(left(s)), r.Member)
	})
	return membership.RecoverPartitions(told, unheld)
}

// EmptyShards are the shards that spec.recovery lets go on without what their masters and backups had.
func EmptyShards(s *views.Views) (empty []int) {
	for _, n := range s.Cluster.Spec.Recovery.EmptyShards {
		empty = append(empty, int(n))
	}
	return empty
}

// RescueCosts says what a recovery cost, shard by shard.
func RescueCosts(s *views.Views, d membership.Rescue) string {
	givenUp := fmt.Sprintf("Given up are members %s", message.Numbers(Without(s, d.View)))
	return strings.Join(append([]string{givenUp}, d.Costs("shards")...), "; ")
}

// Without are the members of the view that the next one does not have.
func Without(s *views.Views, next view.View) []view.MemberID {
	return facts.IDs(facts.Where(s.View.Members, func(m view.Member) bool { return next.Index(m.ID) < 0 }))
}

// refusalOfPartitions says why spec.recovery does nothing, of what matters only where shards have masters; or is nil.
func refusalOfPartitions(s *views.Views, no func(reason, format string, args ...any) *message.Cause) *message.Cause {
	for _, m := range left(s) {
		if r := s.Report(m.ID); r != nil && r.Role == world.Voter && r.Quorum {
			return no("QuorumThere", "%s says that it reaches a quorum", message.Member(m))
		}
	}
	if !s.QuorumGone() {
		return no("QuorumMayComeBack", mayComeBack)
	}
	if silent := unheardOf(s); len(silent) > 0 {
		return no("SurvivorsSilent", "what they hold has to be known of all who are left: %s; of those that never "+
			"will come back, delete the claims and the pods",
			message.List(silent))
	}
	d, err := Rescue(s, EmptyShards(s))
	switch {
	case err != nil:
		return no("CannotRecover", "%v", err)
	case len(d.Lost) > 0:
		return no("ShardsLost", "nobody who is left is certain to hold all of shards %s; add them to emptyShards to "+
			"have %s", message.Numbers(d.Lost), d.Consent("shards"))
	}
	return nil
}

// wayOn says what to write to go on with those who are left, and what that costs; or is empty.
func wayOn(s *views.Views) string {
	if len(left(s)) == 0 {
		return ""
	}
	if silent := unheardOf(s); len(silent) > 0 {
		return fmt.Sprintf(" Before the others can go on, what they hold has to be known: %s.", message.List(silent))
	}
	d, err := Rescue(s, nil)
	if err != nil {
		return ""
	}
	write := fmt.Sprintf("epoch: %d", s.View.Epoch)
	cost := ""
	if len(d.Lost) > 0 {
		write += fmt.Sprintf(", emptyShards: [%s]", message.Numbers(d.Lost))
		cost = fmt.Sprintf(". Nobody who is left is certain to hold all of shards %s: that is to have %s",
			message.Numbers(d.Lost), d.Consent("shards"))
	}
	if len(d.Shortened) > 0 {
		cost += fmt.Sprintf("; of shards %s what only lost witnesses had saved may be lost", message.Numbers(d.Shortened))
	}
	return fmt.Sprintf(" If they do not, set spec.recovery to {%s} to go on with what the members that are left "+
		"hold%s.", write, cost)
}
