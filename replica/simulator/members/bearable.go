package members

import (
	"slices"

	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/view"
)

// bearable reports whether a view is available, on both sides of a change, without those that are lost, and one more
// perhaps.
func (m *Manager) bearable(v view.View, also *cluster.Node) bool {
	for _, side := range v.Sides() {
		lost := 0
		for _, member := range side.Members {
			if nd := m.Nodes[member.ID-1]; nd.Lost || nd == also {
				lost++
			}
		}
		if lost > minority(side) || m.Environment.Losses > 0 && lost > m.Environment.Losses {
			return false
		}
	}
	return true
}

// Tolerates reports whether every view in force is still available when one more member is lost.
func (m *Manager) Tolerates(nd *cluster.Node) bool {
	if !m.Made[m.Record].Held && !m.bearable(m.Made[m.Former].View, nd) {
		return false
	}
	for _, other := range m.Nodes { // what the record is, or may yet be, rebuilt as
		if other.Held == cluster.None || !m.Lost && m.Made[other.Held].Epoch <= m.Made[m.Record].Epoch {
			continue
		}
		if !m.bearable(m.Made[other.Held].View, nd) {
			return false
		}
	}
	return m.bearable(m.Made[m.Record].View, nd)
}

// TolerableIn reports whether a view, by its position, is available without those of its members that are lost, and one
// more; no view is.
func (m *Manager) TolerableIn(position int, nd *cluster.Node) bool {
	return position == cluster.None || m.bearable(m.Made[position].View, nd)
}

// Expendable reports whether the disk of a member or a witness may be lost for good beside those that have not been
// replaced: fewer than the manifest promises to survive are. A witness beside a member shares its volume, and counts
// once with it.
func (m *Manager) Expendable(nd *cluster.Node) bool {
	// A record that is lost with a view that few were told of is for a person to make good, who has to ask every
	// member (intervene). That can't be done without one of them, and is not what the manifest promises of disks.
	switch {
	case m.Lost || m.Forget != nil || m.Ahead():
		return false
	case nd.Witness == nil && !m.Tolerates(nd), !m.Made[m.Record].Held && !m.bears(m.Made[m.Former].View, nd):
		return false
	}
	return m.bears(m.Made[m.Record].View, nd)
}

// promised is how many losses the partitions of a view survive: as many as the manifest asks for, or any minority of the
// members before a change or after it, whichever are more, as far as those that stay can hold what is lost.
func (m *Manager) promised(v view.View) int {
	faults := minority(v.Before())
	if m.Change == nil || !m.Change.abandoned {
		after := v.After()
		faults = min(max(faults, minority(after)), len(after.Members)-1)
	}
	return min(m.Environment.Partitioned.Placement.Faults, faults)
}

// minority is the largest one of a plain view. What is promised is counted here, and the view, which is searched for
// bugs, is not asked.
func minority(v view.View) int { return (len(v.Members) - 1) / 2 }

// bears reports whether a view's partitions survive the loss of one more volume.
func (m *Manager) bears(v view.View, nd *cluster.Node) bool {
	lost := map[view.MemberID]bool{}
	count := func(nd *cluster.Node) {
		if x := nd.Witness; x != nil && x.Beside != 0 {
			lost[x.Beside] = true
		} else {
			lost[nd.Config.Self] = true
		}
	}
	count(nd)
	for _, member := range v.Members {
		if other := m.Nodes[member.ID-1]; other.Lost || other.Gone || other.Disk() != member.Disk {
			count(other)
		}
	}
	for _, x := range v.Witnesses {
		if other := m.Nodes[x.ID-1]; other.Lost || other.Gone || other.Disk() != x.Disk || other.Witness.Stale {
			count(other)
		}
	}
	faults := m.promised(v)
	for _, p := range v.Partitions { // it may have fewer backups than it could have by now
		for _, f := range append(slices.Clone(p.Formers), p.Former()) {
			faults = min(faults, len(f.Backups))
		}
	}
	return len(lost) <= faults
}

// Ahead reports whether somebody holds a later view than the recorded one.
func (m *Manager) Ahead() bool {
	return slices.ContainsFunc(m.Nodes, func(nd *cluster.Node) bool {
		return nd.Held != cluster.None && nd.Held != m.Record && m.Made[nd.Held].Epoch >= m.Made[m.Record].Epoch
	})
}
