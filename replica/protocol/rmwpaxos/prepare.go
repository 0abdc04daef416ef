package rmwpaxos

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/view"
)

type stage uint8

const (
	preparing  stage = iota + 1
	voting           // for the next state
	finishing        // a vote for a state that somebody left unfinished: a write-through
	backingOff       // after a round that was lost
)

// instance is one decision: it brings batches into the state, by phases 1 and 2 of algorithm 3, until they are in.
type instance struct {
	batches []*batch
	stage   stage
	op      uint64
	asked   quorum.Tally
	round   round
	had     acceptor // this member's, of which others need not send the state
	replies replies
	highest uint64 // n that anyone has promised

	proposal state
	answers  [][]*peerv1.Answer // by batch, of the proposal
	refused  []view.MemberID    // ascending

	lost  base.Losses
	began protocol.Instant // the round
	until protocol.Instant // of backingOff
	trips int              `digest:"-"` // people are told
}

// begin has the instance ask everyone a question, to which nobody has said anything yet.
func (d *instance) begin(s stage, op uint64) {
	d.stage, d.op, d.refused = s, op, nil
	d.asked.Restart()
	d.trips++
}

// advance begins what waits for a key, unless something is in progress.
func (p *Protocol) advance(o *object) {
	defer p.release(o)
	if o.pending() == 0 {
		return
	}
	p.list(o)
	if o.instance != nil {
		return // what comes until it has ended goes together
	}
	p.takeBatch(o)
	d := &instance{}
	for _, b := range o.mine {
		if b.to != 0 || b.resuming {
			continue
		}
		if to := p.proposerOf(o); to != p.Config.Self && p.Now < o.hot && !b.stays {
			p.hand(o, b, to)
		} else {
			d.batches, d.lost = append(d.batches, b), b.lost
		}
	}
	d.batches = append(d.batches, o.guests...)
	if len(d.batches) == 0 {
		return
	}
	o.instance = d
	p.drive(o, d)
}

// drive begins an instance. It takes the fast path if the last proposal granted the next round and nobody has
// interfered, as far as this member's own acceptor knows (section 5.8).
func (p *Protocol) drive(o *object, d *instance) {
	if own := p.Load(o.key); o.lead.round.Number != 0 && own.Promised == o.lead.round && own.Accepted == o.lead.voted {
		p.Took(pathFast)
		d.round, d.began = o.lead.round, p.Now
		p.propose(o, d, own.State)
		return
	}
	p.prepare(o, d, 0)
}

// prepare begins phase 1 (algorithm 3, lines 3, 4 and 21 to 24): with n = 0 acceptors choose the round. It promises
// nothing, and leaves at once.
func (p *Protocol) prepare(o *object, d *instance, n uint64) {
	d.begin(preparing, p.Op())
	d.began = p.Now
	d.round = round{Number: n, Proposer: p.me, Attempt: base.CountOf(d.op)}
	d.replies, d.proposal, d.answers = nil, state{}, nil
	d.had = p.Load(o.key)
	for _, b := range o.guests { // what came meanwhile; the answers to this question will be younger than it
		if !slices.Contains(d.batches, b) {
			d.batches = append(d.batches, b)
		}
	}
	o.lead = lead{}
	own, granted := p.grant(o.key, d.round)
	d.replies.add(p.reply(p.Config.Self, own, granted))
	d.asked.Answer(p.Incarnations, p.Config.Self)
	p.ask(o, d, p.AskAll(&d.asked))
	p.decidePrepared(o, d)
}

// questions are the messages of the stages.
var questions = [...]peerv1.Kind{
	preparing: peerv1.Kind_PAXOS_PREPARE, voting: peerv1.Kind_PAXOS_VOTE, finishing: peerv1.Kind_PAXOS_VOTE,
}

// ask sends the question of the present stage. A VOTE leaves once the promises that this member has given are durable:
// its own may be among those that the proposal rests on.
func (p *Protocol) ask(o *object, d *instance, to []view.MemberID) {
	m := p.Say(questions[d.stage], d.op, o.key)
	m.RmwPaxos.Round, m.RmwPaxos.Hot = d.round.Wire(), p.Now < o.hot
	if d.stage == preparing {
		m.RmwPaxos.Voted = d.had.Accepted.Wire()
		p.SendAll(to, m)
		return
	}
	d.proposal.Put(m)
	p.SendAllWhen(p.Durable(o.key), to, m)
}

// onAnswer counts ACK, VOTED and NACK, if they name the attempt and the round that this member waits for.
func (p *Protocol) onAnswer(from view.MemberID, m *peerv1.Message) {
	o := p.objects[string(m.Key)]
	if o == nil || o.instance == nil || o.instance.op != m.Op {
		p.Took(base.PathStale)
		return
	}
	d := o.instance
	r := base.BallotOf(m.RmwPaxos.Round)
	kind, granted := m.Kind, m.Kind == peerv1.Kind_PAXOS_ACK
	switch {
	case d.stage == preparing && kind != peerv1.Kind_PAXOS_VOTED:
		a, sound := base.Said(m, d.had)
		if !sound || granted && !sameID(r, d.round) {
			return
		}
		d.highest = max(d.highest, r.Number)
		d.replies.add(p.reply(from, a, granted))
		d.asked.Answer(p.Incarnations, from)
		p.decidePrepared(o, d)
	case d.stage != voting && d.stage != finishing:
	case kind == peerv1.Kind_PAXOS_VOTED && r == d.round:
		d.asked.Answer(p.Incarnations, from)
		p.decideVoted(o, d)
	case kind == peerv1.Kind_PAXOS_NACK:
		d.highest = max(d.highest, r.Number)
		if !slices.Contains(d.refused, from) {
			d.refused = append(d.refused, from)
			slices.Sort(d.refused)
		}
		p.decideRefused(o, d)
	}
}

// tickInstance asks again those who have not answered, and goes on after a back-off.
func (p *Protocol) tickInstance(o *object, d *instance) {
	if d.stage == backingOff {
		if p.Now >= d.until {
			p.prepare(o, d, d.highest+1)
		}
		return
	}
	missing := p.Unanswered(&d.asked)
	if len(missing) == 0 {
		return
	}
	if len(d.refused) > 0 { // and the others may be down
		p.Took(pathLostVote)
		p.lose(o, d)
		return
	}
	path := pathRetryVote
	if d.stage == preparing {
		path = pathRetryPrepare
	}
	p.Took(path)
	p.ask(o, d, missing)
}
