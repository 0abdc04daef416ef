package instance

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/view"
)

// acceptor votes on instances, whoever coordinates them.
type acceptor struct{ *store }

// onQuestion votes on an instance, or says that it is executed here: then there is nothing to vote on any more.
func (p *acceptor) onQuestion(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.Id)
	if o.executed(id.writer) >= id.number {
		p.tellExecuted(o, id, from, m.Op, true)
		return
	}
	switch i := p.instance(o, id); m.Kind {
	case peerv1.Kind_PRE_ACCEPT:
		p.onPreAccept(i, from, m)
	case peerv1.Kind_ACCEPT:
		p.onAccept(i, from, m)
	case peerv1.Kind_PREPARE:
		p.onPrepare(i, from, m)
	case peerv1.Kind_VALIDATE:
		p.onValidate(i, from, m)
	}
}

func (p *acceptor) refuse(i *instance, from view.MemberID, m *peerv1.Message) {
	reply := p.message(peerv1.Kind_NACK, m.Op, i.object, i.id)
	reply.Instance.Ballot = i.ballot
	p.SendDurably(from, reply)
}

// onPreAccept is algorithm 4, lines 2 to 7.
func (p *acceptor) onPreAccept(i *instance, from view.MemberID, m *peerv1.Message) {
	switch {
	case i.ballot > 0:
		p.refuse(i, from, m)
		return
	case i.status > peerv1.Status_PRE_ACCEPTED:
		return // the coordinator is further than this message
	case i.status < peerv1.Status_PRE_ACCEPTED:
		initial := attributesOf(m)
		i.attributes = initial
		i.join(&attributes{deps: i.object.depsOf(i, false), seq: p.seqOf(i), base: p.load(i.object.key)})
		i.deps = cut(i.deps, i.id)
		// Alone: one fast quorum is asked, and what its members add is no obstacle (merges).
		i.agreed = p.mayAgree() && (m.Instance.Alone || !p.merges() && i.sameAs(&initial))
		i.status = peerv1.Status_PRE_ACCEPTED
		p.saveInstance(i)
	}
	reply := p.about(i, peerv1.Kind_PRE_ACCEPT_OK)
	reply.Op, reply.Instance.Commands = m.Op, nil
	if i.base.Carstamp == wire.Of(m).Carstamp {
		reply.Present, reply.Value = false, nil // the coordinator has it
	}
	p.SendDurably(from, reply)
}

// onAccept is algorithm 4, lines 8 to 10, with the ballots of algorithm 6: one for what was promised, one for
// what was accepted. With a single one, recovery can choose a value that a lower ballot only prepared.
func (p *acceptor) onAccept(i *instance, from view.MemberID, m *peerv1.Message) {
	if m.Instance.Ballot < i.ballot {
		p.refuse(i, from, m)
		return
	}
	if i.status != peerv1.Status_COMMITTED {
		if m.Instance.Ballot > i.ballot {
			p.yield(i)
		}
		p.keepVote(i)
		i.adopt(m)
		i.status, i.ballot, i.accepted = peerv1.Status_ACCEPTED, m.Instance.Ballot, m.Instance.Ballot
		p.saveInstance(i)
	}
	p.SendDurably(from, p.message(peerv1.Kind_ACCEPT_OK, m.Op, i.object, i.id))
}

// onPrepare is algorithm 6.
func (p *acceptor) onPrepare(i *instance, from view.MemberID, m *peerv1.Message) {
	if m.Instance.Ballot < i.ballot || m.Instance.Ballot == 0 { // an equal one is asked again; 0 is a mere query
		p.refuse(i, from, m)
		return
	}
	i.ballot = m.Instance.Ballot
	i.seen = max(i.seen, i.ballot)
	p.saveInstance(i)
	p.yield(i)
	reply := p.about(i, peerv1.Kind_PREPARE_OK)
	reply.Op = m.Op
	p.SendDurably(from, reply)
}
