package gus

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// recover has the write decided that a read found undecided, if nobody else here does.
func (p *Protocol) recover(o *operation) {
	for _, other := range p.of(o.Key) {
		if other != o && other.origin == o.origin && (other.stage == locking || other.stage == committing) {
			p.later(o)
			return
		}
	}
	o.waits, o.after = false, 0
	p.propose(o)
}

// propose begins a ballot of its own on the tag of the operation's write, in a larger round than any that was heard of.
func (p *Protocol) propose(o *operation) {
	o.stage = locking
	p.round++
	o.ballot = ballot{p.round, p.Writer()}
	o.voted, o.vote, o.sure, o.beyond = 0, ballot{}, false, 0
	o.holders.Restart()
	members := p.everyone(o)
	p.ask(o, members)
	p.onAnswer(p.Config.Self, p.lock(p.question(o)))
}

// commit has members vote for a tag.
func (p *Protocol) commit(o *operation, timestamp uint64) {
	if timestamp > register.MaxNumber {
		p.giveUp(o, register.Exhausted)
		return
	}
	o.stage, o.timestamp = committing, timestamp
	if o.writes() {
		// Who votes for it may keep the vote, also if another ballot decides for the first tag.
		p.issued = max(p.issued, timestamp)
	}
	members := p.everyone(o)
	own := p.vote(p.question(o))
	if !own.Gus.Refused {
		// Once the own vote is durable: nobody hears of a tag of which the writer's own member could forget.
		p.ask(o, members)
	}
	p.onAnswer(p.Config.Self, own)
}

// refused puts the operation off until a larger round has a chance.
func (p *Protocol) refused(o *operation, m *peerv1.Message) {
	p.Took(pathRefused)
	p.round = max(p.round, m.Gus.Round)
	o.lasted = max(o.lasted, p.Now.Sub(o.began))
	p.later(o)
	o.lost++
}

// onBallotReply counts a promise or a vote, if it is for the present ballot. A read may have found another write since
// it asked: what is said of the former one says nothing of that.
func (p *Protocol) onBallotReply(o *operation, from view.MemberID, m *peerv1.Message) {
	switch b := ballotOf(m); {
	case originOf(m) != o.origin:
		p.Took(base.PathStale)
	case m.Gus.Final:
		p.decided(o, m.Timestamp)
	case o.after != 0: // this ballot is given up
	case m.Gus.Refused:
		if o.ballot.less(b) {
			p.refused(o, m)
		}
	case m.Gus.Forgotten:
		p.forgotten(o, from, m)
	case b != o.ballot:
	case o.stage == locking:
		p.promised(o, from, m)
	default:
		o.answered.Answer(p.Incarnations, from)
		if p.quorum(&o.answered, 0) {
			p.decided(o, o.timestamp)
		}
	}
}

// promised counts a promise.
func (p *Protocol) promised(o *operation, from view.MemberID, m *peerv1.Message) {
	o.answered.Answer(p.Incarnations, from)
	if b := (ballot{m.Gus.VotedRound, register.Writer(m.Gus.VotedProposer)}); o.vote.less(b) {
		o.voted, o.vote = m.Gus.Voted, b
	}
	o.sure = o.sure || m.Gus.Held && m.Gus.Born != 0
	o.seen = max(o.seen, m.Gus.Newest)
	switch {
	case !o.origin.Less(tag(m.Gus.Newest, m.Gus.NewestWriter)):
		o.holders.Answer(p.Incarnations, from)
	case !o.left.Answered(p.Incarnations, from):
		o.beyond = from
	}
	if p.quorum(&o.answered, 0) {
		p.choose(o)
	}
}

// choose decides for which tag members are asked to vote, when a quorum has promised to vote in no earlier ballot.
func (p *Protocol) choose(o *operation) {
	switch {
	case o.voted != 0: // it may be decided already, for that one
		p.commit(o, o.voted)
	case o.timestamp != o.origin.Timestamp:
		// The writer changed the tag, so it did not keep the first one; and nobody had it decided for that.
		p.commit(o, o.timestamp)
	case p.holdsFirst(o) || o.sure && o.writes() && !o.unsure:
		// Nothing newer had ended when the write began. Or one of three has voted for it, in the view in which the write
		// began: whatever was done before that was known to it or to the writer, and its writer has not changed the tag.
		p.commit(o, o.origin.Timestamp)
	case o.sure && o.writes():
		// With relaxed quorums a holder may be one of enough, whose tag was read, or one of too few, of which something
		// larger was read before the write began. Neither tag would be right in both cases.
		p.giveUp(o, "members changed during the write")
	case o.writes():
		r := p.load(o.Key)
		p.Took(pathWriteRetags)
		p.commit(o, p.nextTimestamp(o, &r))
	case o.beyond == 0:
		// Some of those that have answered have what this read leaves out: more have to.
	default:
		// There is a larger tag: a read needs nothing of this write.
		p.Took(pathReadOvertaken)
		o.need = o.beyond
		p.read(o)
	}
}

// holdsFirst reports whether so many hold the first tag and nothing newer that nothing newer had ended when the write
// began: a quorum, or where a read leaves out what others have, members that meet each quorum.
func (p *Protocol) holdsFirst(o *operation) bool {
	if !o.below.IsZero() {
		return o.holders.Meets(p.Incarnations, 0)
	}
	return p.quorum(&o.holders, 0)
}

// decided ends an operation whose write has its tag for good. The others are told, off the critical path: only then a
// read may return the tag, and only then they can forget the write.
func (p *Protocol) decided(o *operation, timestamp uint64) {
	found, origin := o.tag(), o.origin
	o.timestamp = timestamp
	v := register.Versioned{Carstamp: o.tag(), Value: o.value}
	r := p.load(o.Key)
	if w := r.find(origin); r.Carstamp.Less(v.Carstamp) && !(w != nil && w.stored && w.voted == timestamp) {
		r.Versioned = v
		r.settle(origin, timestamp)
		p.store(o.Key, r)
	}
	m := p.message(peerv1.Kind_GUS_FINAL, 0, o.Key, origin, timestamp)
	for _, id := range p.Config.Nearest {
		p.Reply(p.durable(o.Key), id, m)
	}
	if !o.writes() && v.Carstamp.Less(found) {
		p.read(o) // what was found is no tag of the write's any more
	} else {
		p.finish(o, v)
	}
	p.onFinal(o.Key, origin, timestamp) // nothing waits for that to be durable
}
