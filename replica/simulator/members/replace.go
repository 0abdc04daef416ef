package members

import (
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// placement is how partitions are to be kept with the members of a view.
func (m *Manager) placement(v view.View) membership.Placement {
	placement := m.Environment.Partitioned.Placement
	placement.Faults = min(placement.Faults, membership.Faults(v, m.Change != nil && m.Change.abandoned))
	return placement
}

// recruit is a node that was never started, or nil.
func (m *Manager) recruit() *cluster.Node {
	if m.spare >= len(m.Nodes) {
		return nil
	}
	nd := m.Nodes[m.spare]
	m.spare++
	return nd
}

// newcomer is a node for a member that joins, or nil. One that comes without a witness has an odd ID, as the operator
// gives them where there are witnesses.
func (m *Manager) newcomer() *cluster.Node {
	if m.unaccompanied && m.spare%2 == 1 {
		m.spare++
	}
	return m.recruit()
}

// accompany starts a witness for each newcomer of a change, unless witnesses come later.
func (m *Manager) accompany(c *change) {
	if m.unaccompanied {
		m.Took("curp.unaccompanied")
		return
	}
	for _, nd := range c.newcomers {
		x := m.recruit()
		beside := nd.Config.Self
		if m.Environment.Partitioned.Placement.Dedicated {
			beside = 0
		}
		m.Employ(x, nd.Site, beside)
		c.witnesses = append(c.witnesses, x)
	}
}

// moveMembers goes on with a change of members, or begins one: what a fault asks for, or the replacement of a member
// that is lost. It reports whether it recorded a view.
func (m *Manager) moveMembers(s *membership.Snapshot) bool {
	v := &m.Made[m.Record]
	c := m.Change
	before := m.Record
	if c != nil && (v.Joint() || c.concluded) {
		m.name(c, s)
	}
	switch {
	case v.Joint():
		late := time.Duration(c.calm)*m.pace.For > 40*m.Environment.Retry
		still := time.Duration(c.still)*m.pace.For > 20*m.Environment.Retry
		if late && still && !c.abandoned && m.unhindered(c) {
			m.Fail("a change of members does not end, and nothing hinders it%s", m.Waiting())
		}
		c.abandoned = c.abandoned || late || !m.Settled && c.patience > 0 && c.rounds > c.patience
		s.Abandon = c.abandoned
	case !v.Held:
	case c == nil:
		m.beginMove(s, v.View)
	case c.concluded && (c.abandoned || len(c.witnesses) == 0 || v.Index(c.newcomers[0].Config.Self) < 0 || len(s.Named) == 0 && m.entered(c)):
		m.end(c)
	case c.concluded:
	case c.joint == 0:
		s.Join, s.Leave = m.founders(c), c.leaving
	}
	return m.Record != before || m.Lost || m.Now < m.away
}

// beginMove begins the next change, if there is one to make.
func (m *Manager) beginMove(s *membership.Snapshot, v view.View) {
	room := (len(m.Nodes) - m.spare) / 2
	for _, member := range v.Members {
		nd := m.Nodes[member.ID-1]
		told := slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool { return r.Member == member.ID && r.Disk != member.Disk })
		if (told || nd.Gone) && room > 0 {
			m.Took("curp.member-lost")
			m.begin(&faults.Injected{Fault: faults.Fault{Kind: faults.Change, Node: nd.Site, Join: 1, Leave: 1, Alive: true}}, v)
			if m.Change != nil && room == 1 {
				m.Change.patience = 0 // there is nobody left to try again with
			}
			return
		}
	}
	if len(m.wanted) > 0 && !m.Settled {
		f := m.wanted[0]
		m.wanted = m.wanted[1:]
		if f.Join <= room {
			m.begin(f, v)
		}
	}
}

// name tells the decisions which witnesses of newcomers wait. Their IDs are in the order of the members', so all come
// at once.
func (m *Manager) name(c *change, s *membership.Snapshot) {
	for _, x := range c.witnesses {
		if r := m.answers[x.Index].Witness; r == nil || r.Disk != x.Disk() {
			s.Named = nil
			return
		}
		s.Named = append(s.Named, x.Witness.Entry())
	}
	if m.entered(c) {
		s.Named = nil
	}
}

// entered reports whether the witnesses of a change are in the view, but for those that came and were lost since.
func (m *Manager) entered(c *change) bool {
	v := &m.Made[m.Record]
	return !slices.ContainsFunc(c.witnesses, func(x *cluster.Node) bool {
		_, known := v.Witness(x.Config.Self)
		return !known && x.Disks == 1
	})
}

// Waiting says what the manager of partitions waits for, if it does.
func (m *Manager) Waiting() string {
	if len(m.waits) == 0 {
		return ""
	}
	return "; its manager: " + strings.Join(m.waits, "; ")
}
