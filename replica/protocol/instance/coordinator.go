package instance

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// phase is the step of the algorithm that a coordination is in. An instance goes from preAccepting to committed on the
// fast path, and through accepting on the slow path; a recovery begins with preparing.
type phase uint8

const (
	preAccepting phase = iota + 1 // algorithm 3, from line 2: peers add the dependencies that they know of
	preparing                     // algorithm 5: peers are asked what they know of the instance
	validating                    // a recovery asks what interferes with the initial attributes (validate.go)
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
	asked      quorum.Tally // who answered the present question, without this member, which Quorum and Fast add
	requests   []*request   // none in a recovery
	roundTrips int
	fastPath   bool

	alone      bool         // PreAccept went to one fast quorum, and to nobody else: see merges
	unordered  bool         // members of the fast quorum know a smaller seq than was committed: see answerCommitted
	agreements quorum.Tally // the members that agreed to a commit on the fast path (instance.agreed)
	replies    []reply      // to the present question, if it is PreAccept, Prepare or Validate
	candidate  attributes   // what is validated; of a coordinator's own instance, what it asked a majority to accept
	acceptOp   uint64       // number of this member's Accept of its own instance
	accepts    quorum.Tally // the answers to it, also after the commit
	overtaken  bool         // another member recovers the instance, or has

	// Answers of the commands, from an execution here or elsewhere; nil: unknown; no answers: a no-op.
	outcome   *peerv1.Executed
	executors quorum.Tally // others that executed it; asked says only who need not be asked again
}

// coordinator proposes the commands of its clients, and commits what it or a recovery proposes.
type coordinator struct {
	*store
	acceptor
	executor
	clients
}

// questions are the messages of the phases that tell of an instance; the others ask what is known of it.
var questions = map[phase]peerv1.Kind{
	preAccepting: peerv1.Kind_PRE_ACCEPT, accepting: peerv1.Kind_ACCEPT, committed: peerv1.Kind_COMMIT,
}

// propose is algorithm 3, lines 2 to 8, for the requests that wait, while a lane is free. A lane is a sequence of
// instances of one writer, of which one at most is in progress per key. So a dependency graph has no more nodes than
// members have lanes, and its chains end.
func (p *coordinator) propose(o *object) {
	for len(o.queue) > 0 {
		writer, free := p.freeLane(o)
		if !free {
			return
		}
		i := p.instance(o, instanceID{writer, o.number(writer) + 1})
		d := p.began.New()
		d.instance, d.own, d.phase, d.op = i, true, preAccepting, p.Op()
		i.coordination, o.mine = d, append(o.mine, d)
		d.requests = o.takeBatch(&p.Config.Tuning)
		for _, r := range d.requests {
			i.commands = append(i.commands, command(r.Operation))
		}
		i.deps = o.depsOf(i, false)
		i.base = p.load(o.key)
		i.seq = p.seqOf(i)
		if p.validates() {
			i.deps, i.seq = p.initial(i)
		}
		for _, j := range o.instances { // after a restart one of the lane's may be left, be it a read
			if j.id.writer == writer && j != i {
				i.seq = max(i.seq, j.seq+1)
			}
		}
		i.status, i.agreed = peerv1.Status_PRE_ACCEPTED, p.mayBeFast()
		d.alone = p.merges()
		p.saveInstance(i)
		p.SendAllDurably(d.asked.AskFast(&p.Config, p.Incarnations, p.Now), p.question(d))
		p.decidePreAccept(d)
	}
}

// onPreAcceptOK counts an answer, and joins its attributes with the others.
func (p *coordinator) onPreAcceptOK(d *coordination, from view.MemberID, m *peerv1.Message) {
	d.hear(replyOf(from, m))
	if m.Instance.Agreed && (d.alone || !p.merges()) {
		d.agreements.Answer(p.Incarnations, from)
	}
	d.asked.Answer(p.Incarnations, from)
	p.decidePreAccept(d)
}

// decidePreAccept is algorithm 3, lines 10 to 15, with one of two rules for the fast path (merges). Recovery has to
// know what could have been chosen.
func (p *coordinator) decidePreAccept(d *coordination) {
	agreed := d.agreements.Fast(p.Incarnations, p.Config.Self)
	heard := d.asked.Quorum(p.Incarnations, p.Config.Self) && (agreed || !p.Incarnations.HasFast() ||
		d.agreements.Count(p.Incarnations) < d.asked.Count(p.Incarnations))
	if !heard {
		return
	}
	merged := p.merged(d)
	switch {
	case agreed && (!p.merges() || p.survives(d, &merged)):
		p.took(pathFast)
		d.fastPath = true
		d.roundTrips = min(1, p.Config.View.Size()-1)
		if p.merges() {
			p.commitMerged(d, &merged)
		}
		p.commit(d)
	default:
		p.took(pathSlow)
		d.roundTrips = 1
		p.accept(d, merged)
	}
}

// commitMerged makes the attributes of a fast commit what its quorum knows together.
func (p *coordinator) commitMerged(d *coordination, merged *attributes) {
	if !d.sameAs(merged) {
		p.took(pathFastMerged)
	}
	d.unordered = slices.ContainsFunc(p.standing(d), func(r reply) bool { return r.seq < merged.seq })
	d.attributes = *merged
}

// accept proposes attributes to a majority (algorithm 3, lines 13 to 18).
func (p *coordinator) accept(d *coordination, a attributes) {
	silent := d.phase == preAccepting && d.asked.Wide() // somebody near is
	p.enter(d, accepting)
	p.keepVote(d.instance)
	d.attributes = a
	d.status, d.instance.ballot, d.accepted = peerv1.Status_ACCEPTED, d.ballot, d.ballot
	p.saveInstance(d.instance)
	to := p.AskQuorum(&d.asked)
	if p.validates() && d.own && d.ballot == 0 {
		d.acceptOp, d.candidate = d.op, a
		to = d.asked.Ask(&p.Config, p.Now, p.Config.View.Majority()) // one more: see acceptedWidely
	}
	if silent {
		to = p.AskAll(&d.asked)
	}
	p.SendAllDurably(to, p.question(d))
	p.decideAccept(d)
}

// decideAccept ends the slow path.
func (p *coordinator) decideAccept(d *coordination) {
	if d.asked.Quorum(p.Incarnations, p.Config.Self) {
		d.roundTrips++
		p.commit(d)
	}
}

// commit is algorithm 3, lines 19 to 22. The decision is durable here before anyone is told: a coordinator
// that forgot a fast commit would answer Prepare as if there had been none.
func (p *coordinator) commit(d *coordination) {
	p.enter(d, committed)
	d.silent = d.status < peerv1.Status_PRE_ACCEPTED // a recovery that found the commit
	d.status, d.reportTo = peerv1.Status_COMMITTED, p.Config.Self
	// Everyone is told, not a quorum alone: everyone has to execute.
	p.SendAllDurably(p.AskAll(&d.asked), p.question(d))
	p.executeCommitted(d.instance)
}

// executeCommitted executes what a commit makes ready, or keeps the commit until it is.
func (p *coordinator) executeCommitted(i *instance) {
	p.execute(i.object)
	if !i.forgotten {
		p.saveInstance(i)
		p.answerCommitted(i)
	}
}

// onExecuted counts executions, and takes the state of a member that is ahead.
func (p *coordinator) onExecuted(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.GetId())
	d := o.coordinationOf(id)
	if d != nil {
		d.executors.Answer(p.Incarnations, from)
		if m.Op == d.op {
			d.asked.Answer(p.Incarnations, from)
		}
		// Own execution brings all answers; of those that come from others, large ones are left out.
		if d.outcome == nil && len(m.Instance.Answers) > 0 &&
			!slices.ContainsFunc(m.Instance.Answers, (*peerv1.Answer).GetExpired) {
			d.outcome = &peerv1.Executed{Answers: m.Instance.Answers}
		}
	}
	if m.Instance.State != nil {
		p.takeState(o, m.Instance.State)
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
func (p *coordinator) decideExecuted(d *coordination) {
	self, known := p.Config.Self, true
	if d.object.executed(d.id.writer) < d.id.number {
		// Others have, perhaps. The answers come with them, or with this member's own execution, or a state.
		self, known = 0, d.outcome != nil
	}
	if known && (p.options.Registers == nil || d.executors.Quorum(p.Incarnations, self)) {
		p.finish(d)
	}
}

// finish ends the coordination of an executed instance, and proposes what waited meanwhile.
func (p *coordinator) finish(d *coordination) {
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

// inLane finds what this member has in progress under a writer.
func (o *object) inLane(w register.Writer) *coordination {
	for _, d := range o.mine {
		if d.id.writer == w {
			return d
		}
	}
	return nil
}

// question is the message of the coordination's phase, made anew for each sending.
func (p *coordinator) question(d *coordination) *peerv1.Message {
	kind, tells := questions[d.phase]
	switch {
	case d.phase == validating:
		return p.validation(d)
	case !tells:
		return p.query(d.instance, d.op, d.ballot)
	case d.phase == committed && d.status != peerv1.Status_COMMITTED && d.forgotten:
		// It was recovered by another member, of which the state came here: that goes on to the rest.
		return p.executedMessage(d.object, d.id, d.op, true)
	case d.phase == committed && d.status != peerv1.Status_COMMITTED: // executed elsewhere
		return p.query(d.instance, d.op, 0)
	}
	m := p.about(d.instance, kind)
	m.Op, m.Instance.Ballot = d.op, d.ballot
	m.Instance.Alone = d.alone && d.phase == preAccepting
	return m
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
func (p *coordinator) catchUp(d *coordination, from view.MemberID) {
	if !d.own || d.phase == committed {
		return
	}
	d.overtaken = true
	p.enter(d, committed)
	d.asked.Ask(&p.Config, p.Now, 0) // when to ask everyone
	p.Send(from, p.question(d))
}

// execute executes every committed instance of a key whose dependencies are all committed.
func (p *coordinator) execute(o *object) {
	for component := p.executeOne(o); component != nil; component = p.executeOne(o) {
		p.reportExecuted(component)
	}
}

// takeState takes the state of a member that is ahead, and executes what waited for what it covers.
func (p *coordinator) takeState(o *object, theirs *peerv1.KeyState) {
	if covered, news := p.install(o, theirs); news {
		p.reportExecuted(covered)
		p.execute(o)
	}
}

// reportExecuted tells those who wait for executions (algorithm 4, line 21): at once, if the instance is on this
// member's disk, and once they are durable otherwise. A crash may take the execution back then, but neither the commit,
// which a quorum's disks tell of, nor the record: the next process serves nothing of the key before it has executed the
// instance again (awaits). Who has not voted is silent: those who have are a quorum with the coordinator, which asks
// everyone again if they do not answer.
func (p *coordinator) reportExecuted(component []*instance) {
	for _, i := range component {
		if i.coordination != nil { // this member's own: a recovery ended with the execution
			p.decideExecuted(i.coordination)
		}
		if p.options.Registers == nil { // a coordinator waits for its own execution alone
			continue
		}
		if i.silent {
			continue
		}
		author := view.MemberID(i.id.writer.Member())
		if author != p.Config.Self && p.Config.View.Index(author) >= 0 { // it may have been replaced since
			p.SendWhen(i.kept, author, p.executedMessage(i.object, i.id, 0, false))
		}
		if i.reportTo != 0 && i.reportTo != author && i.reportTo != p.Config.Self {
			p.SendWhen(i.kept, i.reportTo, p.executedMessage(i.object, i.id, 0, false))
		}
	}
}

func (p *coordinator) tickCoordination(d *coordination) {
	if d.own {
		p.giveUpLate(d)
	}
	if d.phase == preempted {
		return
	}
	if d.phase == committed {
		p.decideExecuted(d) // a member that is alone, and resumes an rmw, hears of no execution
		if d.instance.coordination == nil {
			return
		}
	}
	missing := p.Unanswered(&d.asked)
	if len(missing) == 0 {
		return
	}
	p.took(pathRetry)
	if d.phase == preAccepting && d.asked.Quorum(p.Incarnations, p.Config.Self) {
		d.roundTrips = 1
		p.accept(d, p.merged(d)) // the fast quorum does not come together
		return
	}
	if d.alone && d.phase == preAccepting {
		p.took(pathNotAlone)
		d.alone = false
	}
	p.SendAllDurably(missing, p.question(d))
}

// onCommit is algorithm 4, lines 11 and 12. Anyone may learn a decision; it is no vote.
func (p *coordinator) onCommit(o *object, from view.MemberID, m *peerv1.Message) {
	id := idOf(m.Instance.Id)
	if o.executed(id.writer) >= id.number {
		p.tellExecuted(o, id, from, m.Op, false)
		return
	}
	i := p.instance(o, id)
	i.reportTo = from
	if i.status == peerv1.Status_COMMITTED {
		i.silent = false // the sender asks again
		return           // it waits for what it depends on
	}
	p.learnCommit(i, m)
}

// learnCommit takes a decision over: it is a fact, whoever tells it.
func (p *coordinator) learnCommit(i *instance, m *peerv1.Message) {
	i.silent = i.status < peerv1.Status_PRE_ACCEPTED
	i.adopt(m)
	i.status = peerv1.Status_COMMITTED
	if d := i.coordination; d != nil && d.phase != committed {
		d.overtaken = true
		p.enter(d, committed) // another member finished it
		p.AskAll(&d.asked)
	}
	p.executeCommitted(i)
}
