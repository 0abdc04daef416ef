package curpraft

import (
	"maps"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
	"github.com/georegister/georegister/witness/cache"
)

// attempt is one at completing a command in one round trip. All of it is of one term: what a leader of another one
// answered, or a witness accepted in another one, proves nothing about it.
type attempt struct {
	term     uint64
	accepted quorum.Tally
	mark     uint64         // this member's own witness holds the command once the journal is durable up to there
	answer   *peerv1.Answer // nil: the leader has not answered, or waits for the commit
}

// Handed implements raft.Extension: while a command is on its way to the leader, it is on its way to all witnesses. If
// it does not get there, the client gets its answer from the log.
func (p *Protocol) Handed(c *peerv1.RaftCommand) {
	term := p.raft.Term()
	if a := p.attempts[c.Number]; a != nil && a.term == term {
		return // it goes to the leader again
	}
	delete(p.attempts, c.Number)
	raw := p.raft.Encode(c, "a command", nil)
	if p.raft.Config.View.Joint() || p.witness.life != term || len(raw) > cache.MaxRequest {
		p.raft.Took(pathUnrecorded)
		return
	}
	a := &attempt{term: term}
	switch accepted := p.accept(term, c, raw); {
	case accepted:
		a.accepted.Answer(p.raft.Incarnations, p.raft.Config.Self)
		a.mark = p.raft.Journal.Mark()
	case p.needed() == p.raft.Config.View.Size():
		return // all have to
	}
	p.attempts[c.Number] = a
	for _, id := range p.raft.Config.Nearest {
		m := p.message(peerv1.Kind_RECORD, c.Number, term)
		m.Raft = raw
		p.raft.Send(id, m)
	}
}

// needed is how many witnesses have to accept.
func (p *Protocol) needed() int {
	return superquorum(p.raft.Config.View.Size())
}

func (p *Protocol) onRecordReply(from view.MemberID, m *peerv1.Message) {
	if a := p.attempts[m.Op]; a != nil && a.term == m.Timestamp {
		a.accepted.Answer(p.raft.Incarnations, from)
		p.tryComplete(m.Op, a)
	}
}

func (p *Protocol) onSpeculated(m *peerv1.Message) {
	answer := &peerv1.Answer{}
	if answer.UnmarshalVT(m.Raft) == nil {
		p.speculated(m.Op, m.Timestamp, answer)
	}
}

// speculated takes the answer of the leader of a term.
func (p *Protocol) speculated(number, term uint64, answer *peerv1.Answer) {
	if a := p.attempts[number]; a != nil && a.term == term {
		a.answer = answer
		p.tryComplete(number, a)
	}
}

// tryComplete answers the client if the command survives whatever may come: each new leader finds it.
func (p *Protocol) tryComplete(number uint64, a *attempt) {
	if a.answer == nil || a.accepted.Count(p.raft.Incarnations) < p.needed() {
		return
	}
	delete(p.attempts, number)
	if p.raft.Waits(number) {
		p.raft.Took(pathFast)
		p.raft.Answer(number, a.answer, a.mark)
	}
}

// tickAttempts forgets those whose operation has ended otherwise.
func (p *Protocol) tickAttempts() {
	maps.DeleteFunc(p.attempts, func(number uint64, _ *attempt) bool { return !p.raft.Waits(number) })
}
