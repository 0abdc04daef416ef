package caspaxos

import (
	"cmp"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/view"
)

// above orders ballots: by number, then by the process that proposes. The zero ballot is below all.
func above(b, c base.Ballot) bool {
	return cmp.Or(cmp.Compare(b.Number, c.Number), cmp.Compare(b.Proposer, c.Proposer)) > 0
}

// promise promises a ballot unless a higher one is promised, and reports whether it has: a message may come twice.
func (p *Protocol) promise(key []byte, b base.Ballot) (base.Acceptor, bool) {
	a := p.Load(key)
	if above(b, a.Promised) {
		a.Promised = b
		p.Save(key, a)
	}
	return a, a.Promised == b
}

// accept accepts a state unless a higher ballot is promised, and reports whether this member has accepted it.
func (p *Protocol) accept(key []byte, b base.Ballot, s base.State) (base.Acceptor, bool) {
	a := p.Load(key)
	switch epoch := p.Config.View.Epoch; {
	case a.Accepted == b && a.AcceptedIn == epoch:
	case above(a.Promised, b):
		return a, false
	default:
		a = base.Acceptor{Promised: b, Accepted: b, AcceptedIn: epoch, State: s}
		p.Save(key, a)
	}
	return a, true
}

// onRead answers READ with the state, and promises nothing.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	p.Reply(from, p.About(peerv1.Kind_PAXOS_STATE, m, p.Load(m.Key)))
}

// onPrepare answers PREPARE with the state, or with the higher ballot that is promised.
func (p *Protocol) onPrepare(from view.MemberID, m *peerv1.Message) {
	if a, promised := p.promise(m.Key, base.BallotOf(m.RmwPaxos.Round)); promised {
		p.Reply(from, p.About(peerv1.Kind_PAXOS_ACK, m, a))
	} else {
		p.Answer(from, m, a, false)
	}
}

// onVote answers VOTE.
func (p *Protocol) onVote(from view.MemberID, m *peerv1.Message) {
	a, accepted := p.accept(m.Key, base.BallotOf(m.RmwPaxos.Round), base.StateOf(m))
	p.Answer(from, m, a, accepted)
}

// Adopt implements member.Inner. What another member has promised is promised here. Its state is one to build on, and
// nothing that this disk has accepted: a minority may have, and with copies that count, it would seem to be chosen.
func (p *Protocol) Adopt(key, encoded []byte) error {
	return p.AdoptMerged(key, encoded, func(ours, theirs base.Acceptor) base.Acceptor {
		merged := ours
		if above(theirs.Accepted, ours.Accepted) {
			merged = base.Acceptor{Promised: ours.Promised, Accepted: theirs.Accepted, State: theirs.State}
		}
		for _, b := range []base.Ballot{theirs.Promised, merged.Accepted} {
			if above(b, merged.Promised) {
				merged.Promised = b
			}
		}
		return merged
	})
}
