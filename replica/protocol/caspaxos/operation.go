package caspaxos

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

type stage uint8

const (
	waiting stage = iota // for its turn on the key, or after a ballot that was lost
	reading              // a read that asks for states
	preparing
	accepting
)

// questions are the messages of the stages.
var questions = [...]peerv1.Kind{
	reading: peerv1.Kind_PAXOS_READ, preparing: peerv1.Kind_PAXOS_PREPARE, accepting: peerv1.Kind_PAXOS_VOTE,
}

// operation is a read or a change that this member coordinates.
type operation struct {
	base.Operation
	change uint64 // its author's count; 0: a read
	stage  stage
	left   bool // a change: others may have accepted it, so it may take effect whatever its client is told

	// The present question. A message that is sent again is the same message.
	ballot   base.Ballot
	answered quorum.Tally
	refused  []view.MemberID

	// What acceptors have told in answer to the question.
	had    base.Acceptor // this member's when it asked, which others need not send
	best   base.Acceptor // with the highest accepted ballot
	agreed quorum.Tally  // those that have accepted it, in this epoch

	next   base.State // is to be accepted
	answer *peerv1.Answer

	began   protocol.Instant // the present ballot
	until   protocol.Instant // a back-off ends; 0: it does not back off
	lost    base.Losses
	highest uint64 // number of a ballot that somebody has promised
}

func (o *operation) reads() bool { return o.Kind() == register.Read }

// ask begins a question under a number of its own, of which this member's own acceptor gives the first answer: what
// answers the number answers this stage, and this ballot.
func (p *Protocol) ask(o *operation, s stage) {
	p.operations.Renumber(o, p.Op())
	o.stage, o.refused = s, nil
	o.answered.Restart()
}

// read asks for states.
func (p *Protocol) read(o *operation) {
	p.ask(o, reading)
	p.collect(o, p.Load(o.Key))
	p.send(o, p.AskQuorum(&o.answered))
	p.decide(o)
}

// enqueue has an operation propose when those that came before it on the key have: proposals of one member would be in
// each other's way.
func (p *Protocol) enqueue(o *operation) {
	o.stage = waiting
	queue := append(p.queues[string(o.Key)], o)
	p.queues[string(o.Key)] = queue
	if len(queue) == 1 {
		p.begin = append(p.begin, o)
	}
}

// prepare begins the first phase of a ballot above all that this member knows of.
func (p *Protocol) prepare(o *operation) {
	p.ask(o, preparing)
	o.began = p.Now
	o.ballot = base.Ballot{Number: max(p.Load(o.Key).Promised.Number, o.highest) + 1, Proposer: p.me}
	if o.ballot.Number > register.MaxNumber {
		p.giveUp(o, register.Exhausted)
		return
	}
	own, _ := p.promise(o.Key, o.ballot)
	p.collect(o, own)
	if o.lost.Ballots == 0 {
		p.send(o, p.AskQuorum(&o.answered))
	} else { // to win before others come in between
		p.send(o, p.AskAll(&o.answered))
	}
	p.decide(o)
}

// collect notes the own acceptor as the first answer.
func (p *Protocol) collect(o *operation, own base.Acceptor) {
	o.had, o.best = own, own
	o.agreed.Restart()
	p.count(o, p.Config.Self, own)
}

// count notes an answer with a state.
func (p *Protocol) count(o *operation, from view.MemberID, a base.Acceptor) {
	o.answered.Answer(p.Incarnations, from)
	if above(a.Accepted, o.best.Accepted) {
		o.best = a
		o.agreed.Restart()
	}
	if a.Accepted == o.best.Accepted && (a.AcceptedIn == p.Config.View.Epoch || a.Accepted == base.Ballot{}) {
		o.agreed.Answer(p.Incarnations, from)
	}
}

// onState counts the answer to a read or to the first phase.
func (p *Protocol) onState(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil {
		p.Took(base.PathStale)
		return
	}
	if a, sound := base.Said(m, o.had); sound {
		p.count(o, from, a)
		p.decide(o)
	}
}

// decide goes on once a majority has told its states. The highest of them is chosen, or may be: so whatever follows is
// built on it.
func (p *Protocol) decide(o *operation) {
	if !o.answered.Quorum(p.Incarnations, 0) {
		return
	}
	chosen := o.agreed.Quorum(p.Incarnations, 0)
	var done bool // nothing has to be changed
	if o.reads() {
		o.next, o.answer, done = o.best.State, wire.Answer(o.best.Versioned), true
	} else {
		o.next, o.answer, done = p.change(o.best.State, o)
	}
	switch {
	case o.answer == nil:
		p.giveUp(o, register.Exhausted)
	case done && chosen:
		p.Took(pathSettled)
		p.finish(o)
	case o.stage == reading:
		p.Took(pathReadProposes)
		p.operations.Renumber(o, 0)
		p.enqueue(o)
	default:
		p.propose(o)
	}
}

// propose begins the second phase.
func (p *Protocol) propose(o *operation) {
	p.ask(o, accepting)
	o.left = !o.reads()
	p.send(o, p.AskAll(&o.answered))
	if own, accepted := p.accept(o.Key, o.ballot, o.next); accepted {
		p.acceptedBy(o, p.Config.Self)
	} else { // another coordinator was promised more since
		p.refusedBy(o, p.Config.Self, own.Promised.Number)
	}
}

// send sends the present question, which counts as a round trip if anyone is asked. A VOTE leaves when the promises
// that this member has given are durable: its own may be among those that the proposal rests on.
func (p *Protocol) send(o *operation, to []view.MemberID) {
	if len(to) > 0 {
		o.Trips++
	}
	p.sendAgain(o, to)
}

func (p *Protocol) sendAgain(o *operation, to []view.MemberID) {
	m := p.Say(questions[o.stage], o.Number, o.Key)
	if o.stage != reading {
		m.RmwPaxos.Round = o.ballot.Wire()
	}
	if o.stage != accepting {
		m.RmwPaxos.Voted = o.had.Accepted.Wire()
		p.SendAll(to, m)
		return
	}
	o.next.Put(m)
	p.SendAllWhen(p.Durable(o.Key), to, m)
}

// onVoted counts who has accepted.
func (p *Protocol) onVoted(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil || o.stage != accepting {
		p.Took(base.PathStale)
		return
	}
	p.acceptedBy(o, from)
}

// acceptedBy notes who has accepted the state, and ends the operation when a majority has.
func (p *Protocol) acceptedBy(o *operation, id view.MemberID) {
	o.answered.Answer(p.Incarnations, id)
	if o.answered.Quorum(p.Incarnations, 0) {
		p.Took(pathProposed)
		p.finish(o)
	}
}

// onRefused hears of a higher ballot.
func (p *Protocol) onRefused(from view.MemberID, m *peerv1.Message) {
	o := p.operations.Find(m.Op)
	if o == nil {
		p.Took(base.PathStale)
		return
	}
	p.refusedBy(o, from, base.BallotOf(m.RmwPaxos.Round).Number)
}

// refusedBy notes a refusal, and gives up the ballot unless those that were asked may still be a quorum.
func (p *Protocol) refusedBy(o *operation, from view.MemberID, promised uint64) {
	o.highest = max(o.highest, promised)
	if !slices.Contains(o.refused, from) {
		o.refused = append(o.refused, from)
	}
	if !o.answered.Wide() || !p.canWin(o) {
		p.lose(o)
	}
}

// The time to back off is drawn from a window that doubles with each ballot that is lost, from firstBackOff to
// lastBackOff eighths (base.BackOff), so that with several at work one comes to its end at a time.
const (
	firstBackOff = 8
	lastBackOff  = 64
)

// lose gives up a ballot, and has the next one begin after a random time: another coordinator is at work.
func (p *Protocol) lose(o *operation) {
	p.Took(pathBackOff)
	p.operations.Renumber(o, 0)
	o.stage = waiting
	window := min(firstBackOff<<min(o.lost.Ballots, 8), lastBackOff)
	p.Lose(&o.lost, o.began)
	o.until = p.BackOff(&o.lost, uint64(window))
}

// canWin reports whether those that have not refused are a quorum.
func (p *Protocol) canWin(o *operation) bool {
	return p.Config.View.Quorum(func(id view.MemberID) bool { return !slices.Contains(o.refused, id) })
}

// retransmit asks those that have not answered, if it is time, or ends a back-off.
func (p *Protocol) retransmit(o *operation) {
	if o.stage == waiting {
		if o.until != 0 && p.Now >= o.until {
			o.until = 0
			p.begin = append(p.begin, o)
		}
		return
	}
	missing := p.Unanswered(&o.answered)
	switch {
	case len(missing) == 0:
	case len(o.refused) > 0: // and the others may be down
		p.lose(o)
	default:
		p.Took(pathRetry)
		p.sendAgain(o, missing)
	}
}

// finish completes an operation as its answer says. The own acceptor was counted, so it must be durable.
func (p *Protocol) finish(o *operation) {
	p.end(o)
	p.CompleteWhen(p.Durable(o.Key), o.Request.Handle, wire.Result(o.answer, o.Trips, o.Trips <= 1))
}

// expire gives up an operation at its deadline.
func (p *Protocol) expire(o *operation) {
	p.giveUp(o, "no majority of the members answered in time, or others changed the key meanwhile")
}

// giveUp ends an operation without an answer. A change that has left this member may take effect yet.
func (p *Protocol) giveUp(o *operation, why string) {
	p.end(o)
	p.GiveUp(&o.Request, o.left, o.Trips, why)
}

// end forgets an operation, and has the next one of the key begin.
func (p *Protocol) end(o *operation) {
	p.operations.End(o)
	key := string(o.Key)
	at := slices.Index(p.queues[key], o)
	if at < 0 {
		return
	}
	queue := slices.Delete(p.queues[key], at, at+1)
	p.queues[key] = queue
	switch {
	case len(queue) == 0:
		delete(p.queues, key)
	case at == 0:
		p.begin = append(p.begin, queue[0])
	}
}
