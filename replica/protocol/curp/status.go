package curp

import (
	"fmt"

	"github.com/georegister/georegister/replica/protocol"
)

// PartitionStatus implements protocol.Partitioned.
func (p *Protocol) PartitionStatus() protocol.PartitionStatus {
	s := protocol.PartitionStatus{
		Partition: p.index, Term: p.partition.Term, Role: p.role, Lost: p.lost != "", Why: p.lost,
		Last: p.store.Last(), Commit: p.store.Commit, Copying: !p.whole(), WholeTerm: p.store.Own.WholeTerm, NotedTerm: p.store.Own.NotedTerm, Fast: p.client.fast, Slow: p.client.slow,
	}
	if !p.testifies() { // an older copy may hold what was dropped since, too
		s.NotedTerm, s.WholeTerm = p.partition.Term, 0
	}
	if p.Doubted() && p.role == protocol.Master {
		s.Why = "it has just started, and waits for others to tell it that its disk is not an older copy"
	}
	if !p.active() {
		return s
	}
	if p.role != protocol.Master {
		return s
	}
	s.Unsynced = int(p.store.Last() - min(p.store.Commit, p.store.Last()))
	s.Serving = p.serving
	switch r := p.recovery; {
	case p.serving && p.Journal.Survives(p.served):
		s.Recovered = p.store.Own.Recovered
		s.Lease = p.now < p.leased()
	case p.serving:
	case p.hold != nil && p.strange() != 0:
		s.Why = fmt.Sprintf("it had no part in term %d, and nobody who had says that this never served", p.strange())
	case p.hold != nil:
		s.Why = "its view is not known to be held by a quorum of members"
	case r == nil:
		s.Restarted = true
		s.Why = "it restarted without backups: what its disk does not have is at the witnesses, for a later term to replay"
	default:
		s.Why = p.waitsFor(r)
	}
	if s.Recovered != p.partition.Term {
		for _, f := range p.partition.Formers {
			s.Needed = append(s.Needed, f.Term)
		}
	}
	for _, f := range p.followers {
		if f.holds() < p.store.Commit || !f.known || f.lacking {
			continue
		}
		s.Holding = append(s.Holding, f.id)
		if !f.backup && p.store.Last()-min(f.held, p.store.Last()) <= p.store.KeptEntries()/2 {
			s.CaughtUp = append(s.CaughtUp, f.id)
		}
	}
	return s
}

// Promised implements protocol.Partitioned: it is until when leases may last that this member granted, or handed on.
func (p *Protocol) Promised() protocol.Instant {
	if !p.ticked {
		return p.config.Promised
	}
	return max(p.promised, 1)
}

// waitsFor says what a recovery waits for.
func (p *Protocol) waitsFor(r *recovery) string {
	switch {
	case len(r.formers) > 0:
		return "no witness of a former term has told what it saved"
	case !p.heldByAll():
		return "not all backups hold what it recovered"
	}
	return "leases of a former term have not ended"
}
