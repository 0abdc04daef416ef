package members

import (
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/faults"
	"github.com/georegister/georegister/replica/view"
)

// MoveHome is the fault Move.
func (m *Manager) MoveHome(f *faults.Injected) {
	for len(m.homes) <= f.Partition {
		m.homes = append(m.homes, "")
	}
	home := ""
	if !f.ByDefault {
		home = m.Environment.Network.Sites[f.Node]
	}
	if m.homes[f.Partition] == home {
		return
	}
	f.Hit = m.Busy > 0
	m.homes[f.Partition] = home
	m.Diagram.Remark("the home of partition %d is now %q", f.Partition, home)
}

// homeOf is the site where the master of a partition belongs: where it was moved to, or else the one whose turn it is.
func (m *Manager) homeOf(v view.View, partition int) string {
	if partition < len(m.homes) && m.homes[partition] != "" {
		return m.homes[partition]
	}
	var sites []string
	for _, member := range v.After().Members {
		if !slices.Contains(sites, member.Site) {
			sites = append(sites, member.Site)
		}
	}
	return sites[partition%len(sites)]
}

// noteMove counts a hand-over by a move.
func (m *Manager) noteMove(v view.View, partition int) {
	path := "curp.moved"
	switch given := partition < len(m.homes); {
	case !given:
		return
	case v.Partitions[partition].Split != 0:
		path = "curp.split-moved"
	case m.homes[partition] == "":
		path = "curp.moved-back"
	case !m.Settled:
		m.Took("curp.moved.meanwhile")
	}
	m.Took(path)
}

// Split is the fault Split.
func (m *Manager) Split(f *faults.Injected) {
	f.Hit = m.Busy > 0
	m.splits++
	m.Diagram.Remark("there are to be %d partitions", m.partitions())
}

// partitions is how many there are to be.
func (m *Manager) partitions() int {
	return m.Environment.Partitioned.Placement.Partitions + m.splits
}

// splitAtOnce is a mistake: a view in which a partition is split although witnesses have what its backups lack, or no
// view.
func (m *Manager) splitAtOnce(s *membership.Snapshot) (next view.View) {
	parent, child := s.View.NextSplit()
	p := s.View.Partitions[parent]
	if s.Placement.Partitions <= child || s.View.Joint() || len(p.Formers) > 0 || len(p.Witnesses) == 0 || !m.Made[m.Record].Held {
		return next
	}
	next = s.View
	next.Epoch++
	next.Issued, next.Founded, next.Partitions = s.View.LastIssued(), s.View.FoundedPartitions(), slices.Clone(s.View.Partitions)
	p.Term, p.Formers, p.Empty = next.Epoch, []view.Former{p.Former()}, false
	next.Partitions[parent] = p
	p.Split = next.Epoch
	next.Partitions = append(next.Partitions, p)
	return next
}
