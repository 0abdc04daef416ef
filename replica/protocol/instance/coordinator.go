package instance

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/protocol/session"
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

// phase is the step of the algorithm that a coordination is in. An instance goes from preAccepting to committed on the
// fast path, and through accepting on the slow path; a recovery begins with preparing.
type phase uint8

const (
	preAccepting phase = iota + 1 // algorithm 3, from line 2: peers add the dependencies that they know of
	preparing                     // algorithm 5: peers are asked what they know of the instance
	accepting                     // algorithm 3, from line 13: a majority accepts the attributes
	committed                     // algorithm 3, from line 19: everyone is told, and executes
	preempted                     // another member recovers the instance, and sends the outcome
)

// coordination is the coordinator's part of one instance: of one that this member proposed, or of one that it recovers
// for another member.
type coordination struct {
	*instance
	own        bool // this member proposed the instance (it is in object.mine); else this is a recovery
	phase      phase
	ballot     uint64       // of the messages; 0: this member proposed it, and nobody recovers it
	op         uint64       // number of the present question, which its answers repeat
	asked      quorum.Tally // who answered the present question
	requests   []*request   // none in a recovery
	roundTrips int
	fastPath   bool

	onePeer   bool             // PreAccept went to one peer, and to no other: see fastQuorumOfTwo
	merged    attributes       // the initial attributes joined with those of the answers: what the slow path proposes
	fastVotes quorum.Tally     // answers that allow a commit on the fast path (instance.fastVote)
	prepared  []*preparedReply // answers to Prepare, in a recovery

	// Answers of the commands, from an execution here or elsewhere; nil: unknown; no answers: a no-op.
	outcome  *peerv1.Executed
	executed quorum.Tally // others that executed it; asked says only who need not be asked again
}

// propose is algorithm 3, lines 2 to 8, for the requests that wait, while a lane is free. A lane is a sequence of
// instances of one writer, of which one at most is in progress per key. So a dependency graph has no more nodes than
// members have lanes, and its chains end.
func (p *Core) propose(o *object) {
	for len(o.queue) > 0 {
		writer, free := p.freeLane(o)
		if !free {
			return
		}
		i := o.instance(p, instanceID{writer, o.number(writer) + 1})
		d := &coordination{instance: i, own: true, phase: preAccepting, op: p.Op()}
		i.coordination, o.mine = d, append(o.mine, d)
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
		i.status, i.fastVote = peerv1.Status_PRE_ACCEPTED, p.mayBeFast()
		d.onePeer, d.merged = p.fastQuorumOfTwo(), i.attributes
		p.saveInstance(i)
		to := d.asked.AskFast(&p.Config, p.Counted, p.Now)
		if d.onePeer && p.mistakes.AskAllAlone {
			to = p.Config.Nearest
		}
		p.SendAllDurably(to, p.question(d))
		p.decidePreAccept(d)
	}
}

// onPreAcceptOK counts an answer, and joins its attributes with the others.
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
	if m.Instance.Agreed && (d.onePeer || !p.fastQuorumOfTwo()) || p.mistakes.FastOnMerged {
		d.fastVotes.Answer(p.Counted, from)
	}
	d.asked.Answer(p.Counted, from)
	p.decidePreAccept(d)
}

// fastQuorumOfTwo reports whether the fast quorum is the coordinator and one peer, as with three members. PreAccept
// then goes to one peer, and the fast path commits the attributes as that peer extended them: the peer's record
// (instance.fastVote) says so, and recovery finds it there. When the peer does not answer in time, the third member is
// asked too (tickCoordination). From then on the fast path is closed: of two answers, recovery could not tell which one
// the coordinator took.
func (p *Core) fastQuorumOfTwo() bool {
	return p.Incarnations.HasFast() && p.Config.View.FastQuorum() == 2
}

// decidePreAccept is algorithm 3, lines 10 to 15. Where several are asked, the fast path asks that replies equal the
// *initial* attributes, so that recovery knows what could have been chosen.
func (p *Core) decidePreAccept(d *coordination) {
	switch {
	case d.fastVotes.Fast(p.Counted, p.Config.Self),
		p.mistakes.FastOnMajority && p.Incarnations.HasFast() && d.fastVotes.Quorum(p.Counted, p.Config.Self):
		p.took(pathFast)
		d.fastPath = true
		d.roundTrips = min(1, p.Config.View.Size()-1)
		if d.onePeer || p.mistakes.FastOnMerged {
			if !d.sameAs(&d.merged) {
				p.took(pathFastMerged)
			}
			d.attributes = d.merged
		}
		p.commit(d)
	case d.asked.Quorum(p.Counted, p.Config.Self) &&
		(d.fastVotes.Count(p.Counted) < d.asked.Count(p.Counted) || !p.Incarnations.HasFast()):
		p.took(pathSlow)
		d.roundTrips = 1
		p.accept(d, d.merged)
	}
}

// accept proposes attributes to a majority (algorithm 3, lines 13 to 18).
func (p *Core) accept(d *coordination, a attributes) {
	silent := d.phase == preAccepting && d.asked.Wide() // somebody near is
	d.enter(p, accepting)
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

// onAcceptOK counts an answer of the slow path.
func (p *Core) onAcceptOK(o *object, from view.MemberID, m *peerv1.Message) {
	if d := o.answering(m, accepting); d != nil {
		d.asked.Answer(p.Counted, from)
		p.decideAccept(d)
	}
}

func (p *Core) decideAccept(d *coordination) {
	if d.asked.Quorum(p.Counted, p.Config.Self) {
		d.roundTrips++
		p.commit(d)
	}
}

// commit is algorithm 3, lines 19 to 22. The decision is durable here before anyone is told: a coordinator
// that forgot a fast commit would answer Prepare as if there had been none.
func (p *Core) commit(d *coordination) {
	d.enter(p, committed)
	d.status, d.reportTo = peerv1.Status_COMMITTED, p.Config.Self
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
	if !i.forgotten {
		p.saveInstance(i)
		p.answerCommitted(i)
	}
}

// onExecuted counts executions, and takes the state of a member that is ahead.
func (p *Core) onExecuted(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.GetId())
	d := o.coordinationOf(id)
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

// decideExecuted answers the clients once a quorum has executed (algorithm 3, line 21), or, where reads are ordered
// with all else, once the outcome is known.
func (p *Core) decideExecuted(d *coordination) {
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

// finish ends the coordination of an executed instance, and proposes what waited meanwhile.
func (p *Core) finish(d *coordination) {
	d.instance.coordination = nil
	if d.instance.forgotten {
		p.live.Remove(d.element)
	}
	o := d.object
	if !d.own {
		return
	}
	d.own = false
	o.mine = slices.DeleteFunc(o.mine, func(e *coordination) bool { return d == e })
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

// answer completes the requests of an executed instance, or puts reads whose results were forgotten into the queue
// again.
func (p *Core) answer(d *coordination) {
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

// answerCommitted tells clients of writes that are committed here and can't be executed yet. What begins from now on
// comes after them: it depends on them, and its seq is larger. A write with an id is not among them: execution may find
// that the id is too old to be told from a duplicate, and refuse it.
func (p *Core) answerCommitted(i *instance) {
	d := i.coordination
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

// tickInstance repeats what a coordination asked, gives up requests past their deadline, and recovers what others
// left unfinished.
func (p *Core) tickInstance(i *instance) {
	d := i.coordination
	if i.forgotten && d == nil {
		return // it ended while this tick went on
	}
	if d != nil {
		p.tickCoordination(d)
	}
	if d == nil || d.phase == preempted {
		if p.Now >= i.recoverAt {
			p.recover(i)
		}
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
func (o *object) inLane(w register.Writer) *coordination {
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
	c := session.Command(op)
	switch op.Kind {
	case register.Read:
		c.Kind = peerv1.CommandKind_READ_COMMAND
	case register.Write:
		c.Kind, c.Present, c.Value = peerv1.CommandKind_WRITE_COMMAND, op.Value.Present(), op.Value
	}
	return c
}

// question is the message of the coordination's phase, made anew for each sending.
func (p *Core) question(d *coordination) *peerv1.Message {
	var m *peerv1.Message
	switch d.phase {
	case preAccepting:
		m = p.about(d.instance, peerv1.Kind_PRE_ACCEPT)
		m.Instance.Alone = d.onePeer
	case accepting:
		m = p.about(d.instance, peerv1.Kind_ACCEPT)
	case committed:
		switch {
		case d.status == peerv1.Status_COMMITTED:
			m = p.about(d.instance, peerv1.Kind_COMMIT)
		case d.forgotten: // recovered by another member, of which the state came here: it goes on to the rest
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

func (p *Core) prepare(d *coordination) *peerv1.Message {
	m := p.Message(peerv1.Kind_PREPARE, 0, d.object.key)
	m.Instance = p.parts.New()
	m.Instance.Id = p.name(d.id)
	return m
}

// answering returns the coordination that a reply is for, if it is for its present phase.
func (o *object) answering(m *peerv1.Message, s phase) *coordination {
	i := o.find(idOf(m.Instance.GetId()))
	if i == nil || i.coordination == nil || i.coordination.op != m.Op || i.coordination.phase != s {
		return nil
	}
	return i.coordination
}

// enter begins a phase with a new question: answers to the one before no longer count.
func (d *coordination) enter(p *Core, s phase) {
	d.phase, d.op = s, p.Op()
	d.asked.Restart()
}

// coordinationOf finds a coordination also when its instance is executed here and forgotten.
func (o *object) coordinationOf(id instanceID) *coordination {
	if d := o.inLane(id.writer); d != nil && d.id == id {
		return d
	}
	if i := o.find(id); i != nil {
		return i.coordination
	}
	return nil
}

// catchUp asks a member that executed an instance of ours, which another one recovered, for what came of it.
func (p *Core) catchUp(d *coordination, from view.MemberID) {
	if !d.own || d.phase == committed {
		return
	}
	d.enter(p, committed)
	d.asked.Ask(&p.Config, p.Now, 0) // when to ask everyone
	p.Send(from, p.question(d))
}

// roundTrips is how many the answer waited for, but for those of other instances. Where a quorum has to execute, the
// commit and the executions are one more. A member that is alone has none.
func (p *Core) roundTrips(d *coordination) int {
	if p.options.Registers != nil {
		return min(d.roundTrips+1, d.roundTrips*2)
	}
	return max(d.roundTrips, min(1, p.Config.View.Size()-1))
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
