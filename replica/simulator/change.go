package simulator

import (
	"fmt"
	"slices"
	"strings"

	"github.com/georegister/georegister/replica/membership"
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
func newcomers(faults []Fault) int {
	count := 0
	for _, f := range faults {
		count += f.Join
	}
	return count
}

// step goes on with the change in progress, or begins the next.
func (m *manager) step() {
	w, v := m.world, &m.views[m.record]
	c := m.change
	if v.Joint() {
		m.conclude(c, v.View)
		return
	}
	digests := map[view.MemberID]string{}
	for _, member := range v.Members {
		digests[member.ID] = m.standings[member.ID].Digest
	}
	switch {
	case !membership.Committed(v.View, digests):
	case c == nil && len(m.wanted) > 0 && !w.settled:
		f := m.wanted[0]
		m.wanted = m.wanted[1:]
		m.begin(f, v.View)
	case c == nil:
	case c.concluded:
		m.end(c)
	default:
		m.propose(c, v.View)
	}
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
	if w.env.parted == nil {
		m.pace = f
	}
	f.hit = w.busy > 0
	c := &change{kind: kindOf(v.Size(), join, leave), hasty: m.draw.chance(400)}
	if m.draw.chance(150) {
		c.patience = 1 + m.draw.below(12)
	}
	leaving := m.leavers(f, v)[:leave]
	w.trace.remark("a change begins: %d join, %d leave", join, leave)
	for _, nd := range leaving {
		c.leaving = append(c.leaving, nd.config.Self)
		switch {
		case nd.gone:
		case f.Alive || !w.tolerates(nd) || w.env.parted != nil && (v.Size()+join-leave < 3 || !w.expendable(nd)): // a lone member's loss is for good
			w.took("change.alive")
		default:
			w.took("change.dead")
			nd.giveUp()
		}
	}
	if m.wrong.sameID && leave > 0 && leaving[0].gone {
		m.reuse(v, leaving[0])
		return
	}
	for i := range join {
		nd := m.recruit()
		if i < len(leaving) {
			w.place(nd, leaving[i].site)
		} else {
			w.place(nd, m.draw.below(len(w.serving)))
		}
		c.newcomers = append(c.newcomers, nd)
		nd.born = true
		nd.boot()
	}
	m.change = c
	if w.env.parted != nil {
		m.accompany(c)
	}
}

// leavers orders the members by who leaves first: those that are gone, or have lost the disk that the view names, then those at the
// fault's site.
func (m *manager) leavers(f *fault, v view.View) []*node {
	var order []*node
	for _, member := range v.Members {
		at := m.draw.below(len(order) + 1)
		order = slices.Insert(order, at, m.world.nodes[member.ID-1])
	}
	rank := func(nd *node) int {
		switch {
		case nd.gone, nd.disk() != v.Members[v.Index(nd.config.Self)].Disk && m.world.env.parted != nil:
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

// propose records the joint view once the newcomers have named their disks, and enough members would be left on
// either side.
func (m *manager) propose(c *change, v view.View) {
	var founders []membership.Founder
	for _, nd := range c.newcomers {
		disk := m.disks[nd.config.Self]
		if disk == "" {
			return
		}
		site := m.world.env.network.Sites[nd.site]
		founders = append(founders, membership.Founder{ID: nd.config.Self, Site: site, Address: site, Disk: disk})
	}
	joint, err := membership.Change(v, founders, c.leaving)
	if err != nil {
		m.world.fail("%w", err)
		return
	}
	for i, nd := range c.newcomers {
		nd.lost = founders[i].Disk != nd.disk()
	}
	if !m.world.bearable(joint, nil) {
		if m.world.env.parted != nil && len(c.newcomers) == 0 {
			m.change = nil // who is lost is replaced first, and too few would be left without the others
		}
		return
	}
	c.joint = joint.Epoch
	for _, nd := range c.newcomers {
		if m.draw.chance(300) {
			m.world.serving[nd.site] = nd
		}
	}
	m.write(joint)
}

// conclude ends a joint view once that is safe.
func (m *manager) conclude(c *change, joint view.View) {
	w := m.world
	c.rounds++
	safe, rest := membership.Finishable(joint, m.fragments(), m.standings)
	if m.wrong.uncovered {
		safe = joint.Quorum(func(id view.MemberID) bool { return m.standings[id].Digest == m.views[m.record].digest })
	}
	const waits = 40 // rounds, for those that are not done
	switch {
	case !w.settled && c.patience > 0 && c.rounds > c.patience, w.settled && w.now > w.calm+60*w.env.retry:
		m.abandon(c, joint)
	case safe && (len(rest) == 0 || c.hasty || c.rounds > waits):
		if len(rest) > 0 {
			w.took("change.hurried")
		}
		m.finish(c, joint)
	}
}

// fragments says how the members store large values, as whoever decides on changes has to know.
func (m *manager) fragments() view.Fragments {
	if m.wrong.wholeValues {
		return view.Fragments{}
	}
	return view.Fragments{Data: m.world.env.data, Faults: m.world.env.losses}
}

func (m *manager) finish(c *change, joint view.View) {
	next, err := membership.Finish(joint)
	if err != nil {
		m.world.fail("%w", err)
		return
	}
	if m.wrong.forgets && !m.world.settled {
		position := m.add(next)
		for _, member := range next.Members {
			m.call(configure, m.world.nodes[member.ID-1], position)
		}
		m.abandon(c, joint)
		return
	}
	c.concluded = true
	m.write(next)
}

func (m *manager) abandon(c *change, joint view.View) {
	next, err := membership.Abandon(joint)
	if err != nil {
		m.world.fail("%w", err)
		return
	}
	c.concluded, c.abandoned = true, true
	m.write(next)
}

// end notes that the view after a change took hold.
func (m *manager) end(c *change) {
	w := m.world
	path := "change." + c.kind
	if c.abandoned {
		path = "change.abandoned"
	}
	w.took(path)
	if !w.settled {
		w.took(path + ".meanwhile")
	}
	m.change = nil
	for site, nd := range w.serving {
		if at := w.at(site); !nd.acts && at != nil && at.witness == nil && m.draw.chance(800) { // the other clients still ask who has left
			w.serving[site] = at
		}
	}
}

// resume is where a change stands once the record was rebuilt. If none of those that were asked had heard of its joint
// view, that is proposed again.
func (c *change) resume(record view.View) {
	if record.Epoch < c.joint || record.Epoch == c.joint && !record.Joint() { // it never took hold: the change begins again
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
		if lost > side.Faults() || w.env.losses > 0 && lost > w.env.losses {
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
		w.links[nd.index*n+i].oneWay = w.env.network.RTT[site][other.site] / 2
		w.links[i*n+nd.index].oneWay = w.env.network.RTT[other.site][site] / 2
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
	return there[w.manager.draw.below(len(there))]
}

// giveUp ends the process of a member for ever.
func (nd *node) giveUp() {
	if !nd.down {
		nd.crash(0, 500)
	}
	nd.gone, nd.lost = true, true
	if nd.world.env.parted != nil {
		nd.world.loseBeside(nd, 0)
	}
}

func membersText(v view.View) string {
	var names []string
	for _, m := range v.Members {
		name := fmt.Sprint(m.ID)
		if m.Joining {
			name = "+" + name
		} else if m.Leaving {
			name = "-" + name
		}
		names = append(names, name)
	}
	return strings.Join(names, " ")
}
