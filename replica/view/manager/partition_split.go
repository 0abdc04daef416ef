package manager

import (
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// splits reports whether a partition is to be split next: there are fewer than there should be, it is its turn (view.Parent), it has
// its backups, and nothing else is to be done with it.
func (m *mover) splits(target view.MemberID) bool {
	count := len(m.view.Partitions)
	whole := len(m.p.Backups) >= m.placement.Faults && len(m.p.Learners) == 0 && !slices.ContainsFunc(m.p.Backups, m.s.drained)
	return m.placement.Partitions > count && view.Parent(m.view.FoundedPartitions(), count) == m.i && target == 0 && whole && !m.view.Joint()
}

// split divides a partition's keys between itself and a new one with the same master and backups (section 3.6). Both recover from the
// term that ends, which has no witnesses: there is nothing to replay, and one loss at this time is no more than at any other. The new
// one goes to its home afterwards.
func (m *mover) split(next view.Partition) {
	next.Witnesses = m.witnesses(next, m.placement.witnesses(len(next.Backups)))
	child := next
	child.Split = m.epoch
	child.Backups, child.Witnesses, child.Formers = slices.Clone(next.Backups), slices.Clone(next.Witnesses), slices.Clone(next.Formers)
	m.child = &child
	m.move(next, "half of its keys go to partition %d", len(m.view.Partitions))
}
