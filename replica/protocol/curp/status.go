package curp

import (
	"github.com/georegister/georegister/replica/protocol"
)

// PartitionStatus implements protocol.Partitioned.
func (p *Protocol) PartitionStatus() protocol.PartitionStatus {
	own, master := p.store.Own, p.term.master
	s := protocol.PartitionStatus{
		Partition: p.index, Term: p.partition.Term, Role: p.role, Lost: p.lost != "", Why: p.lost,
		Last: p.store.Last(), Commit: p.store.Commit, Copying: !p.complete(),
		WholeTerm: own.WholeTerm, NotedTerm: own.NotedTerm, Fast: p.client.fast, Slow: p.client.slow,
	}
	if !p.testifies() { // an older copy may hold what was dropped since, too
		s.NotedTerm, s.WholeTerm = p.partition.Term, 0
	}
	if p.role == protocol.Backup && p.active() {
		s.Leased = p.backup.leaseUntil
	}
	if p.role != protocol.Master || !p.active() {
		if p.role == protocol.Master && p.Doubted() {
			s.Why = "it has just started, and waits for others to tell it that its disk is not an older copy"
		}
		return s
	}
	s.Unsynced = int(s.Last - min(s.Commit, s.Last))
	s.Serving = master.serving
	switch {
	case s.Serving && p.Journal.Survives(master.served):
		s.Recovered = own.Recovered
		s.Leased = master.leased()
	case s.Serving:
	case p.term.recovery == nil && !p.term.confirming:
		s.Restarted = true
		s.Why = "it restarted without backups: what its disk does not have is at the witnesses, for a later term " +
			"to replay"
	default:
		s.Why = p.term.waitsFor()
	}
	if s.Recovered != p.partition.Term {
		for _, f := range p.partition.Formers {
			s.Needed = append(s.Needed, f.Term)
		}
	}
	for _, f := range master.followers {
		if !f.answered || f.partial || f.last < s.Commit {
			continue
		}
		s.Holding = append(s.Holding, f.id)
		if !f.backup && s.Last-min(f.last, s.Last) <= p.store.KeptEntries()/2 {
			s.CaughtUp = append(s.CaughtUp, f.id)
		}
	}
	return s
}
