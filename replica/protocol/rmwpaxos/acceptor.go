package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// onRead serves PREPARE of a read (algorithm 3, lines 40 to 42): no state changes, and nothing is promised. What it
// tells may let a client have an answer, so it must survive a crash of this member.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	a := p.load(m.Key)
	reply := p.about(peerv1.Kind_PAXOS_STATE, m, a, roundOf(m.RmwPaxos.Voted))
	reply.RmwPaxos.Round = a.ack.wire()
	reply.RmwPaxos.Try = m.RmwPaxos.Try
	p.reply(from, reply)
}

// onPrepare serves PREPARE of a write and PAXOS_PREP (algorithm 3, lines 37 to 39 and 43 to 47).
func (p *Protocol) onPrepare(from view.MemberID, m *peerv1.Message) {
	a, granted := p.grant(m.Key, roundOf(m.RmwPaxos.Round))
	kind := peerv1.Kind_PAXOS_ACK
	if !granted {
		kind = peerv1.Kind_PAXOS_NACK
	}
	reply := p.about(kind, m, a, roundOf(m.RmwPaxos.Voted))
	reply.RmwPaxos.Round = a.ack.wire()
	p.reply(from, reply)
}

// grant promises a round: the next one for n = 0, else the one that is asked for. What was promised to this attempt
// already is promised again, so that a message may come twice.
func (p *Protocol) grant(key []byte, asked round) (acceptor, bool) {
	a := p.load(key)
	switch {
	case asked.sameID(a.ack) && (asked.n == 0 || asked.n == a.ack.n):
		return a, true
	case asked.n == 0:
		a.ack = asked.numbered(a.ack.n + 1)
	case asked.above(a.ack), p.mistakes.EqualNumbers && asked.n == a.ack.n:
		a.ack = asked
	default:
		return a, false
	}
	p.save(key, a)
	return a, true
}

// onVote serves VOTE (algorithm 3, lines 48 to 57).
func (p *Protocol) onVote(from view.MemberID, m *peerv1.Message) {
	r := roundOf(m.RmwPaxos.Round)
	a, voted := p.vote(m.Key, r, stateOf(m))
	reply := p.message(peerv1.Kind_PAXOS_VOTED, m.Op, m.Key)
	reply.RmwPaxos.Round = r.wire()
	if !voted {
		reply.Kind, reply.RmwPaxos.Round = peerv1.Kind_PAXOS_NACK, a.ack.wire()
	}
	p.reply(from, reply)
}

// vote accepts a proposal unless a higher round is promised, and reports whether this member has voted for it: it may
// have done so before. The vote grants the proposer its next round (section 5.8, fast writes).
func (p *Protocol) vote(key []byte, r round, s state) (acceptor, bool) {
	a := p.load(key)
	switch {
	case a.voted == r && a.votedIn == p.Config.View.Epoch:
		return a, true
	case r.above(a.ack), r == a.ack, p.mistakes.EqualNumbers && r.n == a.ack.n:
	default:
		return a, false
	}
	a.ack, a.voted, a.votedIn, a.state = r.next(), r, p.Config.View.Epoch, s
	p.save(key, a)
	return a, true
}

// learn takes over a state that is known to be chosen, as if its VOTE had come late: the member has missed it. Whoever
// may propose something else has seen it or a later one, so a higher promise does not matter.
func (p *Protocol) learn(key []byte, r round, s state) {
	a := p.load(key)
	if r.n == 0 || a.voted.above(r) || a.voted == r && a.votedIn >= max(p.Config.View.Since, 1) {
		return
	}
	p.Took(pathLearned)
	if r.above(a.ack) {
		a.ack = r
	}
	a.voted, a.votedIn, a.state = r, p.Config.View.Epoch, s
	p.save(key, a)
}

// about tells of an acceptor's state, which is left out if the asker has that of the same round.
func (p *Protocol) about(kind peerv1.Kind, to *peerv1.Message, a acceptor, has round) *peerv1.Message {
	m := p.message(kind, to.Op, to.Key)
	m.RmwPaxos.Voted, m.RmwPaxos.VotedIn = a.voted.wire(), a.votedIn
	if a.voted == has {
		m.Same = true
	} else {
		setState(m, a.state)
	}
	return m
}

// reply leaves once what this member's acceptor holds of the key is durable.
func (p *Protocol) reply(to view.MemberID, m *peerv1.Message) {
	durable := p.mistakes.AckBeforePersist || p.durable(m.Key)
	if !durable {
		p.Took(pathReplyWaits)
	}
	p.SendWhen(durable, to, m)
}
