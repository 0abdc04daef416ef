package members

import (
	"slices"

	"github.com/georegister/georegister/replica/membership"
)

// policy adds to a snapshot what the manager makes of a change: by the operator's policy in some schedules, at random
// in the others.
func (m *Manager) policy(c *change, s *membership.Snapshot) {
	if m.operatorPolicy {
		m.judge(c, s)
		return
	}
	const waits = 40 // rounds, for those that are not done
	s.Abandon = !m.Settled && c.patience > 0 && c.rounds > c.patience || m.Settled && m.Now > m.Calm+60*m.Environment.Retry
	if c.hasty || c.rounds > waits {
		s.Absent = s.View.IDs()
	}
}

// judge is the operator's policy (controllers/decide), by what members said: a member that is gone for good, or a
// newcomer that lost the disk it joined with, will not do its part; others that have lost their disks will not vote
// again by themselves. Nobody else is given up. When its patience ends the administrator asks for the members before
// the change again.
func (m *Manager) judge(c *change, s *membership.Snapshot) {
	s.Unwanted = c.patience > 0 && c.rounds > c.patience
	for _, member := range s.View.Members {
		disk := m.answers[member.ID-1].Member.Disk
		switch other := disk != "" && disk != member.Disk; {
		case m.Nodes[member.ID-1].Gone, member.Joining && other:
			s.Hopeless = append(s.Hopeless, member.ID)
			if m.Nodes[member.ID-1].Gone {
				s.Members = slices.DeleteFunc(s.Members, func(r membership.MemberReport) bool {
					return r.Member == member.ID // what it said is no answer any more
				})
			}
		case other:
			s.Lost = append(s.Lost, member.ID)
		}
	}
}
