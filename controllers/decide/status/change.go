package status

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/controllers/decide/facts"
	"github.com/georegister/georegister/controllers/decide/recovery"
	"github.com/georegister/georegister/controllers/decide/rules"
	"github.com/georegister/georegister/replica/view"
)

// projectChange says what change of the members is under way. The time when it began is remembered by the status alone.
func (s *Projection) projectChange(out *v1alpha1.GeoRegisterClusterStatus) {
	change := s.change()
	if change == nil {
		return
	}
	if s.outcome != nil {
		change.Message = s.outcome.Says().Message
	}
	change.Since = metav1.NewTime(s.Now).Rfc3339Copy()
	if last := s.Cluster.Status.Change; last != nil && (last.Epoch == change.Epoch ||
		last.Epoch == 0 && last.Step == v1alpha1.StartingMembers) {
		change.Since = last.Since
		if last.Percent != nil && change.Percent != nil && *last.Percent == *change.Percent {
			change.Bytes, change.RemainingBytes = last.Bytes, last.RemainingBytes
		}
	}
	out.Change = change
}

func (s *Projection) change() *v1alpha1.ChangeStatus {
	switch {
	case s.Doubt != nil:
		return nil
	case s.View.Joint():
		return s.jointChange()
	case s.View.Epoch > 1 && s.leaves():
		return s.endingChange()
	case s.begins():
		return &v1alpha1.ChangeStatus{Step: v1alpha1.StartingMembers, Joining: numbers(facts.IDs(s.Asked.Join)),
			Leaving: numbers(facts.IDs(s.Asked.Leave))}
	}
	return nil
}

// begins reports whether newcomers of a change are there, or about to be.
func (s *Projection) begins() bool {
	if s.Asked.None() || s.Cluster.Spec.Paused {
		return false
	}
	began := slices.ContainsFunc(s.Asked.Join, func(m view.Member) bool { return s.Member(m.ID) != nil })
	return began || s.outcome.Waits("StartingMembers")
}

func (s *Projection) jointChange() *v1alpha1.ChangeStatus {
	change := &v1alpha1.ChangeStatus{Epoch: int64(s.View.Epoch), Step: v1alpha1.CatchingUp}
	change.Joining = numbers(facts.IDs(facts.Where(s.View.Members, func(m view.Member) bool { return m.Joining })))
	change.Leaving = numbers(facts.IDs(facts.Where(s.View.Members, func(m view.Member) bool { return m.Leaving })))
	if s.Partitioned() { // shards are handed over one by one, which the status of partitions shows
		return change
	}
	p := s.Progress()
	change.Settled = fmt.Sprintf("%d/%d", p.Settled, p.Settle)
	change.Fetched = fmt.Sprintf("%d/%d", p.Fetched, p.Fetch)
	if p.Percent >= 0 {
		change.Percent = &p.Percent
		change.Bytes, change.RemainingBytes = p.Bytes, p.Remaining
	}
	return change
}

// leaves reports whether somebody is to be told of the end of a change, or was left out and is not removed yet.
func (s *Projection) leaves() bool {
	return len(s.LeftRunning()) > 0 || slices.ContainsFunc(s.View.Members, func(m view.Member) bool {
		r := s.Report(m.ID)
		return r != nil && r.View.Epoch > 0 && r.View.Epoch < s.View.Epoch
	})
}

// endingChange is the end of a change. Which members it was about is remembered by the status alone.
func (s *Projection) endingChange() *v1alpha1.ChangeStatus {
	change := &v1alpha1.ChangeStatus{Epoch: int64(s.View.Epoch) - 1, Step: v1alpha1.Abandoning}
	if s.View.Since == s.View.Epoch {
		change.Step = v1alpha1.RemovingMembers
	}
	if last := s.Cluster.Status.Change; last != nil && last.Epoch == change.Epoch {
		change.Joining, change.Leaving = slices.Clone(last.Joining), slices.Clone(last.Leaving)
	} else if change.Step == v1alpha1.RemovingMembers {
		change.Leaving = numbers(s.LeftRunning())
	} else {
		change.Joining = numbers(s.LeftRunning())
	}
	return change
}

// projectRecovery remembers the last recovery. The status alone does, so it is made again from what is left if that was
// lost.
func (s *Projection) projectRecovery(out *v1alpha1.GeoRegisterClusterStatus) {
	last, asked := s.Cluster.Status.Recovered, s.Cluster.Spec.Recovery
	if last != nil && (s.Doubt != nil || uint64(last.Epoch) < s.View.Epoch) {
		out.Recovered = last.DeepCopy()
	}
	var givenUp []view.MemberID
	next, costs := s.View, ""
	if s.Partitioned() {
		costs = "What the members and witnesses that were given up alone had acknowledged may be lost"
	}
	if s.outcome != nil {
		if step, ok := s.outcome.Step.(rules.WriteRecord); ok && step.Kind == "Recovering" {
			givenUp, next = recovery.Without(s.Views, step.View), step.View
			if d, err := recovery.Rescue(s.Views, recovery.EmptyShards(s.Views)); err == nil && s.Partitioned() {
				costs = recovery.RescueCosts(s.Views, d)
			}
		}
	}
	if s.Doubt == nil && s.Recovered() && asked != nil && uint64(asked.Epoch)+1 == s.View.Epoch {
		givenUp = s.LeftRunning()
	}
	if len(givenUp) == 0 || out.Recovered != nil && out.Recovered.Epoch == asked.Epoch {
		return
	}
	slices.Sort(givenUp)
	out.Recovered = &v1alpha1.RecoveredStatus{
		Epoch: asked.Epoch, TrustedMember: asked.TrustMember, GivenUp: numbers(givenUp),
		Time: metav1.NewTime(s.Now).Rfc3339Copy(), Message: cmp.Or(costs, recovery.MayBeLost(s.Views, givenUp)),
	}
	for i, p := range next.Partitions {
		if p.Empty {
			out.Recovered.EmptyShards = append(out.Recovered.EmptyShards, int32(i))
		}
	}
}
