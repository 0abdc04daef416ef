package simulator

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/view"
)

// dedicatedPaths are what happens to witnesses that have pods of their own.
func dedicatedPaths() []string {
	return []string{"curp.away", "curp.succeeded", "curp.succeeded.meanwhile", "curp.returned", "curp.zones"}
}

// leave is the fault Lose of a witness whose disk stays: it is away for some time.
func (f *fault) leave(w *world, nd *node) {
	f.hit = f.hit || w.Busy > 0
	w.Took("curp.away")
	if w.env.Partitioned.Zones != nil {
		w.Took("curp.zones")
	}
	nd.crash(0, f.Rate)
	nd.witness.away = w.Now + f.For
	nd.after(f.For, nd.restart)
}

// returns notes that a witness starts whose place another one took while it was away.
func (x *witness) returns() {
	m := x.node.world.manager
	if x.away == 0 || m == nil {
		return
	}
	x.away = 0
	if _, known := m.views[m.record].Witness(x.node.config.Self); !known {
		x.node.world.Took("curp.returned")
	}
}

// succeed has another witness come for a dedicated one that is away, once a quorum of members say that they don't hear
// it, and reports whether it did.
func (m *manager) succeed(s *membership.Snapshot) bool {
	w := m.world
	v := &m.views[m.record]
	if !w.env.Partitioned.Placement.Dedicated || !v.held || v.Joint() || m.change != nil {
		return false
	}
	for _, entry := range v.Witnesses {
		nd := w.nodes[entry.ID-1]
		if nd.gone || nd.disk() != entry.Disk || nd.witness.away <= w.Now || slices.Contains(s.Retiring, entry.ID) || !s.Suspected(entry.ID) {
			continue
		}
		if !m.enlist(nd.site, 0, entry.ID) {
			return false
		}
		w.Took("curp.succeeded")
		if !w.Settled {
			w.Took("curp.succeeded.meanwhile")
		}
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
func (m *manager) retiring(v view.View) (ids []view.MemberID) {
	p := m.world.env.Partitioned
	if !p.Placement.Dedicated || v.Joint() {
		return nil
	}
	followed := func(entry view.Witness) bool {
		return slices.ContainsFunc(v.Witnesses, func(o view.Witness) bool { return m.world.nodes[o.ID-1].witness.follows == entry.ID })
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

// crowded names a partition of which two keepers are at one site at rest, though there are sites enough with members
// and witnesses for all of them; or it is empty.
func (m *manager) crowded(v view.View) string {
	p := m.world.env.Partitioned
	placement := m.placement(v)
	if !placement.Dedicated || p.Zones != nil || placement.Faults == 0 {
		return ""
	}
	var sites []string
	for _, member := range v.Members {
		witnessed := slices.ContainsFunc(v.Witnesses, func(w view.Witness) bool {
			nd := m.world.nodes[w.ID-1]
			return w.Site == member.Site && !nd.gone && !nd.down && nd.disk() == w.Disk && !slices.Contains(m.retiring(v), w.ID)
		})
		if !witnessed || slices.Contains(sites, member.Site) {
			return ""
		}
		sites = append(sites, member.Site)
	}
	for i, part := range v.Partitions {
		var at []string
		for _, id := range slices.Concat([]view.MemberID{part.Master}, part.Backups) {
			at = append(at, v.Members[v.Index(id)].Site)
		}
		for _, id := range part.Witnesses {
			entry, _ := v.Witness(id)
			if slices.Contains(at, entry.Site) {
				return fmt.Sprintf("partition %d is kept at %v, and by witness %d at %s too", i, at, id, entry.Site)
			}
			at = append(at, entry.Site)
		}
	}
	return ""
}
