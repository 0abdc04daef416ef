package instance

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// One instance carries a batch of the commands that wait for a key, within these bounds.
const (
	batchCommands = 64
	batchBytes    = 1 << 20
)

// request is an operation of a client of this member.
type request struct {
	protocol.Request
	answered bool // given up at its deadline, or told before its execution
}

func (r *request) reads() bool { return r.Operation.Kind == register.Read }

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
	own        bool // of the key's (object.mine); else it is a recovery
	stage      stage
	ballot     uint64
	op         uint64
	asked      quorum.Tally
	requests   []*request // none in a recovery
	roundTrips int
	fastPath   bool

	alone    bool             // one other member was asked to pre-accept, and nobody else
	merged   attributes       // joined with what others answered
	agreed   quorum.Tally     // to a fast commit
	prepared []*preparedReply // in a recovery

	outcome  *peerv1.Executed // executed here, or heard of
	executed quorum.Tally     // others that executed it; asked says only who need not be asked again
}

// propose is algorithm 3, lines 2 to 8, for what waits, while there is a lane that has no instance in progress. So a
// writer's instances follow each other, and a dependency graph has no more nodes than members have lanes: chains of
// them end.
func (p *Core) propose(o *object) {
	for len(o.queue) > 0 {
		writer, free := p.freeLane(o)
		if !free {
			return
		}
		i := o.instance(p, instanceID{writer, o.number(writer) + 1})
		d := &drive{instance: i, own: true, stage: preAccepting, op: p.Op()}
		i.drive, o.mine = d, append(o.mine, d)
		d.requests = o.takeBatch()
		for _, r := range d.requests {
			i.commands = append(i.commands, command(r.Operation))
		}
		i.deps = o.depsOf(i)
		i.base = p.load(o.key)
		i.seq = p.seqOf(i)
		for _, j := range o.instances { // after a restart one of the lane's may be left, be it a read
			if j.id.writer == writer && j != i {
				i.seq = max(i.seq, j.seq+1)
			}
		}
		i.status, i.agreed = peerv1.Status_PRE_ACCEPTED, p.mayBeFast()
		d.alone, d.merged = p.asksOne(), i.attributes
		p.saveInstance(i)
		to := d.asked.AskFast(&p.Config, p.Counted, p.Now)
		if d.alone && p.mistakes.AskAllAlone {
			to = p.Config.Nearest
		}
		p.SendAllDurably(to, p.question(d))
		p.decidePreAccept(d)
	}
}

// freeLane returns the writer of the first lane in which nothing of the key is in progress.
func (p *Core) freeLane(o *object) (register.Writer, bool) {
	for k := range p.options.Lanes {
		if o.inLane(p.lane(k)) == nil {
			return p.lane(k), true
		}
	}
	return 0, false
}

// inLane finds what this member has in progress under a writer.
func (o *object) inLane(w register.Writer) *drive {
	for _, d := range o.mine {
		if d.id.writer == w {
			return d
		}
	}
	return nil
}

// takeBatch takes what comes first, reads or others: among others, a read would interfere with reads.
func (o *object) takeBatch() []*request {
	size, n := 0, 0
	for n < len(o.queue) && n < batchCommands && size < batchBytes && o.queue[n].reads() == o.queue[0].reads() {
		op := &o.queue[n].Operation
		size += len(op.Value)
		for _, a := range op.Call.Args {
			size += len(a)
		}
		n++
	}
	batch := o.queue[:n:n]
	o.queue = o.queue[n:]
	return batch
}

func command(op register.Operation) *peerv1.Command {
	c := &peerv1.Command{
		Session: op.ID.Session, Number: op.ID.Number, FirstIncomplete: op.ID.FirstIncomplete, IssuedAt: op.ID.IssuedAt,
	}
	switch op.Kind {
	case register.Read:
		c.Kind = peerv1.CommandKind_READ_COMMAND
	case register.Write:
		c.Kind, c.Present, c.Value = peerv1.CommandKind_WRITE_COMMAND, op.Value.Present(), op.Value
	default:
		c.Function, c.Args, c.MaxValueBytes = op.Call.Function, op.Call.Args, uint64(op.Call.MaxValueBytes)
	}
	return c
}

// question is the message of the drive's stage, made anew for each sending.
func (p *Core) question(d *drive) *peerv1.Message {
	var m *peerv1.Message
	switch d.stage {
	case preAccepting:
		m = p.about(d.instance, peerv1.Kind_PRE_ACCEPT)
		m.Instance.Alone = d.alone
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

func (p *Core) prepare(d *drive) *peerv1.Message {
	m := p.Message(peerv1.Kind_PREPARE, 0, d.object.key)
	m.Instance = p.parts.New()
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
func (d *drive) next(p *Core, s stage) {
	d.stage, d.op = s, p.Op()
	d.asked.Restart()
}

func (p *Core) onPreAcceptOK(o *object, from view.MemberID, m *peerv1.Message) {
	d := o.answering(m, preAccepting)
	if d == nil {
		return
	}
	theirs := attributesOf(m)
	d.merged.deps, d.merged.seq = d.merged.deps.join(theirs.deps), max(d.merged.seq, theirs.seq)
	if d.merged.base.Carstamp.Less(theirs.base.Carstamp) {
		d.merged.base = theirs.base
	}
	if m.Instance.Agreed && (d.alone || !p.asksOne()) || p.mistakes.FastOnMerged {
		d.agreed.Answer(p.Counted, from)
	}
	d.asked.Answer(p.Counted, from)
	p.decidePreAccept(d)
}

// asksOne reports whether the fast quorum is the coordinator and one other member, as with three. Then nobody else is
// asked to pre-accept, and the commit has what that one added, which it notes as such. When its answer does not come in
// time, the third one is asked too; from then on the fast path is closed, since of two answers recovery could not tell
// which was taken.
func (p *Core) asksOne() bool { return p.Incarnations.HasFast() && p.Config.View.FastQuorum() == 2 }

// decidePreAccept is algorithm 3, lines 10 to 15. Where several are asked, the fast path asks that replies equal the
// *initial* attributes, so that recovery knows what could have been chosen.
func (p *Core) decidePreAccept(d *drive) {
	switch {
	case d.agreed.Fast(p.Counted, p.Config.Self),
		p.mistakes.FastOnMajority && p.Incarnations.HasFast() && d.agreed.Quorum(p.Counted, p.Config.Self):
		p.took(pathFast)
		d.fastPath = true
		d.roundTrips = min(1, p.Config.View.Size()-1)
		if d.alone || p.mistakes.FastOnMerged {
			if !d.sameAs(&d.merged) {
				p.took(pathFastMerged)
			}
			d.attributes = d.merged
		}
		p.commit(d)
	case d.asked.Quorum(p.Counted, p.Config.Self) &&
		(d.agreed.Count(p.Counted) < d.asked.Count(p.Counted) || !p.Incarnations.HasFast()):
		p.took(pathSlow)
		d.roundTrips = 1
		p.accept(d, d.merged)
	}
}

// accept proposes attributes to a majority (algorithm 3, lines 13 to 18).
func (p *Core) accept(d *drive, a attributes) {
	silent := d.stage == preAccepting && d.asked.Wide() // somebody near is
	d.next(p, accepting)
	d.attributes = a
	d.status, d.instance.ballot, d.accepted = peerv1.Status_ACCEPTED, d.ballot, d.ballot
	p.saveInstance(d.instance)
	to := p.AskQuorum(&d.asked)
	if silent {
		to = p.AskAll(&d.asked)
	}
	p.SendAllDurably(to, p.question(d))
	p.decideAccept(d)
}

func (p *Core) onAcceptOK(o *object, from view.MemberID, m *peerv1.Message) {
	if d := o.answering(m, accepting); d != nil {
		d.asked.Answer(p.Counted, from)
		p.decideAccept(d)
	}
}

func (p *Core) decideAccept(d *drive) {
	if d.asked.Quorum(p.Counted, p.Config.Self) {
		d.roundTrips++
		p.commit(d)
	}
}

// commit is algorithm 3, lines 19 to 22. The decision is durable here before anyone is told: a coordinator
// that forgot a fast commit would answer Prepare as if there had been none.
func (p *Core) commit(d *drive) {
	d.next(p, committed)
	d.status, d.tellTo = peerv1.Status_COMMITTED, p.Config.Self
	// Everyone is told, not a quorum alone: everyone has to execute.
	to := p.AskAll(&d.asked)
	if p.mistakes.CommitBeforePersist {
		p.SendAll(to, p.question(d))
	} else {
		p.SendAllDurably(to, p.question(d))
	}
	if p.mistakes.AnswerOnCommit {
		p.answerEarly(d)
	}
	p.settleCommit(d.instance)
}

// settleCommit executes what a commit makes ready, or keeps the commit until it is.
func (p *Core) settleCommit(i *instance) {
	p.execute(i.object)
	if !i.gone {
		p.saveInstance(i)
		p.answerCommitted(i)
	}
}

// onExecuted counts executions, and takes the state of a member that is ahead.
func (p *Core) onExecuted(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.GetId())
	d := o.driveOf(id)
	if d != nil {
		d.executed.Answer(p.Counted, from)
		if m.Op == d.op {
			d.asked.Answer(p.Counted, from)
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
func (p *Core) catchUp(d *drive, from view.MemberID) {
	if !d.own || d.stage == committed {
		return
	}
	d.next(p, committed)
	d.asked.Ask(&p.Config, p.Now, 0) // when to ask everyone
	p.Send(from, p.question(d))
}

// driveOf finds a drive also when its instance is executed here and forgotten.
func (o *object) driveOf(id instanceID) *drive {
	if d := o.inLane(id.writer); d != nil && d.id == id {
		return d
	}
	if i := o.find(id); i != nil {
		return i.drive
	}
	return nil
}

// decideExecuted answers the clients once a quorum has executed (algorithm 3, line 21), or, where reads are ordered
// with all else, once the outcome is known.
func (p *Core) decideExecuted(d *drive) {
	self := p.Config.Self
	if d.object.executed(d.id.writer) < d.id.number {
		self = 0 // others have, perhaps
	}
	if p.options.Registers != nil && !d.executed.Quorum(p.Counted, self) {
		return
	}
	if d.object.executed(d.id.writer) < d.id.number && d.outcome == nil {
		return // executed elsewhere; the answers come with our own execution or a state
	}
	p.finish(d)
}

// finish ends the drive of an executed instance, and proposes what waited meanwhile.
func (p *Core) finish(d *drive) {
	d.instance.drive = nil
	if d.instance.gone {
		p.live.Remove(d.element)
	}
	o := d.object
	if !d.own {
		return
	}
	d.own = false
	o.mine = slices.DeleteFunc(o.mine, func(e *drive) bool { return d == e })
	if d.outcome != nil && len(d.outcome.Answers) == 0 {
		// Recovered as a no-op, which is final: proposing again can't execute twice.
		p.took(pathAgain)
		waiting := slices.DeleteFunc(d.requests, func(r *request) bool { return r.answered })
		o.queue = append(waiting, o.queue...)
	} else {
		p.answer(d)
	}
	p.propose(o)
}

func (p *Core) answer(d *drive) {
	var again []*request
	for k, r := range d.requests {
		if r.answered {
			continue
		}
		result := register.Result{
			Status: register.Unknown, RoundTrips: p.roundTrips(d), Fast: d.fastPath,
			Message: "the outcome was forgotten before it could be told",
		}
		if d.outcome != nil && k < len(d.outcome.Answers) {
			result = resultOf(d.outcome.Answers[k], result)
		}
		if r.reads() && result.Status == register.Unknown { // nobody keeps what a read returned
			again = append(again, r)
			continue
		}
		p.CompleteDurably(r.Handle, result)
	}
	if len(again) > 0 {
		p.took(pathReadAgain)
		d.object.queue = append(again, d.object.queue...)
	}
}

// roundTrips is how many the answer waited for, but for those of other instances. Where a quorum has to execute, the
// commit and the executions are one more. A member that is alone has none.
func (p *Core) roundTrips(d *drive) int {
	if p.options.Registers != nil {
		return min(d.roundTrips+1, d.roundTrips*2)
	}
	return max(d.roundTrips, min(1, p.Config.View.Size()-1))
}

// answerCommitted tells clients of writes that are committed here and can't be executed yet. What begins from now on
// comes after them: it depends on them, and its seq is larger. A write with an id is not among them: execution may find
// that the id is too old to be told from a duplicate, and refuse it.
func (p *Core) answerCommitted(i *instance) {
	d := i.drive
	if p.options.Registers != nil || d == nil || len(i.commands) == 0 {
		return
	}
	for _, r := range d.requests {
		if r.answered || r.Operation.Kind != register.Write || r.Operation.ID.Session != 0 && !p.mistakes.AnswerNamed {
			continue
		}
		p.took(pathAnsweredOnCommit)
		r.answered = true
		p.CompleteDurably(r.Handle, register.Result{Status: register.OK, RoundTrips: p.roundTrips(d), Fast: d.fastPath})
	}
}

func resultOf(a *peerv1.Answer, r register.Result) register.Result {
	r.Carstamp = stamp.Carstamp(a.Timestamp, a.Writer, a.Rmws)
	switch {
	case a.Expired:
		r.Message = "the request is too old to be told from a duplicate; it may have taken effect before"
	case a.Refused != "":
		r.Status, r.Message = register.Failed, a.Refused
	default:
		r.Status, r.Message, r.Value = register.OK, "", stamp.Value(a.Present, a.Value)
	}
	return r
}

// tickInstance repeats what a drive asked, gives up requests past their deadline, and recovers what others
// left unfinished.
func (p *Core) tickInstance(i *instance) {
	d := i.drive
	if i.gone && d == nil {
		return // it ended while this tick went on
	}
	if d != nil {
		p.tickDrive(d)
	}
	if d == nil || d.stage == preempted {
		if p.Now >= i.patience {
			p.recover(i)
		}
	}
}
