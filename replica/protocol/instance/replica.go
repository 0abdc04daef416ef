package instance

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/view"
)

// instanceForVote finds or begins the instance that a message asks a vote for. It returns nil if there is nothing to
// vote on any more.
func (p *Core) instanceForVote(o *object, from view.MemberID, m *peerv1.Message) *instance {
	id := idOf(m.Instance.GetId())
	if id.number == 0 {
		return nil
	}
	if o.executed(id.writer) >= id.number && !p.mistakes.ForgetExecuted {
		p.tellExecuted(o, id, from, m.Op, true)
		return nil
	}
	return o.instance(p, id)
}

func (p *Core) refuse(i *instance, from view.MemberID, m *peerv1.Message) {
	reply := p.Message(peerv1.Kind_NACK, m.Op, m.Key)
	reply.Instance = p.parts.New()
	reply.Instance.Id, reply.Instance.Ballot = m.Instance.Id, i.ballot
	p.SendDurably(from, reply)
}

// onPreAccept is algorithm 4, lines 2 to 7.
func (p *Core) onPreAccept(o *object, from view.MemberID, m *peerv1.Message) {
	i := p.instanceForVote(o, from, m)
	if i == nil {
		return
	}
	switch {
	case i.ballot > 0:
		p.refuse(i, from, m)
		return
	case i.status > peerv1.Status_PRE_ACCEPTED:
		return // the coordinator is further than this message
	case i.status < peerv1.Status_PRE_ACCEPTED:
		initial := attributesOf(m)
		i.attributes = initial
		i.deps, i.seq = cut(initial.deps.join(o.depsOf(i)), i.id), max(initial.seq, p.seqOf(i))
		if mine := p.load(o.key); initial.base.Carstamp.Less(mine.Carstamp) {
			i.base = mine
		}
		i.fastVote = p.mayBeFast() && (m.Instance.Alone || !p.fastQuorumOfTwo() && i.sameAs(&initial))
		i.status = peerv1.Status_PRE_ACCEPTED
		p.saveInstance(i)
	}
	reply := p.about(i, peerv1.Kind_PRE_ACCEPT_OK)
	reply.Op, reply.Instance.Commands = m.Op, nil
	if i.base.Carstamp == stamp.Of(m).Carstamp {
		reply.Present, reply.Value = false, nil // the coordinator has it
	}
	p.SendDurably(from, reply)
	if p.mistakes.RecoverInitial {
		i.attributes = attributesOf(m)
		p.saveInstance(i)
	}
}

// mayBeFast reports whether what is pre-accepted in this view may be committed on the fast path. If not, nobody agrees
// to that: recovery would take it for committed.
func (p *Core) mayBeFast() bool { return p.Incarnations.HasFast() || p.mistakes.KeepAgreed }

// onAccept is algorithm 4, lines 8 to 10, with the ballots of algorithm 6: one for what was promised, one for
// what was accepted. With a single one, recovery can choose a value that a lower ballot only prepared.
func (p *Core) onAccept(o *object, from view.MemberID, m *peerv1.Message) {
	i := p.instanceForVote(o, from, m)
	if i == nil {
		return
	}
	if m.Instance.Ballot < i.ballot {
		p.refuse(i, from, m)
		return
	}
	if i.status != peerv1.Status_COMMITTED {
		if m.Instance.Ballot > i.ballot {
			p.yield(i)
		}
		i.adopt(m)
		i.status, i.ballot, i.accepted = peerv1.Status_ACCEPTED, m.Instance.Ballot, m.Instance.Ballot
		p.saveInstance(i)
	}
	reply := p.Message(peerv1.Kind_ACCEPT_OK, m.Op, m.Key)
	reply.Instance = p.parts.New()
	reply.Instance.Id = m.Instance.Id
	p.SendDurably(from, reply)
}

// onCommit is algorithm 4, lines 11 and 12. Anyone may learn a decision; it is no vote.
func (p *Core) onCommit(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.GetId())
	if id.number == 0 {
		return
	}
	if o.executed(id.writer) >= id.number {
		p.tellExecuted(o, id, from, m.Op, false)
		return
	}
	i := o.instance(p, id)
	i.reportTo = from
	if i.status == peerv1.Status_COMMITTED {
		return // it waits for what it depends on
	}
	p.learnCommit(i, m)
}

// learnCommit takes a decision over: it is a fact, whoever tells it.
func (p *Core) learnCommit(i *instance, m *peerv1.Message) {
	i.adopt(m)
	i.status = peerv1.Status_COMMITTED
	if d := i.coordination; d != nil && d.phase != committed {
		d.enter(p, committed) // another member finished it
		p.AskAll(&d.asked)
	}
	p.settleCommit(i)
}

// tellExecuted says that an instance is executed here, and what it answered if that is still known. A member
// that asked for a vote is behind and gets the key's state: the instance itself is gone.
func (p *Core) tellExecuted(o *object, id instanceID, to view.MemberID, op uint64, state bool) {
	p.SendDurably(to, p.executedMessage(o, id, op, state))
}

func (p *Core) executedMessage(o *object, id instanceID, op uint64, state bool) *peerv1.Message {
	m := p.Message(peerv1.Kind_EXECUTED, op, o.key)
	m.Instance = p.parts.New()
	m.Instance.Id = p.name(id)
	if e := o.execution(id.writer); idOf(e.GetId()) == id {
		m.Instance.Answers = e.Answers
	}
	if state {
		m.Instance.State = o.state
	}
	return m
}
