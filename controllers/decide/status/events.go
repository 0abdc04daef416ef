package status

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/message"
)

// Events tell what the status has not told before: disks that were damaged, and a foreign object in the record's place.
func (s *Projection) Events() []message.Event {
	events := s.damageEvents()
	was := meta.FindStatusCondition(s.Cluster.Status.Conditions, v1alpha1.ConditionViewKnown)
	if s.Record.Taken != "" && (was == nil || was.Reason != message.NameTaken) {
		events = append(events, message.Warning(message.NameTaken, "Block", message.Taken(s.Cluster, s.TakenRecord())))
	}
	return events
}

// damageEvents tell of each damaged disk once: also of one that was joined again between two looks.
func (s *Projection) damageEvents() (events []message.Event) {
	for _, m := range s.View.Members {
		r := s.Report(m.ID)
		if r == nil || r.Loss == nil {
			continue
		}
		i := slices.IndexFunc(s.Cluster.Status.Members,
			func(o v1alpha1.MemberStatus) bool { return o.ID == int64(m.ID) })
		before := v1alpha1.MemberStatus{}
		if i >= 0 {
			before = s.Cluster.Status.Members[i]
		}
		told := strings.Contains(before.State, facts.FoundDamaged)
		if r.Loss.Over { // else its incarnation is not known yet
			told = told || before.Incarnation == 0 || before.Incarnation >= int64(r.Incarnation)
		}
		if !told {
			events = append(events, message.Warning("DiskDamaged", "JoinAgain",
				message.Sentence(message.Member(m))+" "+facts.Damage(r.Loss)))
		}
	}
	return events
}

// Rests reports whether nothing is wrong or under way, by the status, or people alone can help.
func (s *Projection) Rests(status v1alpha1.GeoRegisterClusterStatus) bool {
	return s.outcome == nil && !isTrue(status.Conditions, v1alpha1.ConditionProgressing) &&
		!isTrue(status.Conditions, v1alpha1.ConditionDegraded) || s.blocked()
}

// blocked reports whether people alone can help: nothing is wrong but names that are taken.
func (s *Projection) blocked() bool {
	of := func(reason string) bool { return reason == message.NameTaken || reason == message.ObjectUnusable }
	if len(s.Stored) > 0 {
		return true
	}
	if len(s.Taken) == 0 && s.Record.Taken == "" ||
		s.outcome != nil && (s.outcome.Wait == nil || !of(s.outcome.Wait.Reason)) {
		return false
	}
	return !slices.ContainsFunc(s.problems(s.MembersToKeep()), func(c message.Cause) bool { return !of(c.Reason) })
}
