package members

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/view"
)

// Add notes a view that was made, and returns its position. Of an epoch there is one, unless the record was lost
// before anybody heard enough of the first.
func (m *Manager) Add(v view.View) int {
	digest := v.Digest()
	for i := range m.Made {
		switch other := &m.Made[i]; {
		case other.Digest == digest:
			return i
		case other.Epoch == v.Epoch && other.Losses == m.Losses:
			m.Fail("two views of epoch %d were recorded", v.Epoch)
		}
	}
	m.Breaches(check.View(v))
	m.Made = append(m.Made, cluster.Made{View: v, Digest: digest, Losses: m.Losses})
	return len(m.Made) - 1
}

// LoseRecord has the record be rebuilt.
func (m *Manager) LoseRecord() {
	m.Lost, m.known = true, 0
	m.quiet = max(m.quiet, m.Now) // what was said before is too old
	for i := range m.Made {
		if m.Made[i].Held {
			m.known = max(m.known, m.Made[i].Epoch)
		}
	}
}

// write makes a view the record.
func (m *Manager) write(v view.View) {
	before := &m.Made[m.Record]
	if before.Held {
		m.Former = m.Record
	}
	m.Breaches(check.Succession(before.View, v, membership.Recovered(v)))
	m.Record = m.Add(v)
	if m.Change != nil {
		m.Change.still = 0
	}
	m.Diagram.Remark("the record is the view of epoch %d: %s", v.Epoch, diagram.MembersText(v)+diagram.KeepersText(v))
	if m.Forget != nil && m.Losses == 0 && !m.Settled {
		m.forgetAfter(m.Forget, m.Record)
		return
	}
	often := 300
	if m.Environment.Partitioned != nil {
		often = 100 // views are many
	}
	if m.Mishap(m.Draw, often) {
		m.crash() // before anybody is told
	}
}

// rebuild finds the record again.
func (m *Manager) rebuild() {
	var reports []membership.Report
	for _, nd := range m.Nodes {
		if nd.Born && !nd.Gone {
			m.callWith(nd, cluster.None)
		}
		if r := m.sinceLoss(nd); r != nil {
			report := membership.Report{Member: nd.Config.Self, Votes: r.Voter, Disk: r.Member.Disk}
			if r.Held != cluster.None {
				report.View = m.Made[r.Held].View
			}
			reports = append(reports, report)
		}
	}
	d := membership.Rebuild(reports, func(id view.MemberID) bool { return m.Nodes[id-1].Gone })
	found := d.View
	switch {
	case d.Err != nil && m.Environment.Partitioned != nil && m.Settled:
		m.intervene(m.Add(found))
	case d.Err != nil && m.Environment.Partitioned == nil:
		m.Fail("rebuild the record: %w", d.Err)
	}
	if !d.Known {
		return
	}
	if found.Epoch < m.known {
		m.Fail("the record was rebuilt with the view of epoch %d, and that of epoch %d had taken hold", found.Epoch, m.known)
	}
	m.Took("change.rebuilt")
	if found.Joint() {
		m.Took("change.rebuilt-joint")
	}
	m.Diagram.Remark("the record is rebuilt: the view of epoch %d", found.Epoch)
	m.Lost, m.Record = false, m.Add(found)
	if c := m.Change; c != nil {
		c.resume(found)
	}
}

// sinceLoss is what a member has answered since the record was lost; nil: nothing. It may have been given a later view
// since an earlier answer, by a call of before the loss.
func (m *Manager) sinceLoss(nd *cluster.Node) *cluster.Report {
	if r := &m.answers[nd.Index]; r.Member.Member != 0 && r.At >= m.quiet {
		return r
	}
	return nil
}

// Hopeless reports whether more is lost than any decision can make good: what is left can only wait for a person.
func (m *Manager) Hopeless() bool {
	if m.Environment.Partitioned != nil {
		return m.partitionLost()
	}
	return m.unknowable()
}

// unknowable reports whether the record is lost for good: so many members of the newest view that anybody holds have
// lost their disks, on one side of a change at least, that they may have been the quorum of a later one. It comes of
// losses that were bearable in the view that was recorded, such as of newcomers whose change was given up, when that
// record is lost before anybody who is left was told of it. Those who are left can't tell this from a change that was
// finished with those who are lost, so to go on as before it could forget what these acknowledged.
func (m *Manager) unknowable() bool {
	newest := cluster.None
	for _, nd := range m.Nodes {
		if nd.Born && !nd.Gone && nd.Held != cluster.None && (newest == cluster.None || m.Made[nd.Held].Epoch > m.Made[newest].Epoch) {
			newest = nd.Held
		}
	}
	return m.Lost && newest != cluster.None && !m.Made[newest].Quorum(func(id view.MemberID) bool { return !m.Nodes[id-1].Lost })
}

// partitionLost reports whether a partition is lost: its master is, for good, and no backup is left that had all that
// was synced in the terms that are not recovered. It comes of a second loss before the first was repaired, such as when
// a backup is taken for lost while the master's death is not known yet; whatever the decisions are, they can only wait.
// A master that was taken for lost is one, as in the paper: what it holds may lack what its successor answered, and
// nobody is left who could tell.
func (m *Manager) partitionLost() bool {
	if m.QuorumLoss.Happened && !m.QuorumLoss.GivenUp {
		return false
	}
	gone := func(id view.MemberID) bool { return m.Nodes[id-1].Lost || m.Nodes[id-1].Gone }
	return slices.ContainsFunc(m.Made[m.Record].Partitions, func(p view.Partition) bool {
		missed := func(id view.MemberID) bool { // something that was synced
			return slices.ContainsFunc(p.Formers, func(f view.Former) bool { return id != f.Master && !slices.Contains(f.Backups, id) })
		}
		return gone(p.Master) && !slices.ContainsFunc(p.Backups, func(id view.MemberID) bool { return !gone(id) && !missed(id) })
	})
}

// forgetAfter loses the record after it was told to a few: those that would act on it, rather than others. They, and
// perhaps some witnesses, are cut off for a while, also from the manager.
func (m *Manager) forgetAfter(f *faults.Injected, position int) {
	m.Forget = nil
	f.Hit = m.Busy > 0
	v := m.Made[position].View
	var few []view.MemberID
	add := func(id view.MemberID) {
		has := func(o view.MemberID) bool { return o == id || slices.Contains(few, o) }
		if !slices.Contains(few, id) && v.Index(id) >= 0 && !v.Meets(has) {
			few = append(few, id)
		}
	}
	for _, p := range v.Partitions {
		if p.Term == v.Epoch && m.Draw.Chance(800) {
			add(p.Master)
			for _, id := range p.Backups {
				add(id)
			}
		}
	}
	for range m.Draw.Below(2) {
		add(v.Members[m.Draw.Below(v.Size())].ID)
	}
	cut := faults.Fault{Kind: faults.Partition, Everywhere: true, At: m.Now, For: f.For, Rate: 500}
	for _, id := range few {
		cut.Side |= 1 << (id - 1)
		m.After(m.Draw.Between(0, m.Environment.Retry/4), func() { m.tell(m.Nodes[id-1], position) })
	}
	for _, x := range v.Witnesses {
		if m.Draw.Chance(400) {
			cut.Side |= 1 << (x.ID - 1)
		}
	}
	m.Took("curp.forgotten")
	m.Diagram.Remark("few are told of it: %v", few)
	if m.Draw.Chance(800) {
		f := &faults.Injected{Fault: cut}
		m.Network.Faults = append(m.Network.Faults, f)
		m.Network.Begin(f)
	}
	m.cut, m.cutUntil = cut.Side, m.Now+f.For
	m.ForgetAnswers()
	m.away = m.Now + m.Draw.Between(0, 6*m.pace.For)
	m.Losses++
	m.quiet = m.Now + max(m.pace.Size, m.Environment.Retry/4)
	m.Diagram.Remark("the manager crashes, and its record is lost")
	m.LoseRecord()
}

// intervene is what a person does who reads that members hold two views of one epoch, and all were asked: stops them
// and looks at what they hold now, since one that is passed on between members may have taken hold after they answered.
// If neither has, those that hold the one forget it.
func (m *Manager) intervene(keep int) {
	for _, member := range m.Made[keep].Members {
		if m.sinceLoss(m.Nodes[member.ID-1]) == nil {
			return
		}
	}
	for i := range m.Made {
		v := &m.Made[i]
		if v.Epoch == m.Made[keep].Epoch && v.Quorum(func(id view.MemberID) bool { return m.Nodes[id-1].Held == i && !m.Nodes[id-1].Lost }) {
			return // which the next answers tell
		}
	}
	m.Took("curp.intervened")
	for _, nd := range m.Nodes {
		if nd.Held == cluster.None || nd.Held == keep || nd.Down || m.Made[nd.Held].Epoch != m.Made[keep].Epoch {
			continue
		}
		m.Diagram.Note(nd.Index, "is stopped, and its view removed")
		nd.Crash(0, 0)
		nd.Enter(cluster.None)
		nd.After(time.Millisecond, nd.Restart)
	}
	m.ForgetAnswers()
}
