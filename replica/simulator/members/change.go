package members

import (
	"reflect"
	"slices"

	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/faults"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// change is a change of members in progress.
type change struct {
	kind      string
	newcomers []*cluster.Node
	witnesses []*cluster.Node // of the newcomers
	leaving   []view.MemberID
	hasty     bool // it is finished as soon as that is safe, without those that are not done with their part
	patience  int  // in rounds; then it is abandoned. 0: it is not

	rounds    int    // since the joint view was recorded
	calm      int    // of these, after the faults were over
	still     int    // of those, since a view was recorded, or anything was stored
	stored    uint64 // batches of all members until the last of these
	joint     uint64 // its epoch, once it was
	abandoned bool
	concluded bool // the view after it is recorded
}

// step goes on with the change in progress, or begins the next, as the package membership decides.
func (m *Manager) step() {
	v, c := &m.Made[m.Record], m.Change
	if v.Joint() {
		if c == nil { // it was taken for over before the view after it was committed
			m.Fail("the view of epoch %d is joint, and there is no change of members", v.Epoch)
			return
		}
		c.rounds++
		if m.Settled {
			c.calm, c.still = c.calm+1, c.still+1
			// A state may come in pages of one record, each behind a slow disk.
			if m.Batches != c.stored {
				c.stored, c.still = m.Batches, 0
			}
		}
	}
	s := m.snapshot()
	if m.Environment.Partitioned != nil {
		m.stepOfPartitions(s)
		return
	}
	switch {
	case v.Joint():
		m.policy(c, &s)
	case c != nil && !c.concluded:
		s.Join, s.Leave = m.founders(c), c.leaving
	}
	d := m.decide(s)
	switch {
	case d.Err != nil:
	case d.Changed():
		m.Take(c, d)
	case v.Joint() || d.Wait == membership.ForView:
	case c != nil && c.concluded:
		m.end(c)
	case c == nil && len(m.wanted) > 0 && !m.Settled:
		f := m.wanted[0]
		m.wanted = m.wanted[1:]
		m.begin(f, v.View)
	}
}

// decision is what was decided, and from what.
type decision struct {
	record int // the position of the view
	from   membership.Snapshot
	membership.Decision
}

// decide decides on the next view, and judges the decision: once where a round finds all as the one before it did.
func (m *Manager) decide(s membership.Snapshot) membership.Decision {
	from := s
	from.View = view.View{} // its position tells as much
	if m.decided == nil || m.decided.record != m.Record || !reflect.DeepEqual(m.decided.from, from) {
		d := membership.Decide(s)
		m.judgeDecision(s, d)
		m.decided = &decision{m.Record, from, d}
	}
	return m.decided.Decision
}

// judgeDecision holds a decision against the rules of its kind of cluster.
func (m *Manager) judgeDecision(s membership.Snapshot, d membership.Decision) {
	m.Breaches(check.Wanted(s, d))
	if len(s.View.Partitions) == 0 {
		m.Breaches(check.Decision(s, d))
		m.Breaches(check.Supposed(s))
		return
	}
	m.Breaches(d.Err)
	m.Breaches(check.Named(s.View, d))
	m.Breaches(check.Taken(s, d))
	m.Breaches(check.Yields(s, d))
}

// Take records what was decided on a change.
func (m *Manager) Take(c *change, d membership.Decision) {
	switch d.Kind {
	case membership.Begun:
		m.propose(c, d.Next)
		return
	case membership.Finished:
		if len(d.Rest) > 0 {
			m.Took("change.hurried")
		}
	case membership.Abandoned:
		c.abandoned = true
	}
	c.concluded = true
	m.write(d.Next)
}

// begin starts the newcomers of a change, and perhaps gives up those who leave.
func (m *Manager) begin(f *faults.Injected, v view.View) {
	join, leave := f.Join, f.Leave
	for v.Size()+join-leave < 1 {
		leave -= 2
	}
	for v.Size()+join-leave > max(largest, v.Size()) {
		join -= 2
	}
	if more := leave - v.Size(); more > 0 {
		join, leave = join-more, leave-more
	}
	if join < 0 || leave < 0 || join+leave == 0 {
		return
	}
	if m.Environment.Partitioned == nil {
		m.pace = f.Fault
	}
	f.Hit = m.Busy > 0
	c := &change{kind: kindOf(v.Size(), join, leave), hasty: m.Mishap(m.Draw, 400)}
	if m.Mishap(m.Draw, 150) {
		c.patience = 1 + m.Draw.Below(12)
	}
	leaving := m.leavers(f, v)[:leave]
	m.Diagram.Remark("a change begins: %d join, %d leave", join, leave)
	for _, nd := range leaving {
		c.leaving = append(c.leaving, nd.Config.Self)
		switch {
		case nd.Gone:
		case f.Alive || !m.Tolerates(nd) || m.Environment.Partitioned != nil && (v.Size()+join-leave < 3 || !m.Expendable(nd)): // a lone member's loss is for good
			m.Took("change.alive")
		default:
			m.Took("change.dead")
			nd.GiveUp()
		}
	}
	for i := range join {
		nd := m.newcomer()
		if i < len(leaving) {
			m.Place(nd, leaving[i].Site)
		} else {
			m.Place(nd, m.Draw.Below(len(m.FirstAsked)))
		}
		c.newcomers = append(c.newcomers, nd)
		nd.Born = true
		nd.Boot()
	}
	m.Change = c
	if m.Environment.Partitioned != nil {
		m.accompany(c)
	}
}

// leavers orders the members by who leaves first: those that are gone, or have lost the disk that the view names, then
// those at the fault's site.
func (m *Manager) leavers(f *faults.Injected, v view.View) []*cluster.Node {
	var order []*cluster.Node
	for _, member := range v.Members {
		at := m.Draw.Below(len(order) + 1)
		order = slices.Insert(order, at, m.Nodes[member.ID-1])
	}
	rank := func(nd *cluster.Node) int {
		switch {
		case nd.Gone, nd.Disk() != v.Members[v.Index(nd.Config.Self)].Disk && m.Environment.Partitioned != nil:
			return 0
		case nd.Site == f.Node:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b *cluster.Node) int { return rank(a) - rank(b) })
	return order
}

// founders are the newcomers of a change, with the disks that they have named.
func (m *Manager) founders(c *change) (all []membership.Founder) {
	for _, nd := range c.newcomers {
		site := m.Environment.Network.Sites[nd.Site]
		all = append(all, membership.Founder{ID: nd.Config.Self, Site: site, Address: site, Disk: m.answers[nd.Index].Member.Disk})
	}
	return all
}

// propose records the joint view, if enough members would be left on either side, and reports whether it did.
func (m *Manager) propose(c *change, joint view.View) bool {
	for _, nd := range c.newcomers {
		nd.Lost = joint.Members[joint.Index(nd.Config.Self)].Disk != nd.Disk()
	}
	if !m.bearable(joint, nil) {
		if m.Environment.Partitioned != nil && len(c.newcomers) == 0 {
			m.Change = nil // who is lost is replaced first, and too few would be left without the others
		}
		return false
	}
	c.joint = joint.Epoch
	for _, nd := range c.newcomers {
		if m.Draw.Chance(300) {
			m.FirstAsked[nd.Site] = nd
		}
	}
	m.write(joint)
	return true
}

// fragments says how the members store large values, as whoever decides on changes has to know.
func (m *Manager) fragments() view.Fragments {
	return view.Fragments{Data: m.Environment.Data, Faults: m.Environment.Losses}
}

// end notes that the view after a change is committed.
func (m *Manager) end(c *change) {
	path := "change." + c.kind
	if c.abandoned {
		path = "change.abandoned"
	}
	m.TookWithFaults(path)
	m.Change, m.unaccompanied = nil, false
	for site, nd := range m.FirstAsked {
		// The other clients still ask who has left.
		if at := m.At(site); !nd.Acts && at != nil && at.Witness == nil && m.Draw.Chance(800) {
			m.FirstAsked[site] = at
		}
	}
}

// resume is where a change stands once the record was rebuilt. If none of those that were asked had heard of its joint
// view, that is proposed again.
func (c *change) resume(record view.View) {
	// It was never committed: the change begins again.
	if record.Epoch < c.joint || record.Epoch == c.joint && !record.Joint() {
		c.joint = 0
	}
	c.concluded = c.joint > 0 && !record.Joint()
	c.abandoned = c.concluded && !c.made(record)
}

// made reports whether a view has the members after the change.
func (c *change) made(v view.View) bool {
	if len(c.newcomers) > 0 {
		return v.Index(c.newcomers[0].Config.Self) >= 0
	}
	return v.Index(c.leaving[0]) < 0
}
