package members

import (
	"slices"
	"time"

	"github.com/georegister/georegister/replica/membership"
	"github.com/georegister/georegister/replica/simulator/check"
	"github.com/georegister/georegister/replica/simulator/kernel"
	"github.com/georegister/georegister/replica/view"
)

// rescue is what an administrator does about a lost quorum, once all members that are left and the witnesses that
// are have said how they are.
func (m *Manager) rescue(s membership.Snapshot) {
	v := &m.Made[m.Record]
	told := map[view.MemberID]bool{}
	for _, r := range s.Members {
		told[r.Member] = r.Digest == v.Digest
	}
	for _, r := range s.Witnesses {
		told[r.Witness] = true
	}
	m.waits = nil
	for _, nd := range m.Nodes {
		id := nd.Config.Self
		_, witness := v.Witness(id)
		if (witness || v.Index(id) >= 0) && !nd.Gone && !told[id] {
			m.waits = append(m.waits, nd.Name()+" is to say how it is")
		}
	}
	if len(m.waits) > 0 {
		return
	}
	s.Witnesses = slices.DeleteFunc(s.Witnesses,
		func(r membership.WitnessReport) bool { return m.Nodes[r.Witness-1].Gone })
	s.Members = slices.DeleteFunc(s.Members, func(r membership.MemberReport) bool { return m.Nodes[r.Member-1].Gone })
	d, err := membership.RecoverPartitions(s, nil)
	if err == nil && len(d.Lost) > 0 {
		d, err = membership.RecoverPartitions(s, d.Lost)
	}
	if err != nil {
		m.Fail("%w", err)
		return
	}
	m.Breaches(check.Rescue(s, d))
	m.account(s, &d)
	m.QuorumLoss.GivenUp, m.QuorumLoss.At = true, m.Now
	m.Masters.GivesUp()
	m.Took("curp.rescued")
	m.unaccompanied = m.Environment.Partitioned.Placement.Dedicated && len(d.View.Witnesses) == 0 &&
		m.Draws(kernel.ForManager, 3).Chance(500)
	m.Diagram.Remark("the lost quorum is given up: partitions %v go on from learners, %v are empty, "+
		"of %v something is lost", d.Behind, d.Emptied,
		d.Shortened)
	m.write(d.View)
}

// suppose has the administrator decide what becomes of partitions if a quorum was lost now, of which only the
// decision is judged: it is a function of what members have said.
func (m *Manager) suppose(s membership.Snapshot) {
	v := &m.Made[m.Record]
	if !m.supposes.Chance(150) || len(s.View.Members) < 2 {
		return
	}
	told := map[view.MemberID]bool{}
	for _, r := range s.Members {
		told[r.Member] = r.Digest == v.Digest
	}
	left := map[view.MemberID]bool{}
	for range m.supposes.Between(1, time.Duration(len(s.View.Members)-1)) {
		if id := s.View.Members[m.supposes.Below(len(s.View.Members))].ID; told[id] {
			left[id] = true
		}
	}
	s.Members = slices.DeleteFunc(slices.Clone(s.Members),
		func(r membership.MemberReport) bool { return !left[r.Member] })
	s.Witnesses = slices.DeleteFunc(slices.Clone(s.Witnesses),
		func(membership.WitnessReport) bool { return m.supposes.Chance(500) })
	answers := func(id view.MemberID) bool {
		return slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool {
			return r.Member == id && r.Disk == s.View.Members[s.View.Index(id)].Disk
		})
	}
	ahead := slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool { return r.Epoch > s.View.Epoch })
	if len(left) == 0 || ahead || s.View.Quorum(answers) || !slices.ContainsFunc(s.View.IDs(), answers) {
		return
	}
	d, err := membership.RecoverPartitions(s, nil)
	if err == nil && len(d.Lost) > 0 {
		d, err = membership.RecoverPartitions(s, d.Lost)
	}
	if err == nil {
		err = check.Rescue(s, d)
	}
	m.Breaches(err)
}

// supposeTorn has the administrator decide as if a member held another view of the recorded one's epoch, of which only
// the decision is judged.
func (m *Manager) supposeTorn(s membership.Snapshot) {
	if len(s.Members) == 0 || !m.tears.Chance(50) {
		return
	}
	s.Members = slices.Clone(s.Members)
	r := &s.Members[m.tears.Below(len(s.Members))]
	r.Digest, r.Epoch = "another", s.View.Epoch
	if d := membership.Decide(s); d.Changed() {
		m.Breaches(check.Succession(s.View, d.Next, false))
	}
}

// supposeCut has the administrator decide as if a master and its backups did not hear each other, and another member
// had lost its disk, of which only the decision is judged.
func (m *Manager) supposeCut(s membership.Snapshot) {
	if !m.cuts.Chance(50) {
		return
	}
	p := s.View.Partitions[m.cuts.Below(len(s.View.Partitions))]
	lost := s.View.Members[m.cuts.Below(len(s.View.Members))].ID
	s.Members = slices.Clone(s.Members)
	for i := range s.Members {
		r := &s.Members[i]
		backup := slices.Contains(p.Backups, r.Member)
		if r.Member == lost && !backup && lost != p.Master {
			r.Disk = "another"
		}
		r.Hears = slices.DeleteFunc(slices.Clone(r.Hears), func(id view.MemberID) bool {
			return r.Member == p.Master && slices.Contains(p.Backups, id) || backup && id == p.Master
		})
	}
	m.Breaches(check.Yields(s, membership.Decide(s)))
}

// account counts what is lost, and sees to it that it is no more than it must be: a partition is whole if its
// master is left, or one of its backups and a witness of each term that is not recovered, and it is not empty if
// somebody is left with a whole copy.
func (m *Manager) account(s membership.Snapshot, d *membership.Rescue) {
	v := &m.Made[m.Record]
	m.QuorumLoss.Whole = v.View
	left := func(id view.MemberID) bool { return !m.Nodes[id-1].Gone }
	tells := func(id view.MemberID) bool { return left(id) && m.Nodes[id-1].Witness.Intact(v) }
	for i, p := range v.Partitions {
		empty, behind, shortened := slices.Contains(d.Emptied, i), slices.Contains(d.Behind, i),
			slices.Contains(d.Shortened, i)
		m.QuorumLoss.Incomplete[i] = empty || behind || shortened
		kept := left(p.Master) || slices.ContainsFunc(p.Backups, left)
		copied := func(id view.MemberID) bool { return left(id) && copies(s, id, i) }
		switch {
		case (empty || behind) && kept && len(p.Formers) == 0:
			m.Fail("partition %d goes on without what its members had, and one of %v %v is left", i, p.Master,
				p.Backups)
		case empty && slices.ContainsFunc(v.Members, func(member view.Member) bool { return copied(member.ID) }):
			m.Fail("partition %d begins again empty, and somebody is left with a whole copy", i)
		case behind && !copied(d.View.Partitions[i].Master):
			m.Fail("partition %d goes on from member %d, which has no whole copy", i, d.View.Partitions[i].Master)
		case shortened && len(p.Formers) == 0 && (len(p.Backups) > 0 && left(p.Master) ||
			slices.ContainsFunc(p.Witnesses, tells)):
			m.Fail("something of partition %d is said to be lost, and its master or one of the "+
				"witnesses %v is left", i, p.Witnesses)
		case empty:
			m.Took("curp.rescued.empty")
		case behind:
			m.Took("curp.rescued.behind")
		case shortened:
			m.Took("curp.rescued.shortened")
		default:
			m.Took("curp.rescued.whole")
		}
	}
}

// copies reports whether a member says that it has all of a partition as it was at some moment, and not as it was
// before there was anything.
func copies(s membership.Snapshot, id view.MemberID, partition int) bool {
	return slices.ContainsFunc(s.Members, func(r membership.MemberReport) bool {
		if r.Member != id || partition >= len(r.Partitions) {
			return false
		}
		p := r.Partitions[partition]
		return !p.Lost && !p.Copying && (p.Length > 0 || p.WholeTerm > 0)
	})
}
