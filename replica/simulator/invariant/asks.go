package invariant

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/view"
)

// agreement is a question about a key that members agree on in place, and what its asker has heard of it.
type agreement struct {
	refused bool // by somebody, in a turn before
	refuses bool // or in this one: it may have been asked again before that was heard
	ends    bool // a refusal ends it: that of a vote, and any in CASPaxos; in RMWPaxos others may still promise
	try     uint32
	heard   []told // the newest of each member, of all tries
	tried   []view.MemberID
	turn    int // answers in the turn that is not over
}

// told is what a member has told of its vote.
type told struct {
	id       view.MemberID
	epoch    uint64
	accepted base.Ballot
}

// asking names a question that a process asks.
type asking struct {
	asker view.MemberID
	shard int
	op    uint64
}

// Updates notes that a client asks for an update of a key.
func (r *Run) Updates(key string) {
	if r.updated == nil {
		r.updated = map[string]bool{}
	}
	r.updated[key] = true
}

// hears notes an answer to such a question.
func (r *Run) hears(s Speaker, from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_PAXOS_NACK, peerv1.Kind_PAXOS_STATE:
	default:
		return
	}
	q := r.asks[asking{s.ID, s.Shard, m.Op}]
	if q == nil {
		return
	}
	r.turned = append(r.turned, q)
	if m.Kind == peerv1.Kind_PAXOS_NACK {
		q.refuses = q.refuses || q.ends
		return
	}
	q.turn++
	if m.RmwPaxos.GetTry() == q.try && !slices.Contains(q.tried, from) {
		q.tried = append(q.tried, from)
	}
	q.hear(told{from, m.RmwPaxos.GetVotedIn(), base.BallotOf(m.RmwPaxos.GetVoted())})
}

// hear notes what a member tells, unless it has told of a later vote: messages overtake each other.
func (q *agreement) hear(is told) {
	at := slices.IndexFunc(q.heard, func(o told) bool { return o.id == is.id })
	switch {
	case at < 0:
		q.heard = append(q.heard, is)
	case q.heard[at].accepted.Number <= is.accepted.Number:
		q.heard[at] = is
	}
}

// Turns holds the questions that a member asks in a turn against what it has heard.
func (r *Run) Turns(s Speaker, e *protocol.Effects, has Records) {
	if r.Broken != nil {
		return
	}
	var last *peerv1.Message
	for _, all := range [][]protocol.Envelope{e.Send, e.SendAfterPersist} {
		for i := range all {
			if m := all[i].Message; m != last { // it goes to several
				r.turns(s, m, has)
				last = m
			}
		}
	}
	for _, q := range r.turned {
		q.turn, q.refused = 0, q.refuses
	}
	r.turned = r.turned[:0]
}

func (r *Run) turns(s Speaker, m *peerv1.Message, has Records) {
	read, vote := m.Kind == peerv1.Kind_PAXOS_READ, m.Kind == peerv1.Kind_PAXOS_VOTE
	if !read && !vote && m.Kind != peerv1.Kind_PAXOS_PREPARE {
		return
	}
	round := base.BallotOf(m.RmwPaxos.GetRound())
	switch {
	case m.Op == 0:
		r.broken(s.ID, "asks %v of key %q under no number, so that no answer counts", m.Kind, m.Key)
	case !read && !r.updated[string(m.Key)]:
		r.broken(s.ID, "asks %v of key %q, which nobody has updated", m.Kind, m.Key)
	}
	name := asking{s.ID, s.Shard, m.Op}
	q := r.asks[name]
	if q == nil {
		if r.asks == nil {
			r.asks = map[asking]*agreement{}
		}
		q = &agreement{}
		r.asks[name] = q
	} else if q.refused && !read && s.Intact {
		r.broken(s.ID, "asks %v in ballot %d of key %q again, and another member has refused it", m.Kind, round.Number,
			m.Key)
	}
	q.ends = vote || ordered(round, round)
	if read && m.RmwPaxos.GetTry() > q.try {
		r.retries(s, m, q, has)
	}
}

// retries holds it that a read of RMWPaxos asks again only once a quorum has answered, and if nothing is chosen of what
// it was told.
func (r *Run) retries(s Speaker, m *peerv1.Message, q *agreement, has Records) {
	answered := func(id view.MemberID) bool { return id == s.ID || slices.Contains(q.tried, id) }
	if q.try > 0 && s.Intact {
		if !s.View.Quorum(answered) {
			r.broken(s.ID, "asks for key %q once more, and only members %v have answered", m.Key, q.tried)
		}
		// In a turn with several answers, it may have asked before it had heard the last one.
		for i := 0; q.turn == 1 && i < len(q.heard); i++ {
			if b := q.heard[i].accepted; q.chosen(s.View, b) {
				r.broken(s.ID, "asks for key %q once more, and what it has heard of ballot %d is chosen", m.Key,
					b.Number)
			}
		}
	}
	q.try, q.tried = m.RmwPaxos.GetTry(), q.tried[:0]
	key := recordKey(acceptors, m.Key)
	raw, _ := has(key)
	if own := voteOf(key, raw); own.Ballot == base.BallotOf(m.RmwPaxos.GetVoted()) {
		q.hear(told{s.ID, own.epoch, own.Ballot})
	}
}

// chosen reports whether what members have told of a ballot is that it is chosen.
func (q *agreement) chosen(v *view.View, b base.Ballot) bool {
	all := func(id view.MemberID) bool {
		return slices.ContainsFunc(q.heard, func(o told) bool { return o.id == id })
	}
	var votes []cast
	for _, o := range q.heard {
		switch {
		case o.accepted != b:
		case b == base.Ballot{}: // nobody has to vote for the state before all others
			votes = append(votes, cast{o.id, max(v.Since, 1)})
		case o.epoch > 0:
			votes = append(votes, cast{o.id, o.epoch})
		}
	}
	return v.Quorum(all) && chosen(v, base.Ballot{Attempt: 1}, votes)
}
