package simulator

import (
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/view"
)

// change is a change of members in progress.
type change struct {
	kind      string
	newcomers []*node
	witnesses []*node // of the newcomers
	leaving   []view.MemberID
	hasty     bool // it is finished as soon as that is safe, without those that are not done with their part
	patience  int  // in rounds; then it is abandoned. 0: it is not

	rounds    int    // since the joint view was recorded
	joint     uint64 // its epoch, once it was
	abandoned bool
	concluded bool // the view after it is recorded
}

// largest is how many members a change may lead to, where there were not more before.
const largest = 7

// changeKinds are what a change does.
func changeKinds() []string {
	return []string{"grow", "grow-from-one", "shrink", "swap", "swap-several"}
}

func kindOf(size, join, leave int) string {
	switch {
	case join > leave && size == 1:
		return "grow-from-one"
	case join > leave:
		return "grow"
	case join < leave:
		return "shrink"
	case join > 1:
		return "swap-several"
	}
	return "swap"
}

// newcomers is how many members the faults may have join.
func newcomers(faults []faults.Fault) int {
	count := 0
	for _, f := range faults {
		count += f.Join
	}
	return count
}

// step goes on with the change in progress, or begins the next, as the package membership decides.
func (m *manager) step() {
	w, v, c := m.world, &m.views[m.record], m.change
	if v.Joint() {
		if c == nil { // it was taken for over before the view after it was committed
			w.Fail("the view of epoch %d is joint, and there is no change of members", v.Epoch)
			return
		}
		c.rounds++
	}
	s := m.snapshotOfChange(c)
	switch d := membership.Decide(s); {
	case d.Err != nil:
		w.Fail("%w", d.Err)
	case d.Changed():
		m.take(c, d)
	case v.Joint() || d.Wait == membership.ForView:
	case c != nil && c.concluded:
		m.end(c)
	case c == nil && len(m.wanted) > 0 && !w.Settled:
		f := m.wanted[0]
		m.wanted = m.wanted[1:]
		m.begin(f, v.View)
	}
}

// snapshotOfChange is what the manager decides from, in a world without masters.
func (m *manager) snapshotOfChange(c *change) membership.Snapshot {
	v := &m.views[m.record]
	s := membership.Snapshot{View: v.View, Fragments: m.fragments()}
	for _, member := range v.Members {
		if said, told := m.answers[member.ID]; told {
			s.Members = append(s.Members, said)
		}
	}
	switch {
	case v.Joint():
		m.policy(c, &s)
	case c != nil && !c.concluded:
		s.Join, s.Leave = m.founders(c), c.leaving
	}
	m.mislead(&s)
	return s
}

// take records what was decided on a change.
func (m *manager) take(c *change, d membership.Decision) {
	w := m.world
	switch d.Kind {
	case membership.Begun:
		m.propose(c, d.Next)
		return
	case membership.Finished:
		if len(d.Rest) > 0 {
			w.Took("change.hurried")
		}
		if m.wrong.Forgets && !w.Settled {
			position := m.add(d.Next)
			for _, member := range d.Next.Members {
				m.callWith(w.nodes[member.ID-1], position)
			}
			m.take(c, membership.Decide(membership.Snapshot{View: m.views[m.record].View, Abandon: true}))
			return
		}
	case membership.Abandoned:
		c.abandoned = true
	}
	c.concluded = true
	m.write(d.Next)
}

// begin starts the newcomers of a change, and perhaps gives up those who leave.
func (m *manager) begin(f *fault, v view.View) {
	w := m.world
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
	if w.env.Partitioned == nil {
		m.pace = f
	}
	f.hit = w.Busy > 0
	c := &change{kind: kindOf(v.Size(), join, leave), hasty: m.draw.Chance(400)}
	if m.draw.Chance(150) {
		c.patience = 1 + m.draw.Below(12)
	}
	leaving := m.leavers(f, v)[:leave]
	w.trace.Remark("a change begins: %d join, %d leave", join, leave)
	for _, nd := range leaving {
		c.leaving = append(c.leaving, nd.config.Self)
		switch {
		case nd.gone:
		case f.Alive || !w.tolerates(nd) || w.env.Partitioned != nil && (v.Size()+join-leave < 3 || !w.expendable(nd)): // a lone member's loss is for good
			w.Took("change.alive")
		default:
			w.Took("change.dead")
			nd.giveUp()
		}
	}
	if m.wrong.SameID && leave > 0 && leaving[0].gone {
		m.reuse(v, leaving[0])
		return
	}
	for i := range join {
		nd := m.recruit()
		if i < len(leaving) {
			w.place(nd, leaving[i].site)
		} else {
			w.place(nd, m.draw.Below(len(w.serving)))
		}
		c.newcomers = append(c.newcomers, nd)
		nd.born = true
		nd.boot()
	}
	m.change = c
	if w.env.Partitioned != nil {
		m.accompany(c)
	}
}

// leavers orders the members by who leaves first: those that are gone, or have lost the disk that the view names, then
// those at the fault's site.
func (m *manager) leavers(f *fault, v view.View) []*node {
	var order []*node
	for _, member := range v.Members {
		at := m.draw.Below(len(order) + 1)
		order = slices.Insert(order, at, m.world.nodes[member.ID-1])
	}
	rank := func(nd *node) int {
		switch {
		case nd.gone, nd.disk() != v.Members[v.Index(nd.config.Self)].Disk && m.world.env.Partitioned != nil:
			return 0
		case nd.site == f.Node:
			return 1
		}
		return 2
	}
	slices.SortStableFunc(order, func(a, b *node) int { return rank(a) - rank(b) })
	return order
}

// reuse is a mistake: an empty disk takes the place of a member under its ID, as if it were one of the first.
func (m *manager) reuse(v view.View, nd *node) {
	nd.wipe()
	nd.gone, nd.lost = false, false
	v.Members = slices.Clone(v.Members)
	v.Members[v.Index(nd.config.Self)].Disk = nd.disk()
	v.Epoch++
	m.write(v)
	nd.enter(m.record)
	nd.boot()
}

// founders are the newcomers of a change, with the disks that they have named.
func (m *manager) founders(c *change) (all []membership.Founder) {
	for _, nd := range c.newcomers {
		site := m.world.env.Network.Sites[nd.site]
		all = append(all, membership.Founder{ID: nd.config.Self, Site: site, Address: site, Disk: m.disks[nd.config.Self]})
	}
	return all
}

// propose records the joint view, if enough members would be left on either side, and reports whether it did.
func (m *manager) propose(c *change, joint view.View) bool {
	for _, nd := range c.newcomers {
		nd.lost = joint.Members[joint.Index(nd.config.Self)].Disk != nd.disk()
	}
	if !m.world.bearable(joint, nil) {
		if m.world.env.Partitioned != nil && len(c.newcomers) == 0 {
			m.change = nil // who is lost is replaced first, and too few would be left without the others
		}
		return false
	}
	c.joint = joint.Epoch
	for _, nd := range c.newcomers {
		if m.draw.Chance(300) {
			m.world.serving[nd.site] = nd
		}
	}
	m.write(joint)
	return true
}

// fragments says how the members store large values, as whoever decides on changes has to know.
func (m *manager) fragments() view.Fragments {
	if m.wrong.WholeValues {
		return view.Fragments{}
	}
	return view.Fragments{Data: m.world.env.Data, Faults: m.world.env.Losses}
}

// end notes that the view after a change took hold.
func (m *manager) end(c *change) {
	w := m.world
	path := "change." + c.kind
	if c.abandoned {
		path = "change.abandoned"
	}
	w.Took(path)
	if !w.Settled {
		w.Took(path + ".meanwhile")
	}
	m.change = nil
	for site, nd := range w.serving {
		// The other clients still ask who has left.
		if at := w.at(site); !nd.acts && at != nil && at.witness == nil && m.draw.Chance(800) {
			w.serving[site] = at
		}
	}
}

// resume is where a change stands once the record was rebuilt. If none of those that were asked had heard of its joint
// view, that is proposed again.
func (c *change) resume(record view.View) {
	// It never took hold: the change begins again.
	if record.Epoch < c.joint || record.Epoch == c.joint && !record.Joint() {
		c.joint = 0
	}
	c.concluded = c.joint > 0 && !record.Joint()
	c.abandoned = c.concluded && !c.made(record)
}

// made reports whether a view has the members after the change.
func (c *change) made(v view.View) bool {
	if len(c.newcomers) > 0 {
		return v.Index(c.newcomers[0].config.Self) >= 0
	}
	return v.Index(c.leaving[0]) < 0
}

// bearable reports whether a view is available, on both sides of a change, without those that are lost, and one more
// perhaps.
func (w *world) bearable(v view.View, also *node) bool {
	for _, side := range []view.View{v.Before(), v.After()} {
		lost := 0
		for _, member := range side.Members {
			if nd := w.nodes[member.ID-1]; nd.lost || nd == also {
				lost++
			}
		}
		if lost > side.Faults() || w.env.Losses > 0 && lost > w.env.Losses {
			return false
		}
	}
	return true
}

// tolerates reports whether every view in force is still available when one more member is lost.
func (w *world) tolerates(nd *node) bool {
	m := w.manager
	if !m.views[m.record].held && !w.bearable(m.views[m.former].View, nd) {
		return false
	}
	for _, other := range w.nodes { // what the record is, or may yet be, rebuilt as
		if other.held == none || !m.lost && m.views[other.held].Epoch <= m.views[m.record].Epoch {
			continue
		}
		if !w.bearable(m.views[other.held].View, nd) {
			return false
		}
	}
	return w.bearable(m.views[m.record].View, nd)
}

// place puts a node at a site.
func (w *world) place(nd *node, site int) {
	nd.site = site
	n := len(w.nodes)
	for i, other := range w.nodes {
		w.links[nd.index*n+i].oneWay = w.env.Network.RTT[site][other.site] / 2
		w.links[i*n+nd.index].oneWay = w.env.Network.RTT[other.site][site] / 2
	}
}

// at is a node at a site: one of its members, or who may become one.
func (w *world) at(site int) *node {
	var there []*node
	for _, nd := range w.nodes {
		if nd.site == site && nd.born && !nd.gone && (nd.acts || nd.held == none) {
			there = append(there, nd)
		}
	}
	switch len(there) {
	case 0:
		return nil
	case 1:
		return there[0]
	}
	return there[w.manager.draw.Below(len(there))]
}

// giveUp ends the process of a member for ever.
func (nd *node) giveUp() {
	if !nd.down {
		nd.crash(0, 500)
	}
	nd.gone, nd.lost = true, true
	if nd.world.env.Partitioned != nil {
		nd.world.loseBeside(nd, 0)
	}
}
