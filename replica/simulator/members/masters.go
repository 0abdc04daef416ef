package members

import (
	"slices"
	"strings"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	witnessv1 "github.com/georegister/georegister/api/witness/v1"
	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/cluster"
	"github.com/georegister/georegister/replica/view"
)

// staleRounds is for how many rounds of the manager an answer counts.
const staleRounds = 8

// alarm has somebody be said not to be heard who is, in so many of 1000 rounds.
func (m *Manager) alarm(chance int) {
	m.Unheard = cluster.None
	if v := &m.Made[m.Record]; !m.Settled && m.Mishap(m.Draw, chance) {
		p := &v.Partitions[m.Draw.Below(len(v.Partitions))]
		m.Unheard = int(p.Master) - 1
		if n := len(p.Witnesses); n > 0 && m.Draw.Chance(500) {
			m.Unheard = int(p.Witnesses[m.Draw.Below(n)]) - 1
		}
		m.Took("curp.falsely-unheard")
	}
}

// stepOfPartitions is step where there are masters.
func (m *Manager) stepOfPartitions(s membership.Snapshot) {
	if m.QuorumLoss.Happened && !m.QuorumLoss.GivenUp {
		m.rescue(s)
		return
	}
	m.suppose(s)
	m.supposeTorn(s)
	m.supposeCut(s)
	if m.moveMembers(&s) {
		return
	}
	s.Named = append(s.Named, check.Namesakes(s.View)...)
	d := m.decide(s)
	m.waits = d.Waits
	switch {
	case d.Kind == membership.Finished, d.Kind == membership.Abandoned:
		m.Take(m.Change, d)
		return
	case d.Changed() && !slices.Equal(d.Next.Witnesses, s.View.Witnesses):
		m.write(d.Next)
		return
	case m.replaceWitness() || m.succeed(&s):
		return
	case d.Rebuild && m.Losses > 0:
		m.Took("change.record-behind")
		m.Diagram.Remark("the record is not what members hold")
		m.LoseRecord()
		return
	}
	if d.Kind == membership.Begun {
		if m.propose(m.Change, d.Next) {
			return
		}
	} else if d.Changed() {
		m.Diagram.Remark("%s", strings.Join(d.Lines(), "; "))
		m.noteDecision(&s, d)
		return
	}
	m.direct(s)
}

// snapshot is what the manager decides from.
func (m *Manager) snapshot() membership.Snapshot {
	s := membership.Snapshot{View: m.Made[m.Record].View, Fragments: m.fragments()}
	if p := m.Environment.Partitioned; p != nil {
		s.Placement, s.Retiring = m.placement(s.View), m.retiring(s.View)
		s.Placement.Domains = p.Domains(s.View, m.Environment.Network.Sites)
		s.Placement.Homes, s.Placement.Partitions = slices.Clone(m.Administrator.homes), m.Administrator.partitions()
	}
	for i := range m.answers {
		r := &m.answers[i]
		nd := m.Nodes[i]
		switch {
		case nd.Witness != nil && nd.Born:
			// That a disk is gone is known at once, as by a volume that is: what else is said may be old.
			report := membership.WitnessReport{Witness: nd.Config.Self, Disk: nd.Disk()}
			if r.Witness != nil && r.Witness.Disk == report.Disk {
				report.Lives = r.Witness.Lives
				s.Witnesses = append(s.Witnesses, report)
			} else if entry, known := s.View.Witness(report.Witness); known && entry.Disk != report.Disk {
				s.Witnesses = append(s.Witnesses, report)
			}
		case r.Member.Member == 0, m.Environment.Partitioned != nil && m.Now-r.At > staleRounds*m.pace.For+m.pace.Size:
		default:
			s.Members = append(s.Members, r.Member)
		}
	}
	return s
}

// decided are the paths of what becomes of a partition, or of all.
var decided = map[membership.Kind]string{
	membership.ViewSuperseded: "curp.torn", membership.MasterRecovered: "curp.recovered",
	membership.BackupReplaced: "curp.backup-replaced", membership.WitnessReplaced: "curp.witness-replaced",
}

// noteDecision records a view, and counts what it does.
func (m *Manager) noteDecision(s *membership.Snapshot, d membership.Decision) {
	next := d.Next
	next.Partitions = slices.Clone(next.Partitions)
	for _, change := range d.Changes {
		if path, counts := decided[change.Kind]; counts {
			m.Took(path)
		}
	}
	if len(next.Partitions) > len(s.View.Partitions) {
		m.TookWithFaults("curp.split")
	}
	for i := range s.View.Partitions {
		before, after := &s.View.Partitions[i], &next.Partitions[i]
		switch {
		case after.Term == before.Term:
			continue
		case after.Master != before.Master:
			m.noteMaster(s, i, before, after)
		case len(after.Backups) > len(before.Backups):
			m.Took("curp.backup-added")
		}
		if len(after.Backups) < min(len(before.Backups), s.Placement.Faults) {
			m.Fail("partition %d has the backups %v in term %d, and goes on with %v", i, before.Backups, before.Term, after.Backups)
		}
	}
	m.write(next)
}

// noteMaster counts why a partition gets another master, and sees to it that there is a reason.
func (m *Manager) noteMaster(s *membership.Snapshot, i int, before, after *view.Partition) {
	entry := s.View.Members[s.View.Index(before.Master)]
	lost := slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool {
		return r.Member == before.Master && (i < len(r.Partitions) && r.Partitions[i].Lost || r.Disk != entry.Disk)
	})
	if !s.Suspected(before.Master) && !lost {
		m.noteTaken(s, i, before, after)
		return
	}
	m.TookWithFaults("curp.failover")
	if len(before.Formers) > 0 {
		m.Took("curp.recovering-failover")
	}
}

// noteTaken counts why a partition is taken from a master that a quorum hears, and sees to it that there is a reason.
func (m *Manager) noteTaken(s *membership.Snapshot, i int, before, after *view.Partition) {
	heir := slices.Contains(before.Backups, after.Master)
	switch {
	case cutOff(s, before, after.Master):
		m.Took("curp.cut-off")
		return
	case len(before.Formers) > 0: // it has not served
		m.Took("curp.taken-over")
		return
	case !heir:
		m.Fail("partition %d is taken from its master %d, which a quorum hears", i, before.Master)
	}
	m.Took("curp.handover")
	entry := s.View.Members[s.View.Index(before.Master)]
	if drained := entry.Leaving && !s.Abandon || entry.Joining && s.Abandon; drained {
		return
	}
	if home := m.Administrator.homeOf(s.View, i); s.View.Members[s.View.Index(after.Master)].Site == home {
		m.Administrator.noteMove(s.View, i)
	} else {
		m.Fail("partition %d is taken from its master %d, which a quorum hears, and is not given to its home", i, before.Master)
	}
}

// cutOff reports whether a master is linked to fewer members than it has backups, and than its successor is.
func cutOff(s *membership.Snapshot, before *view.Partition, successor view.MemberID) bool {
	deaf := func(id, other view.MemberID) bool { // it says that it does not hear the other
		return slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool { return r.Member == id && !slices.Contains(r.Hears, other) })
	}
	linked := func(id, other view.MemberID) bool { return id == other || !deaf(id, other) || !deaf(other, id) }
	links := map[view.MemberID]int{}
	for _, member := range s.View.Members {
		for _, id := range []view.MemberID{before.Master, successor} {
			if s.Alive(member.ID) && linked(id, member.ID) {
				links[id]++
			}
		}
	}
	return links[before.Master] < links[successor] && links[before.Master] <= len(before.Backups) // itself among them
}

// replaceWitness has another one come for a witness whose disk is lost, and reports whether it did.
func (m *Manager) replaceWitness() bool {
	v := &m.Made[m.Record]
	for _, entry := range v.Witnesses {
		nd := m.Nodes[entry.ID-1]
		replaced := succeeded(v.View, entry) || slices.Contains(m.retiring(v.View), entry.ID) // that has no site any more
		if nd.Disk() == entry.Disk || nd.Gone || replaced || !v.Held || v.Joint() || m.Change != nil || entry.Beside != 0 && m.Nodes[entry.Beside-1].Lost {
			continue
		}
		return m.enlist(nd.Site, entry.Beside, entry.ID)
	}
	return m.restoreWitness()
}

// enlist has a witness come to a site, beside a member or alone, in the place of one that it follows or of nobody, and
// reports whether there was one to come.
func (m *Manager) enlist(site int, beside, follows view.MemberID) bool {
	spare := m.recruit()
	if spare == nil {
		return false
	}
	m.Employ(spare, site, beside)
	spare.Witness.Follows = follows
	next, err := membership.ChangeWitnesses(m.Made[m.Record].View, []view.Witness{spare.Witness.Entry()}, nil)
	if err != nil {
		m.Fail("%w", err)
		return true
	}
	m.write(next)
	return true
}

// restoreWitness has a witness come to a member or, if they are dedicated, a site that has lost its own with a quorum,
// and reports whether it did.
func (m *Manager) restoreWitness() bool {
	v := &m.Made[m.Record]
	if !m.QuorumLoss.GivenUp || !v.Held || v.Joint() || m.Change != nil || m.unaccompanied && !m.Settled {
		return false
	}
	for _, member := range v.Members {
		beside := member.ID
		if m.Environment.Partitioned.Placement.Dedicated {
			beside = 0
		}
		if slices.ContainsFunc(v.Witnesses, func(x view.Witness) bool { return x.Beside == beside && x.Site == member.Site }) {
			continue
		}
		return m.enlist(m.Nodes[member.ID-1].Site, beside, 0)
	}
	return false
}

// direct has witnesses begin and end lives. Orders are lost, late or doubled as calls are.
func (m *Manager) direct(s membership.Snapshot) {
	start, end := membership.Lives(s)
	m.Breaches(check.Lives(s, start, end))
	for _, life := range start {
		m.Took("curp.start")
		entry, _ := s.View.Witness(life.Witness)
		m.order(life, &witnessv1.Message{Kind: witnessv1.Kind_START, Disk: entry.Disk})
	}
	for _, life := range end {
		m.Took("curp.end")
		m.order(life, &witnessv1.Message{Kind: witnessv1.Kind_END})
	}
}

func (m *Manager) order(life membership.Life, q *witnessv1.Message) {
	m.orders++
	q.Op, q.Partition, q.Term = m.orders, uint32(life.Partition), life.Term
	nd := m.Nodes[life.Witness-1]
	send := func(after time.Duration) {
		m.After(after, func() {
			if !nd.Down {
				nd.Input(cluster.Input{Message: &peerv1.Message{Kind: peerv1.Kind_WITNESS, Witness: q}})
			}
		})
	}
	if m.Settled {
		send(0)
		return
	}
	if m.Draw.Chance(m.pace.Rate) {
		return
	}
	send(m.Draw.Between(0, m.pace.Size))
	if m.Mishap(m.Draw, 100) { // long on its way
		send(m.Draw.Between(0, 20*m.Environment.Retry))
	}
}
