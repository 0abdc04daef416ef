package rmwpaxos

import (
	"cmp"
	"slices"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// decidePrepared is phase 2 of algorithm 3, lines 5 to 24, for an update.
func (p *Protocol) decidePrepared(o *object, d *instance) {
	granted, ok := p.grantedBy(d)
	if !ok {
		if p.answeredBy(d.replies) {
			p.Took(pathInconsistentAck)
			p.lose(o, d)
		}
		return
	}
	rs := slices.DeleteFunc(slices.Clone(d.replies), func(r reply) bool {
		return r.Promised != granted || !r.granted
	})
	best := rs.highest()
	highest, last := best.Accepted, best.State
	d.round = granted
	if p.chosen(rs, highest) { // lines 8 to 16
		next, answers, changed := p.confirm(last, d.batches)
		if !changed {
			p.Took(pathUnchanged)
			o.lead = lead{granted, highest}
			p.learn(o.key, highest, last)
			p.finish(o, d, answers)
			return
		}
		p.Took(pathSuccessor)
		p.askNext(o, d, next, answers)
		return
	}
	p.Took(pathWriteThrough) // lines 17 to 20
	p.askVotes(o, d, finishing, last)
}

// grantedBy returns the round that a quorum has granted to this attempt (cons_Q(r_ack) ∧ inc).
func (p *Protocol) grantedBy(d *instance) (round, bool) {
	for i := range d.replies {
		r := &d.replies[i]
		if r.granted && p.quorum(d.replies, func(x *reply) bool { return x.granted && x.Promised == r.Promised }) {
			return r.Promised, true
		}
	}
	return round{}, false
}

// propose computes the state after one that is chosen, and has it voted for in a round that a quorum has granted.
// Nobody has confirmed by now that it is still the last one, so also what changes nothing is voted for.
func (p *Protocol) propose(o *object, d *instance, last state) {
	next, answers, _ := (&application{protocol: p, next: last}).apply(d.batches)
	p.askNext(o, d, next, answers)
}

// askNext begins phase 2 with the next state (algorithm 3, line 14).
func (p *Protocol) askNext(o *object, d *instance, next state, answers [][]*peerv1.Answer) {
	d.answers = answers
	for i, b := range d.batches {
		b.left = true
		b.remember(answers[i], cmp.Or(p.Config.Tuning.Attempts, attemptsKept))
	}
	p.askVotes(o, d, voting, next)
}

// askVotes has everyone vote for a proposal.
func (p *Protocol) askVotes(o *object, d *instance, s stage, proposal state) {
	d.begin(s, p.Op())
	d.highest = max(d.highest, d.replies.promised())
	d.had, d.replies = acceptor{}, nil // of phase 1
	d.proposal = proposal
	o.lead = lead{}
	p.ask(o, d, p.AskAll(&d.asked))
	if own, voted := p.vote(o.key, d.round, proposal); voted {
		d.asked.Answer(p.Incarnations, p.Config.Self)
		p.decideVoted(o, d)
	} else {
		d.highest = max(d.highest, own.Promised.Number)
		d.refused = append(d.refused, p.Config.Self)
		p.decideRefused(o, d)
	}
}

// decideVoted is algorithm 3, lines 25 to 29: the proposal is chosen. After a write-through, the round that came with
// the votes is there for the next state.
func (p *Protocol) decideVoted(o *object, d *instance) {
	if !d.asked.Quorum(p.Incarnations, 0) {
		return
	}
	o.lead = lead{successor(d.round), d.round}
	p.endReads(o, d)
	if d.stage == voting {
		p.finish(o, d, d.answers)
		return
	}
	next, answers, changed := p.confirm(d.proposal, d.batches)
	if !changed {
		p.Took(pathHelped)
		p.finish(o, d, answers)
		return
	}
	d.round = o.lead.round
	p.askNext(o, d, next, answers)
}

// decideRefused falls back to phase 1 once a quorum can't vote for the proposal any more. Others may finish it.
func (p *Protocol) decideRefused(o *object, d *instance) {
	if p.possible(d.refused) {
		return
	}
	p.Took(pathLostVote)
	p.lose(o, d)
}

// finish tells what came of the batches, and makes room for the next ones.
func (p *Protocol) finish(o *object, d *instance, answers [][]*peerv1.Answer) {
	o.instance = nil
	for i, b := range d.batches {
		b.trips += d.trips
		told := b.recall(answers[i])
		switch {
		case b.dropped:
		case o.isMine(b):
			o.remove(b)
			p.answer(o, b, told)
		default:
			p.handBack(o, b, told)
		}
	}
	p.advanceLater(o)
}

// answer tells the clients of a batch.
func (p *Protocol) answer(o *object, b *batch, answers []*peerv1.Answer) {
	for k, r := range b.requests {
		if r == nil || r.answered {
			continue
		}
		r.answered = true
		if answers[k].Expired && r.Operation.Kind == register.Read {
			// it was in a batch whose answers nobody has
			p.joinRead(o, &request{Request: r.Request, trips: r.trips + b.trips})
			continue
		}
		trips := b.trips + r.trips
		p.completeAbout(o.key, r.Handle, wire.Result(answers[k], p.wide(trips), trips <= 1))
	}
}

// wide is how many of the round trips were between members.
func (p *Protocol) wide(trips int) int {
	if p.Config.View.Size() == 1 {
		return 0
	}
	return trips
}

// attemptsKept bounds how many proposals of a batch have their answers remembered, by default.
const attemptsKept = 16

// remember keeps what a proposal answers: of that, the state keeps a bounded part. If there are more proposals than are
// to be kept, nothing is known of which took effect.
func (b *batch) remember(answers []*peerv1.Answer, kept int) {
	b.many = b.many || len(b.tried) >= kept
	if b.many {
		b.tried = nil
		return
	}
	b.tried = append(b.tried, answers)
}

// recall completes the answers that a state has kept of the batch: the proposal that took effect gave the same
// carstamps. Two proposals may give the same ones, if both write, to what they wrote on different states: where they
// differ, it is not known which took effect.
func (b *batch) recall(kept []*peerv1.Answer) []*peerv1.Answer {
	if !slices.ContainsFunc(kept, (*peerv1.Answer).GetExpired) {
		return kept
	}
	var found []*peerv1.Answer
	for _, t := range b.tried {
		switch {
		case !slices.EqualFunc(t, kept, sameCarstamp):
		case found == nil:
			found = t
		case !slices.EqualFunc(t, found, func(x, y *peerv1.Answer) bool { return proto.Equal(x, y) }):
			return kept
		}
	}
	if found == nil {
		return kept
	}
	return found
}

func sameCarstamp(x, y *peerv1.Answer) bool {
	return x.Timestamp == y.Timestamp && x.Writer == y.Writer
}
