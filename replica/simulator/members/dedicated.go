package members

import (
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// succeed has another witness come for a dedicated one that is away, once a quorum of members say that they don't hear
// it, and reports whether it did.
func (m *Manager) succeed(s *membership.Snapshot) bool {
	v := &m.Made[m.Record]
	if !m.Environment.Partitioned.Placement.Dedicated || !v.Held || v.Joint() || m.Change != nil {
		return false
	}
	for _, entry := range v.Witnesses {
		nd := m.Nodes[entry.ID-1]
		if nd.Gone || nd.Disk() != entry.Disk || nd.Witness.Away <= m.Now || slices.Contains(s.Retiring, entry.ID) || !s.Suspected(entry.ID) {
			continue
		}
		if !m.enlist(nd.Site, 0, entry.ID) {
			return false
		}
		m.TookWithFaults("curp.succeeded")
		return true
	}
	return false
}

// succeeded reports whether a view has a later witness in the place of one.
func succeeded(v view.View, entry view.Witness) bool {
	return slices.ContainsFunc(v.Witnesses, func(o view.Witness) bool {
		return o.ID > entry.ID && o.Beside == entry.Beside && o.Site == entry.Site
	})
}

// retiring are the dedicated witnesses that are to go: those that have a successor, and those of sites that no member
// is at, as long as there are enough without them. It survives a crash of the manager, as it follows from the view.
func (m *Manager) retiring(v view.View) (ids []view.MemberID) {
	p := m.Environment.Partitioned
	if !p.Placement.Dedicated || v.Joint() {
		return nil
	}
	followed := func(entry view.Witness) bool {
		return slices.ContainsFunc(v.Witnesses, func(o view.Witness) bool { return m.Nodes[o.ID-1].Witness.Follows == entry.ID })
	}
	for _, entry := range v.Witnesses {
		if followed(entry) {
			ids = append(ids, entry.ID)
		}
	}
	for _, entry := range v.Witnesses {
		there := slices.ContainsFunc(v.Members, func(o view.Member) bool { return o.Site == entry.Site })
		if !there && !followed(entry) && len(v.Witnesses)-len(ids) > max(m.placement(v).Faults, p.Placement.Alone) {
			ids = append(ids, entry.ID)
		}
	}
	return ids
}
