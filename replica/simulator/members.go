package simulator

import (
	"slices"
	"strings"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/view"
)

// memberPaths are what happens to the members of worlds with masters.
func memberPaths() []string {
	return []string{
		"change.dead", "change.alive", "change.grow", "change.shrink", "change.swap", "change.abandoned", "change.removed",
		"curp.member-lost", "curp.forgotten", "curp.alone-by-choice", "curp.torn", "change.rebuilt",
	}
}

// placement is how partitions are to be kept with the members of a view.
func (m *manager) placement(v view.View) membership.Placement {
	placement := m.world.env.Partitioned.Placement
	placement.Faults = min(placement.Faults, membership.Faults(v, m.change != nil && m.change.abandoned))
	return placement
}

// recruit is a node that was never started, or nil.
func (m *manager) recruit() *node {
	if m.spare >= len(m.world.nodes) {
		return nil
	}
	nd := m.world.nodes[m.spare]
	m.spare++
	return nd
}

// employ makes a node a witness, beside a member or alone, and starts it.
func (w *world) employ(nd *node, site int, beside view.MemberID) {
	nd.shards, nd.witness = nil, &witness{node: nd, beside: beside}
	w.place(nd, site)
	nd.born = true
	nd.boot()
}

// accompany starts a witness for each newcomer of a change.
func (m *manager) accompany(c *change) {
	for _, nd := range c.newcomers {
		x := m.recruit()
		beside := nd.config.Self
		if m.world.env.Partitioned.Placement.Dedicated {
			beside = 0
		}
		m.world.employ(x, nd.site, beside)
		c.witnesses = append(c.witnesses, x)
	}
}

// moveMembers goes on with a change of members, or begins one: what a fault asks for, or the replacement of a member
// that is lost. It reports whether it recorded a view.
func (m *manager) moveMembers(s *membership.Snapshot) bool {
	w, v := m.world, &m.views[m.record]
	c := m.change
	before := m.record
	if c != nil && (v.Joint() || c.concluded) {
		m.name(c, s)
	}
	switch {
	case v.Joint():
		m.watch(c, s)
	case !v.held:
	case c == nil:
		m.beginMove(s, v.View)
	case c.concluded && (c.abandoned || len(c.witnesses) == 0 || v.Index(c.newcomers[0].config.Self) < 0 || len(s.Named) == 0 && m.entered(c)):
		m.end(c)
	case c.concluded:
	case c.joint == 0:
		s.Join, s.Leave = m.founders(c), c.leaving
	}
	return m.record != before || m.lost || w.Now < m.away
}

// conclude records a view with other witnesses, or one with which a change ends.
func (m *manager) conclude(d membership.Decision) {
	if d.Kind != membership.Unchanged && m.change != nil {
		m.change.concluded = true
	}
	m.write(d.Next)
}

// beginMove begins the next change, if there is one to make.
func (m *manager) beginMove(s *membership.Snapshot, v view.View) {
	w := m.world
	room := (len(w.nodes) - m.spare) / 2
	for _, member := range v.Members {
		nd := w.nodes[member.ID-1]
		told := slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool { return r.Member == member.ID && r.Disk != member.Disk })
		if (told || nd.gone) && room > 0 {
			w.Took("curp.member-lost")
			m.begin(&fault{Fault: faults.Fault{Kind: faults.Change, Node: nd.site, Join: 1, Leave: 1, Alive: true}}, v)
			if m.change != nil && room == 1 {
				m.change.patience = 0 // there is nobody left to try again with
			}
			return
		}
	}
	if len(m.wanted) > 0 && !w.Settled {
		f := m.wanted[0]
		m.wanted = m.wanted[1:]
		if f.Join <= room {
			m.begin(f, v)
		}
	}
}

// watch tells the decisions of a joint view what the manager knows beside: witnesses that wait, and its patience.
func (m *manager) watch(c *change, s *membership.Snapshot) {
	w := m.world
	c.rounds++
	if !w.Settled && c.patience > 0 && c.rounds > c.patience || w.Settled && time.Duration(c.rounds)*m.pace.For > 40*w.env.Retry {
		c.abandoned = true
	}
	s.Abandon = c.abandoned
}

// name tells the decisions which witnesses of newcomers wait. Their IDs are in the order of the members', so all come
// at once.
func (m *manager) name(c *change, s *membership.Snapshot) {
	for _, x := range c.witnesses {
		if r := m.told[x.index].witness; r == nil || r.Disk != x.disk() {
			s.Named = nil
			return
		}
		s.Named = append(s.Named, x.witness.entry())
	}
	if m.entered(c) {
		s.Named = nil
	}
}

// entered reports whether the witnesses of a change are in the view, but for those that came and were lost since.
func (m *manager) entered(c *change) bool {
	v := &m.views[m.record]
	return !slices.ContainsFunc(c.witnesses, func(x *node) bool {
		_, known := v.Witness(x.config.Self)
		return !known && x.disks == 1
	})
}

// expendable reports whether the disk of a member or a witness may be lost for good beside those that have not been
// replaced: fewer than the manifest promises to survive are. A witness beside a member shares its volume, and counts
// once with it.
func (w *world) expendable(nd *node) bool {
	m := w.manager
	// A record that is lost with a view that few were told of is for a person to make good, who has to ask every
	// member (intervene). That can't be done without one of them, and is not what the manifest promises of disks.
	switch {
	case m.lost || m.forget != nil || w.ahead():
		return false
	case nd.witness == nil && !w.tolerates(nd), !m.views[m.record].held && !w.bears(m.views[m.former].View, nd):
		return false
	}
	return w.bears(m.views[m.record].View, nd)
}

// bears reports whether a view's partitions survive the loss of one more volume.
func (w *world) bears(v view.View, nd *node) bool {
	lost := map[view.MemberID]bool{}
	count := func(nd *node) {
		if x := nd.witness; x != nil && x.beside != 0 {
			lost[x.beside] = true
		} else {
			lost[nd.config.Self] = true
		}
	}
	count(nd)
	for _, member := range v.Members {
		if other := w.nodes[member.ID-1]; other.lost || other.gone || other.disk() != member.Disk {
			count(other)
		}
	}
	for _, x := range v.Witnesses {
		if other := w.nodes[x.ID-1]; other.lost || other.gone || other.disk() != x.Disk || other.witness.stale {
			count(other)
		}
	}
	faults := w.manager.placement(v).Faults
	for _, p := range v.Partitions { // it may have fewer backups than it could have by now
		for _, f := range append(slices.Clone(p.Formers), p.Former()) {
			faults = min(faults, len(f.Backups))
		}
	}
	return len(lost) <= faults
}

// partitionLost reports whether a partition is lost: its master is, for good, and no backup is left that had all that
// was synced in the terms that are not recovered. It comes of a second loss before the first was repaired, such as when
// a backup is taken for lost while the master's death is not known yet; whatever the decisions are, they can only wait.
// A master that was taken for lost is one, as in the paper: what it holds may lack what its successor answered, and
// nobody is left who could tell.
func (m *manager) partitionLost() bool {
	w := m.world
	if m.ruined && !m.rescued {
		return false
	}
	gone := func(id view.MemberID) bool { return w.nodes[id-1].lost || w.nodes[id-1].gone }
	return slices.ContainsFunc(m.views[m.record].Partitions, func(p view.Partition) bool {
		missed := func(id view.MemberID) bool { // something that was synced
			return slices.ContainsFunc(p.Formers, func(f view.Former) bool { return id != f.Master && !slices.Contains(f.Backups, id) })
		}
		return gone(p.Master) && !slices.ContainsFunc(p.Backups, func(id view.MemberID) bool { return !gone(id) && !missed(id) })
	})
}

// postpone has a fault come a little later, for some time, and reports whether it does.
func (f *fault) postpone(w *world) bool {
	if f.waited++; f.waited > 100 {
		return false
	}
	f.beginAfter(w, w.env.Retry/4)
	return true
}

// loseBeside loses the disk of the witness beside a member, which is on the same volume.
func (w *world) loseBeside(nd *node, back time.Duration) {
	for _, other := range w.nodes {
		if other.witness == nil || other.witness.beside != nd.config.Self || !other.born || other.gone {
			continue
		}
		if !other.down {
			other.crash(0, 500)
		}
		other.witness.lose()
		if nd.gone {
			other.gone = true
			continue
		}
		other.after(back, other.restart)
	}
}

// forgetAfter loses the record after it was told to a few: those that would act on it, rather than others. They, and
// perhaps some witnesses, are cut off for a while, also from the manager.
func (m *manager) forgetAfter(f *fault, position int) {
	w := m.world
	m.forget = nil
	f.hit = w.Busy > 0
	v := m.views[position].View
	var few []view.MemberID
	add := func(id view.MemberID) {
		has := func(o view.MemberID) bool { return o == id || slices.Contains(few, o) }
		if !slices.Contains(few, id) && v.Index(id) >= 0 && !v.Meets(has) {
			few = append(few, id)
		}
	}
	for _, p := range v.Partitions {
		if p.Term == v.Epoch && m.draw.Chance(800) {
			add(p.Master)
			for _, id := range p.Backups {
				add(id)
			}
		}
	}
	for range m.draw.Below(2) {
		add(v.Members[m.draw.Below(v.Size())].ID)
	}
	cut := faults.Fault{Kind: faults.Partition, Everywhere: true, At: w.Now, For: f.For, Rate: 500}
	for _, id := range few {
		cut.Side |= 1 << (id - 1)
		w.After(m.draw.Between(0, w.env.Retry/4), func() { m.tell(w.nodes[id-1], position) })
	}
	for _, x := range v.Witnesses {
		if m.draw.Chance(400) {
			cut.Side |= 1 << (x.ID - 1)
		}
	}
	w.Took("curp.forgotten")
	w.trace.Remark("few are told of it: %v", few)
	if m.draw.Chance(800) {
		w.faults = append(w.faults, &fault{Fault: cut})
		w.faults[len(w.faults)-1].begin(w)
	}
	m.cut, m.cutUntil = cut.Side, w.Now+f.For
	m.forgetAnswers()
	m.away = w.Now + m.draw.Between(0, 6*m.pace.For)
	m.losses++
	m.quiet = w.Now + max(m.pace.Size, w.env.Retry/4)
	w.trace.Remark("the manager crashes, and its record is lost")
	m.loseRecord()
}

// intervene is what a person does who reads that members hold two views of one epoch, and all were asked: stops them
// and looks at what they hold now, since one that is passed on between members may have taken hold after they answered.
// If neither has, those that hold the one forget it.
func (m *manager) intervene(keep int) {
	w := m.world
	for _, member := range m.views[keep].Members {
		if _, ok := m.reports[member.ID]; !ok {
			return
		}
	}
	for i := range m.views {
		v := &m.views[i]
		if v.Epoch == m.views[keep].Epoch && v.Quorum(func(id view.MemberID) bool { return w.nodes[id-1].held == i && !w.nodes[id-1].lost }) {
			return // which the next answers tell
		}
	}
	w.Took("curp.intervened")
	for _, nd := range w.nodes {
		if nd.held == none || nd.held == keep || nd.down || m.views[nd.held].Epoch != m.views[keep].Epoch {
			continue
		}
		w.trace.Note(nd.index, "is stopped, and its view removed")
		nd.crash(0, 0)
		nd.enter(none)
		nd.after(time.Millisecond, nd.restart)
	}
	m.reports = map[view.MemberID]report{}
}

// waiting says what the manager of partitions waits for, if it does.
func (m *manager) waiting() string {
	if len(m.waits) == 0 {
		return ""
	}
	return "; its manager: " + strings.Join(m.waits, "; ")
}
