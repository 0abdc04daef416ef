package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/view"
)

// acceptor is the state of one (algorithm 3, line 34): r_ack is what it has promised, r_voted what it has accepted; val
// and req are the state, with its table. The table makes it exactly-once: it has the last batch of each member and what
// is remembered of clients' sessions, agreed together with the value.
type (
	acceptor = base.Acceptor
	state    = base.State
)

// onRead serves PREPARE of a read (algorithm 3, lines 40 to 42): no state changes, and nothing is promised. What it
// tells may let a client have an answer, so it must survive a crash of this member.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	reply := p.About(peerv1.Kind_PAXOS_STATE, m, p.Load(m.Key))
	reply.RmwPaxos.Try = m.RmwPaxos.Try
	p.Reply(from, reply)
}

// onPrepare serves PREPARE of a write and PAXOS_PREP (algorithm 3, lines 37 to 39 and 43 to 47).
func (p *Protocol) onPrepare(from view.MemberID, m *peerv1.Message) {
	a, granted := p.grant(m.Key, base.BallotOf(m.RmwPaxos.Round))
	kind := peerv1.Kind_PAXOS_ACK
	if !granted {
		kind = peerv1.Kind_PAXOS_NACK
	}
	p.Reply(from, p.About(kind, m, a))
}

// grant promises a round: the next one for n = 0, else the one that is asked for. What was promised to this attempt
// already is promised again, so that a message may come twice.
func (p *Protocol) grant(key []byte, asked round) (acceptor, bool) {
	a := p.Load(key)
	switch {
	case sameID(asked, a.Promised) && (asked.Number == 0 || asked.Number == a.Promised.Number):
		return a, true
	case asked.Number == 0:
		a.Promised = numbered(asked, a.Promised.Number+1)
	case above(asked, a.Promised):
		a.Promised = asked
	default:
		return a, false
	}
	p.Save(key, a)
	return a, true
}

// onVote serves VOTE (algorithm 3, lines 48 to 57).
func (p *Protocol) onVote(from view.MemberID, m *peerv1.Message) {
	a, voted := p.vote(m.Key, base.BallotOf(m.RmwPaxos.Round), base.StateOf(m))
	p.Answer(from, m, a, voted)
}

// vote accepts a proposal unless a higher round is promised, and reports whether this member has voted for it: it may
// have done so before. The vote grants the proposer its next round (section 5.8, fast writes).
func (p *Protocol) vote(key []byte, r round, s state) (acceptor, bool) {
	a := p.Load(key)
	switch {
	case a.Accepted == r && a.AcceptedIn == p.Config.View.Epoch:
		return a, true
	case above(r, a.Promised), r == a.Promised:
	default:
		return a, false
	}
	a.Promised, a.Accepted, a.AcceptedIn, a.State = successor(r), r, p.Config.View.Epoch, s
	p.Save(key, a)
	return a, true
}

// learn takes over a state that is known to be chosen, as if its VOTE had come late: the member has missed it. Whoever
// may propose something else has seen it or a later one, so a higher promise does not matter.
func (p *Protocol) learn(key []byte, r round, s state) {
	a := p.Load(key)
	if r.Number == 0 || above(a.Accepted, r) || a.Accepted == r && a.AcceptedIn >= max(p.Config.View.Since, 1) {
		return
	}
	p.Took(pathLearned)
	if above(r, a.Promised) {
		a.Promised = r
	}
	a.Accepted, a.AcceptedIn, a.State = r, p.Config.View.Epoch, s
	p.Save(key, a)
}

// Adopt implements member.Inner. What another member has promised is promised here from now on. Its state is a proposal
// to be heeded, and no vote of this member: a minority may have voted for it, and with copies that count it would seem
// to be chosen (docs/protocols.md, RMWPaxos).
func (p *Protocol) Adopt(key, encoded []byte) error {
	return p.AdoptMerged(key, encoded, func(ours, theirs acceptor) acceptor {
		merged := ours
		merged.Promised = join(ours.Promised, theirs.Promised)
		if above(theirs.Accepted, ours.Accepted) {
			merged.Accepted, merged.AcceptedIn, merged.State = theirs.Accepted, 0, theirs.State
		}
		return merged
	})
}
