package caspaxos

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/stamp"
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
	protocol.Request
	key    []byte
	number uint64 // of a change: its author's count
	stage  stage
	ended  bool
	left   bool // a change: others may have accepted it, so it may take effect whatever its client is told
	trips  int

	// The present question. A message that is sent again is the same message.
	question uint64
	ballot   ballot
	answered quorum.Tally
	refused  []view.MemberID

	// What acceptors have told in answer to the question.
	had    acceptor     // this member's when it asked, which others need not send
	best   acceptor     // with the highest accepted ballot
	agreed quorum.Tally // those that have accepted it, in this epoch

	next   state // is to be accepted
	answer *peerv1.Answer

	until   protocol.Instant // a back-off ends; 0: it does not back off
	lost    int              // ballots
	highest uint64           // number of a ballot that somebody has promised
}

func (o *operation) reads() bool { return o.Operation.Kind == register.Read }

// ask begins a question, of which this member's own acceptor gives the first answer.
func (p *Protocol) ask(o *operation, s stage) {
	delete(p.asking, o.question)
	o.stage, o.question, o.until, o.refused = s, p.Op(), 0, nil
	p.asking[o.question] = o
	o.answered.Restart()
}

// read asks for states.
func (p *Protocol) read(o *operation) {
	p.ask(o, reading)
	p.collect(o, p.load(o.key))
	p.send(o, p.AskQuorum(&o.answered))
	p.decide(o)
}

// enqueue has an operation propose when those that came before it on the key have: proposals of one member would be in
// each other's way.
func (p *Protocol) enqueue(o *operation) {
	o.stage = waiting
	queue := append(p.queues[string(o.key)], o)
	p.queues[string(o.key)] = queue
	if len(queue) == 1 {
		p.begin = append(p.begin, o)
	}
}

// prepare begins the first phase of a ballot above all that this member knows of.
func (p *Protocol) prepare(o *operation) {
	p.ask(o, preparing)
	o.ballot = ballot{max(p.load(o.key).promised.number, o.highest) + 1, p.me}
	if o.ballot.number > register.MaxNumber {
		p.giveUp(o, register.Exhausted)
		return
	}
	own, _ := p.promise(o.key, o.ballot)
	p.collect(o, own)
	if o.lost == 0 {
		p.send(o, p.AskQuorum(&o.answered))
	} else { // to win before others come in between
		p.send(o, p.AskAll(&o.answered))
	}
	p.decide(o)
}

// collect notes the own acceptor as the first answer.
func (p *Protocol) collect(o *operation, own acceptor) {
	o.had, o.best = own, own
	o.agreed.Restart()
	p.count(o, p.Config.Self, own)
}

// count notes an answer with a state.
func (p *Protocol) count(o *operation, from view.MemberID, a acceptor) {
	o.answered.Answer(p.Incarnations, from)
	if a.accepted.above(o.best.accepted) && !p.mistakes.IgnoreAccepted {
		o.best = a
		o.agreed.Restart()
	}
	if a.accepted == o.best.accepted && (a.acceptedIn == p.Config.View.Epoch || a.accepted == ballot{}) {
		o.agreed.Answer(p.Incarnations, from)
	}
}

// onState counts the answer to a read or to the first phase.
func (p *Protocol) onState(from view.MemberID, m *peerv1.Message) {
	o := p.asking[m.Op]
	says := m.RmwPaxos
	if o == nil || o.stage == reading != (m.Kind == peerv1.Kind_PAXOS_STATE) || o.stage == preparing && ballotOf(says.Round) != o.ballot {
		p.Took(pathStale)
		return
	}
	a := acceptor{accepted: ballotOf(says.Voted), acceptedIn: says.VotedIn, state: stateOf(m)}
	if m.Same {
		if a.accepted != o.had.accepted {
			return // no sound member says so
		}
		a.state = o.had.state
	}
	p.count(o, from, a)
	p.decide(o)
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
		o.next, o.answer, done = o.best.state, answerOf(&o.best.state, o.best.value), true
	} else {
		o.next, o.answer, done = p.change(o.best.state, o)
	}
	switch {
	case o.answer == nil:
		p.giveUp(o, register.Exhausted)
	case done && chosen:
		p.Took(pathSettled)
		p.finish(o)
	case o.stage == reading:
		p.Took(pathReadProposes)
		delete(p.asking, o.question)
		p.enqueue(o)
	default:
		p.propose(o)
	}
}

// propose begins the second phase.
func (p *Protocol) propose(o *operation) {
	p.ask(o, accepting)
	o.left = o.left || !o.reads()
	p.send(o, p.AskAll(&o.answered))
	own, accepted := p.accept(o.key, o.ballot, o.next)
	if accepted {
		o.answered.Answer(p.Incarnations, p.Config.Self)
		p.decideAccepted(o)
	} else { // another coordinator was promised more since
		p.refusedBy(o, p.Config.Self, own.promised.number)
	}
}

// send sends the present question, which counts as a round trip if anyone is asked. A VOTE leaves when the promises
// that this member has given are durable: its own may be among those that the proposal rests on.
func (p *Protocol) send(o *operation, to []view.MemberID) {
	if len(to) > 0 {
		o.trips++
	}
	p.sendAgain(o, to)
}

func (p *Protocol) sendAgain(o *operation, to []view.MemberID) {
	m := p.message(questions[o.stage], o.question, o.key)
	if o.stage != reading {
		m.RmwPaxos.Round = o.ballot.wire()
	}
	if o.stage != accepting {
		m.RmwPaxos.Voted = o.had.accepted.wire()
		p.SendAll(to, m)
		return
	}
	setState(m, o.next)
	p.SendAllWhen(p.durable(o.key), to, m)
}

// onVoted counts who has accepted.
func (p *Protocol) onVoted(from view.MemberID, m *peerv1.Message) {
	o := p.asking[m.Op]
	if o == nil || o.stage != accepting || ballotOf(m.RmwPaxos.Round) != o.ballot {
		p.Took(pathStale)
		return
	}
	o.answered.Answer(p.Incarnations, from)
	p.decideAccepted(o)
}

func (p *Protocol) decideAccepted(o *operation) {
	if o.answered.Quorum(p.Incarnations, 0) {
		p.Took(pathProposed)
		p.finish(o)
	}
}

// onRefused hears of a higher ballot.
func (p *Protocol) onRefused(from view.MemberID, m *peerv1.Message) {
	o := p.asking[m.Op]
	if o == nil || o.stage == reading {
		p.Took(pathStale)
		return
	}
	p.refusedBy(o, from, ballotOf(m.RmwPaxos.Round).number)
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
// lastBackOff eighths of Config.Retry: so long that whoever is at work comes to its end, and with several of them one
// at a time.
const (
	firstBackOff = 8
	lastBackOff  = 64
)

// lose gives up a ballot, and has the next one begin after a random time: another coordinator is at work.
func (p *Protocol) lose(o *operation) {
	p.Took(pathBackOff)
	delete(p.asking, o.question)
	o.stage = waiting
	window := min(firstBackOff<<min(o.lost, 8), lastBackOff)
	o.until = p.Now.Add(p.Config.Retry / 8 * time.Duration(1+p.Draws.Below(uint64(window))))
	o.lost++
}

// canWin reports whether those that have not refused are a quorum.
func (p *Protocol) canWin(o *operation) bool {
	p.possible.Restart()
	for _, m := range p.Config.View.Members {
		if !slices.Contains(o.refused, m.ID) {
			p.possible.Answer(p.Incarnations, m.ID)
		}
	}
	return p.possible.Quorum(p.Incarnations, 0)
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
	r := register.Result{
		Status: register.OK, Value: stamp.Value(o.answer.Present, o.answer.Value), RoundTrips: o.trips, Fast: o.trips <= 1,
		Carstamp: register.Carstamp{Timestamp: o.answer.Timestamp, Writer: register.Writer(o.answer.Writer)},
	}
	switch {
	case o.answer.Expired:
		r.Status, r.Value = register.Unknown, nil
		r.Message = "the outcome is not kept any more, or the request is too old to be told from a duplicate; it may have taken effect"
	case o.answer.Refused != "":
		r.Status, r.Value, r.Message = register.Failed, nil, o.answer.Refused
	}
	p.end(o)
	p.CompleteWhen(p.durable(o.key) || p.mistakes.CompleteBeforePersist, o.Handle, r)
}

// expire gives up an operation at its deadline.
func (p *Protocol) expire(o *operation) {
	p.giveUp(o, "no majority of the members answered in time, or others changed the key meanwhile")
}

// giveUp ends an operation without an answer. A change that has left this member may take effect yet.
func (p *Protocol) giveUp(o *operation, why string) {
	path, r := pathUnavailable, base.Untaken(o.Operation.Kind, o.trips, why)
	if o.left {
		path, r = pathUnknown, base.MayTake(o.Operation.Kind, o.trips, why)
	}
	p.Took(path)
	p.end(o)
	p.Complete(o.Handle, r)
}

// end forgets an operation, and has the next one of the key begin.
func (p *Protocol) end(o *operation) {
	o.ended = true
	p.running--
	delete(p.asking, o.question)
	key := string(o.key)
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
