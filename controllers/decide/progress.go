package decide

import (
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/georegister/georegister/api/v1alpha1"
	"github.com/georegister/georegister/replica/view"
)

// percentStep is what progress is rounded to: a status is not written for every byte.
const percentStep = 5

// progress is how far the members after a change are, by their own word.
type progress struct {
	settled, fetched int
	settle, fetch    int // how many have to
	bytes, remaining int64
	percent          int32 // of the state that is to be fetched, rounded down; -1 if that is not known
}

// done sums up what the members of a joint view said.
func (s *situation) done() progress {
	p := progress{percent: -1}
	var same int64
	unknown := false // of somebody, how much there is to fetch
	for _, m := range s.view.After().Members {
		transfers := s.view.Transfers(m.ID)
		p.settle++
		if transfers {
			p.fetch++
		}
		r := s.report(m.ID)
		if r == nil || !s.holds(m.ID) {
			continue
		}
		if r.Change.Settled {
			p.settled++
		}
		if !transfers {
			continue
		}
		if r.Change.Fetched {
			p.fetched++
		}
		unknown = unknown || !r.Change.Fetched && r.Change.Bytes+r.Change.SameBytes+r.Change.Remaining == 0
		p.bytes += r.Change.Bytes
		p.remaining += r.Change.Remaining
		same += r.Change.SameBytes
	}
	switch all := p.bytes + same + p.remaining; {
	case p.fetch > 0 && p.fetched == p.fetch:
		p.percent = 100
	case all > 0 && !unknown:
		p.percent = min(int32(float64(p.bytes+same)/float64(all)*100/percentStep)*percentStep, 100-percentStep)
	}
	return p
}

func (p progress) text() string {
	text := fmt.Sprintf("%d of %d have ended what was under way before, %d of %d hold the state", p.settled, p.settle, p.fetched, p.fetch)
	if p.percent >= 0 {
		text += fmt.Sprintf(", %d%% of it is fetched", p.percent)
	}
	return text
}

// projectChange says what change of the members is under way. The time when it began is remembered by the status alone.
func (s *situation) projectChange(out *v1alpha1.GeoRegisterClusterStatus, o *outcome) {
	change := s.change(o)
	if change == nil {
		return
	}
	if o != nil && o.wait != nil {
		change.Message = o.wait.message
	} else if o != nil {
		_, change.Message = describe(o.step)
	}
	change.Since = metav1.NewTime(s.Now).Rfc3339Copy()
	if last := s.Cluster.Status.Change; last != nil && (last.Epoch == change.Epoch || last.Epoch == 0 && last.Step == v1alpha1.StartingMembers) {
		change.Since = last.Since
		if last.Percent != nil && change.Percent != nil && *last.Percent == *change.Percent {
			change.Bytes, change.RemainingBytes = last.Bytes, last.RemainingBytes
		}
	}
	out.Change = change
}

func (s *situation) change(o *outcome) *v1alpha1.ChangeStatus {
	switch {
	case s.doubt != nil:
		return nil
	case s.view.Joint():
		return s.jointChange()
	case s.view.Epoch > 1 && s.leaves():
		return s.endingChange()
	case s.begins(o):
		return &v1alpha1.ChangeStatus{Step: v1alpha1.StartingMembers, Joining: numbers(ids(s.asked.join)), Leaving: numbers(ids(s.asked.leave))}
	}
	return nil
}

// begins reports whether newcomers of a change are there, or about to be.
func (s *situation) begins(o *outcome) bool {
	if s.asked.none() || s.Cluster.Spec.Paused {
		return false
	}
	began := slices.ContainsFunc(s.asked.join, func(m view.Member) bool { return s.Member(m.ID) != nil })
	return began || o != nil && o.wait != nil && o.wait.reason == "StartingMembers"
}

func (s *situation) jointChange() *v1alpha1.ChangeStatus {
	change := &v1alpha1.ChangeStatus{Epoch: int64(s.view.Epoch), Step: v1alpha1.CatchingUp}
	for _, m := range s.view.Members {
		if m.Joining {
			change.Joining = append(change.Joining, int32(m.ID))
		}
		if m.Leaving {
			change.Leaving = append(change.Leaving, int32(m.ID))
		}
	}
	if s.partitioned() { // shards are handed over one by one, which the status of partitions shows
		return change
	}
	p := s.done()
	change.Settled = fmt.Sprintf("%d/%d", p.settled, p.settle)
	change.Fetched = fmt.Sprintf("%d/%d", p.fetched, p.fetch)
	if p.percent >= 0 {
		change.Percent = &p.percent
		change.Bytes, change.RemainingBytes = p.bytes, p.remaining
	}
	return change
}

// leaves reports whether somebody is to be told of the end of a change, or was left out and is not removed yet.
func (s *situation) leaves() bool {
	return len(s.leftRunning()) > 0 || slices.ContainsFunc(s.view.Members, func(m view.Member) bool {
		r := s.report(m.ID)
		return r != nil && r.View.Epoch > 0 && r.View.Epoch < s.view.Epoch
	})
}

// leftRunning are members whom the view left out, and who are not removed yet.
func (s *situation) leftRunning() (all []view.MemberID) {
	for _, m := range s.leftover() {
		if m.ID <= s.view.LastIssued() && (m.Pod != nil || m.StatefulSet != nil) {
			all = append(all, m.ID)
		}
	}
	return all
}

// endingChange is the end of a change. Which members it was about is remembered by the status alone.
func (s *situation) endingChange() *v1alpha1.ChangeStatus {
	change := &v1alpha1.ChangeStatus{Epoch: int64(s.view.Epoch) - 1, Step: v1alpha1.Abandoning}
	if s.view.Since == s.view.Epoch {
		change.Step = v1alpha1.RemovingMembers
	}
	if last := s.Cluster.Status.Change; last != nil && last.Epoch == change.Epoch {
		change.Joining, change.Leaving = slices.Clone(last.Joining), slices.Clone(last.Leaving)
	} else if change.Step == v1alpha1.RemovingMembers {
		change.Leaving = numbers(s.leftRunning())
	} else {
		change.Joining = numbers(s.leftRunning())
	}
	return change
}

func numbers(ids []view.MemberID) (all []int32) {
	for _, id := range ids {
		all = append(all, int32(id))
	}
	return all
}
