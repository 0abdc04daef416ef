package membership

import (
	"slices"

	"github.com/georegister/georegister/replica/view"
)

// splits reports whether a partition is to be split next: there are fewer than there should be, it is its turn
// (view.Parent), it has its backups, and nothing else is to be done with it than what next says of its witnesses.
func (m *mover) splits(next view.Partition, target view.MemberID) bool {
	parent, child := m.view.NextSplit()
	if m.placement.Partitions <= child || parent != m.i || m.view.Joint() {
		return false
	}
	whole := len(next.Backups) >= m.placement.Faults && slices.Equal(next.Backups, m.p.Backups) &&
		!slices.ContainsFunc(next.Backups, m.s.drained)
	return whole && target == 0
}

// split divides a partition's keys between itself and a new one with the same master and backups (section 3.6). Both
// recover from the term that ends, which has no witnesses: there is nothing to replay, and one loss at this time is no
// more than at any other. The new one goes to its home afterwards.
func (m *mover) split(next view.Partition) {
	next = m.saved(next, next.Witnesses)
	child := next
	child.Split = m.epoch
	child.Backups, child.Witnesses, child.Formers = slices.Clone(next.Backups), slices.Clone(next.Witnesses),
		slices.Clone(next.Formers)
	m.child = &child
	m.move(next, "half of its keys go to partition %d", len(m.view.Partitions))
}
