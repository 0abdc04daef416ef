package gryff

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/phase"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// One instance carries a batch of the rmws that wait for a key, within these bounds.
const (
	batchCommands = 64
	batchBytes    = 1 << 20
)

// rmwRequest is an rmw of a client of this member.
type rmwRequest struct {
	protocol.Request
	answered bool // given up at its deadline
}

type stage uint8

const (
	preAccepting stage = iota + 1
	preparing
	accepting
	committed
	preempted // another member recovers the instance; its outcome will come
)

// drive is an instance that this member brings to its end: its own, or one that it recovers.
type drive struct {
	*instance
	stage      stage
	ballot     uint64
	op         uint64
	asked      phase.Phase
	requests   []*rmwRequest // none in a recovery
	roundTrips int
	fastPath   bool

	merged   attributes       // joined with what others answered
	agreed   phase.Phase      // PreAcceptOKs that changed nothing
	prepared []*preparedReply // in a recovery

	outcome  *peerv1.Executed // executed here, or heard of
	executed phase.Phase      // others that executed it; asked says only who need not be asked again
}

// rmw queues an operation behind the key's instance in progress. At most one instance per key and coordinator
// is in progress, so a dependency graph has no more nodes than members, and chains of them end.
func (p *Protocol) rmw(r protocol.Request) {
	if err := p.config.Functions.Check(r.Operation.Call); err != nil {
		p.complete(r.Handle, register.Result{Status: register.Invalid, Message: err.Error()})
		return
	}
	o := p.object([]byte(r.Operation.Key))
	o.queue = append(o.queue, &rmwRequest{Request: r})
	p.propose(o)
	p.release(o)
}

// propose is algorithm 3, lines 2 to 8, for what waits.
func (p *Protocol) propose(o *object) {
	if o.mine != nil || len(o.queue) == 0 {
		return
	}
	i := o.instance(p, instanceID{p.author, o.known().of(p.author) + 1})
	d := &drive{instance: i, stage: preAccepting, op: p.op()}
	i.drive, o.mine = d, d
	d.requests = o.takeBatch()
	for _, r := range d.requests {
		i.commands = append(i.commands, command(r.Operation))
	}
	i.deps = o.depsOf(i.id)
	i.base = p.load(o.key)
	i.status, i.unchanged = peerv1.Status_PRE_ACCEPTED, p.mayBeFast()
	d.merged = i.attributes
	p.saveInstance(i)
	p.sendAllDurably(d.asked.AskFast(&p.config, p.roster, p.now), p.question(d))
	p.decidePreAccept(d)
}

func (o *object) takeBatch() []*rmwRequest {
	size, n := 0, 0
	for n < len(o.queue) && n < batchCommands && size < batchBytes {
		for _, a := range o.queue[n].Operation.Call.Args {
			size += len(a)
		}
		n++
	}
	batch := o.queue[:n:n]
	o.queue = o.queue[n:]
	return batch
}

func command(op register.Operation) *peerv1.Command {
	return &peerv1.Command{
		Function: op.Call.Function, Args: op.Call.Args, MaxValueBytes: uint64(op.Call.MaxValueBytes),
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
	}
}

// question is the message of the drive's stage, made anew for each sending.
func (p *Protocol) question(d *drive) *peerv1.Message {
	var m *peerv1.Message
	switch d.stage {
	case preAccepting:
		m = p.about(d.instance, peerv1.Kind_PRE_ACCEPT)
	case accepting:
		m = p.about(d.instance, peerv1.Kind_ACCEPT)
	case committed:
		switch {
		case d.status == peerv1.Status_COMMITTED:
			m = p.about(d.instance, peerv1.Kind_COMMIT)
		case d.gone: // recovered by another member, of which the state came here: it goes on to the rest
			return p.executedMessage(d.object, d.id, d.op, true)
		default: // executed elsewhere: who has done it answers, and nobody promises anything
			m = p.prepare(d)
			m.Op, m.Instance.Ballot = d.op, 0
			return m
		}
	default:
		m = p.prepare(d)
	}
	m.Op, m.Instance.Ballot = d.op, d.ballot
	return m
}

func (p *Protocol) prepare(d *drive) *peerv1.Message {
	m := p.message(peerv1.Kind_PREPARE, 0, d.object.key)
	m.Instance = p.instances.New()
	m.Instance.Id = p.name(d.id)
	return m
}

// answering returns the drive that a reply is for, if it is for its present stage.
func (o *object) answering(m *peerv1.Message, s stage) *drive {
	i := o.find(idOf(m.Instance.GetId()))
	if i == nil || i.drive == nil || i.drive.op != m.Op || i.drive.stage != s {
		return nil
	}
	return i.drive
}

// next begins a stage.
func (d *drive) next(p *Protocol, s stage) {
	d.stage, d.op = s, p.op()
	d.asked.Restart()
}

func (p *Protocol) onPreAcceptOK(o *object, from view.MemberID, m *peerv1.Message) {
	d := o.answering(m, preAccepting)
	if d == nil {
		return
	}
	theirs := attributesOf(m)
	d.merged.deps = d.merged.deps.join(theirs.deps)
	if d.merged.base.Carstamp.Less(theirs.base.Carstamp) {
		d.merged.base = theirs.base
	}
	if m.Instance.Unchanged || p.mistakes.FastOnMerged {
		d.agreed.Answer(p.roster, from)
	}
	d.asked.Answer(p.roster, from)
	p.decidePreAccept(d)
}

// decidePreAccept is algorithm 3, lines 10 to 15. The fast path asks that replies equal the *initial*
// attributes, also at n = 3 and after a broadcast, so that recovery knows what could have been chosen.
func (p *Protocol) decidePreAccept(d *drive) {
	switch {
	case d.agreed.Fast(p.roster, p.config.Self):
		p.config.Took("rmw.fast")
		d.fastPath = true
		d.roundTrips = min(1, p.config.View.Size()-1)
		if p.mistakes.FastOnMerged {
			d.attributes = d.merged
		}
		p.commit(d)
	case d.asked.Quorum(p.roster, p.config.Self) &&
		(d.agreed.Count(p.roster) < d.asked.Count(p.roster) || !p.roster.HasFast()):
		p.config.Took("rmw.slow")
		d.roundTrips = 1
		p.accept(d, d.merged)
	}
}

// accept proposes attributes to a majority (algorithm 3, lines 13 to 18).
func (p *Protocol) accept(d *drive, a attributes) {
	d.next(p, accepting)
	d.attributes = a
	d.status, d.instance.ballot, d.accepted = peerv1.Status_ACCEPTED, d.ballot, d.ballot
	p.saveInstance(d.instance)
	p.sendAllDurably(d.asked.AskQuorum(&p.config, p.roster, p.now), p.question(d))
	p.decideAccept(d)
}

func (p *Protocol) onAcceptOK(o *object, from view.MemberID, m *peerv1.Message) {
	if d := o.answering(m, accepting); d != nil {
		d.asked.Answer(p.roster, from)
		p.decideAccept(d)
	}
}

func (p *Protocol) decideAccept(d *drive) {
	if d.asked.Quorum(p.roster, p.config.Self) {
		d.roundTrips++
		p.commit(d)
	}
}

// commit is algorithm 3, lines 19 to 22. The decision is durable here before anyone is told: a coordinator
// that forgot a fast commit would answer Prepare as if there had been none.
func (p *Protocol) commit(d *drive) {
	d.next(p, committed)
	d.status, d.tellTo = peerv1.Status_COMMITTED, p.config.Self
	// Everyone is told, not a quorum alone: everyone has to execute.
	to := d.asked.Ask(&p.config, p.now, len(p.config.Nearest))
	if p.mistakes.CommitBeforePersist {
		p.sendAll(to, p.question(d))
	} else {
		p.sendAllDurably(to, p.question(d))
	}
	if p.mistakes.AnswerOnCommit {
		p.answerEarly(d)
	}
	p.settleCommit(d.instance)
}

// settleCommit executes what a commit makes ready, or keeps the commit until it is.
func (p *Protocol) settleCommit(i *instance) {
	p.execute(i.object)
	if !i.gone {
		p.saveInstance(i)
	}
}

// onExecuted counts executions, and takes the state of a member that is ahead.
func (p *Protocol) onExecuted(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.GetId())
	d := o.driveOf(id)
	if d != nil {
		d.executed.Answer(p.roster, from)
		if m.Op == d.op {
			d.asked.Answer(p.roster, from)
		}
		// Own execution brings all answers; of those that come from others, large ones are left out.
		if d.outcome == nil && len(m.Instance.Answers) > 0 && !slices.ContainsFunc(m.Instance.Answers, (*peerv1.Answer).GetExpired) {
			d.outcome = &peerv1.Executed{Id: m.Instance.Id, Answers: m.Instance.Answers}
		}
	}
	if m.Instance.State != nil {
		p.install(o, m.Instance.State)
	}
	if d != nil {
		p.decideExecuted(d)
		p.catchUp(d, from)
		return
	}
	if view.MemberID(id.writer.Member()) == from && m.Op != 0 && o.executed(id.writer) >= id.number {
		p.tellExecuted(o, id, from, m.Op, false) // the coordinator told of it because it counts who has
	}
}

// catchUp asks a member that executed an instance of ours, which another one recovered, for what came of it.
func (p *Protocol) catchUp(d *drive, from view.MemberID) {
	if d != d.object.mine || d.stage == committed {
		return
	}
	d.next(p, committed)
	d.asked.Ask(&p.config, p.now, 0) // when to ask everyone
	p.send(from, p.question(d))
}

// driveOf finds a drive also when its instance is executed here and forgotten.
func (o *object) driveOf(id instanceID) *drive {
	if o.mine != nil && o.mine.id == id {
		return o.mine
	}
	if i := o.find(id); i != nil {
		return i.drive
	}
	return nil
}

// decideExecuted answers the clients once a quorum has executed (algorithm 3, line 21).
func (p *Protocol) decideExecuted(d *drive) {
	self := p.config.Self
	if d.object.executed(d.id.writer) < d.id.number {
		self = 0 // others have, perhaps
	}
	if !d.executed.Quorum(p.roster, self) {
		return
	}
	if d.object.executed(d.id.writer) < d.id.number && d.outcome == nil {
		return // executed elsewhere; the answers come with our own execution or a state
	}
	p.finish(d)
}

// finish ends the drive of an executed instance, and proposes what waited meanwhile.
func (p *Protocol) finish(d *drive) {
	d.instance.drive = nil
	if d.instance.gone {
		p.live.Remove(d.element)
	}
	o := d.object
	if o.mine != d {
		return
	}
	o.mine = nil
	if d.outcome != nil && len(d.outcome.Answers) == 0 {
		// Recovered as a no-op, which is final: proposing again can't execute twice.
		p.config.Took("rmw.again")
		waiting := slices.DeleteFunc(d.requests, func(r *rmwRequest) bool { return r.answered })
		o.queue = append(waiting, o.queue...)
	} else {
		p.answer(d)
	}
	p.propose(o)
}

func (p *Protocol) answer(d *drive) {
	for k, r := range d.requests {
		if r.answered {
			continue
		}
		result := register.Result{
			// The commit and execution are one more round trip, but in a cluster of one.
			Status: register.Unknown, RoundTrips: min(d.roundTrips+1, d.roundTrips*2), Fast: d.fastPath,
			Message: "the outcome was forgotten before it could be told",
		}
		if d.outcome != nil && k < len(d.outcome.Answers) {
			result = resultOf(d.outcome.Answers[k], result)
		}
		p.completeDurably(r.Handle, result)
	}
}

func resultOf(a *peerv1.Answer, r register.Result) register.Result {
	r.Carstamp = carstamp(a.Timestamp, a.Writer, a.Rmws)
	switch {
	case a.Expired:
		r.Message = "the request is too old to be told from a duplicate; it may have taken effect before"
	case a.Refused != "":
		r.Status, r.Message = register.Failed, a.Refused
	default:
		r.Status, r.Message, r.Value = register.OK, "", value(a.Present, a.Value)
	}
	return r
}

// tickInstance repeats what a drive asked, gives up requests past their deadline, and recovers what others
// left unfinished.
func (p *Protocol) tickInstance(i *instance) {
	d := i.drive
	if i.gone && d == nil {
		return // it ended while this tick went on
	}
	if d != nil {
		p.tickDrive(d)
	}
	if d == nil || d.stage == preempted {
		if p.now >= i.patience {
			p.recover(i)
		}
	}
}
