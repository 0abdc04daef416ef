package members

import (
	"fmt"
	"slices"

	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/view"
)

// Missing says what is not in order though the faults are over, or nothing.
func (m *Manager) Missing() string {
	record, partitioned := &m.Made[m.Record], m.Environment.Partitioned != nil
	switch {
	case !m.begun:
		return ""
	case m.QuorumLoss.Happened && !m.QuorumLoss.GivenUp:
		return "a lost quorum is not given up" + m.Waiting()
	case m.Lost || m.Change != nil || record.Joint():
		return "a change of members is still in progress" + m.Waiting()
	}
	for _, member := range record.Members {
		switch nd := m.Nodes[member.ID-1]; {
		case partitioned && (nd.Gone || nd.Disk() != member.Disk):
			return nd.Name() + " is lost, and is not replaced"
		case nd.Gone:
		case nd.Held != m.Record:
			return nd.Name() + " does not hold the last view"
		case !partitioned && !nd.Voter():
			return nd.Name() + " does not vote"
		}
	}
	if !partitioned {
		return ""
	}
	if why := m.missingParts(record); why != "" {
		return why
	}
	if len(m.waits) > 0 {
		return "all partitions are as they should be, and still something is waited for" + m.Waiting()
	}
	return ""
}

// unhindered reports whether all who take part in a change are there, on the disks that they had when it began.
func (m *Manager) unhindered(c *change) bool {
	v := &m.Made[m.Record]
	there := func(id view.MemberID, disk string) bool {
		nd := m.Nodes[id-1]
		return !nd.Gone && !nd.Lost && !nd.Down && !nd.Paused && nd.Disk() == disk
	}
	return !slices.ContainsFunc(v.Members, func(o view.Member) bool { return !there(o.ID, o.Disk) }) &&
		!slices.ContainsFunc(v.Witnesses, func(o view.Witness) bool { return !there(o.ID, o.Disk) }) &&
		!slices.ContainsFunc(c.witnesses, func(x *cluster.Node) bool { return x.Gone || x.Disks > 1 })
}

// missingParts says which partition is not as it should be though the faults are over, or nothing.
func (m *Manager) missingParts(record *cluster.Made) string {
	if n := len(record.Partitions); n != m.Administrator.partitions() {
		return fmt.Sprintf("there are %d partitions, and should be %d", n, m.Administrator.partitions()) + m.Waiting()
	}
	if why := m.crowded(record.View); why != "" {
		return why
	}
	placement := m.placement(record.View)
	faults := m.promised(record.View)
	witnesses := faults
	if faults == 0 {
		witnesses = min(placement.Alone, record.Size()-1)
	}
	for i, p := range record.Partitions {
		nd := m.Nodes[p.Master-1]
		part, ok := nd.Shards[i].Protocol.(protocol.Partitioned)
		if !ok {
			return fmt.Sprintf("the master %d of partition %d does not run", p.Master, i)
		}
		if st := part.PartitionStatus(); !st.Serving || len(p.Formers) > 0 {
			return fmt.Sprintf("partition %d is not served by its master %d: %+v; it recovers from %v", i, p.Master, st, p.Formers)
		}
		if len(p.Backups) != faults || len(p.Witnesses) < witnesses {
			return fmt.Sprintf("partition %d has backups %v and witnesses %v, and should have %d and %d", i, p.Backups, p.Witnesses, faults, witnesses)
		}
		if home := m.Administrator.awayFromHome(record.View, i); home != "" {
			return fmt.Sprintf("the master %d of partition %d is not at %s, its home", p.Master, i, home)
		}
		for _, id := range p.Witnesses {
			if !m.Nodes[id-1].Witness.Serves(i, p.Term) {
				return fmt.Sprintf("witness %d does not serve partition %d in term %d", id, i, p.Term)
			}
		}
	}
	for _, nd := range m.Nodes {
		if nd.Witness == nil || !nd.Born || nd.Down || !nd.Witness.Intact(record) {
			continue
		}
		for _, life := range nd.Witness.Core.Lives() {
			if int(life.Partition) >= len(record.Partitions) || record.Partitions[life.Partition].Term != life.Term {
				return fmt.Sprintf("%s still has a life of term %d of partition %d, which has another term, or is none", nd.Name(), life.Term, life.Partition)
			}
		}
	}
	return ""
}

// crowded names a partition of which two keepers are at one site at rest, though there are sites enough with members
// and witnesses for all of them; or it is empty.
func (m *Manager) crowded(v view.View) string {
	p := m.Environment.Partitioned
	placement := m.placement(v)
	if !placement.Dedicated || p.Zones != nil || placement.Faults == 0 {
		return ""
	}
	var sites []string
	for _, member := range v.Members {
		witnessed := slices.ContainsFunc(v.Witnesses, func(w view.Witness) bool {
			nd := m.Nodes[w.ID-1]
			return w.Site == member.Site && !nd.Gone && !nd.Down && nd.Disk() == w.Disk && !slices.Contains(m.retiring(v), w.ID)
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
