package instance

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// With EPaxos' own fast quorum (SOSP '13, section 4.3), all but two of five or seven members, recovery may hear so few
// that agreed that it can't tell whether the coordinator has committed. It then asks a majority to *validate* the
// initial attributes: to note them, and to say which updates are rivals. A rival interferes, and neither of the two
// depends on the other; of two rivals one at most was committed on the fast path (Ryabinin, Gotsman, Sutra, Making
// Democracy Work, arXiv 2511.02743). docs/protocols.md, EPaxos, has the argument, and says what is simpler here and
// why.

// validates reports whether this is the rule. In a joint view, one of whose sides may have three members, what follows
// of it for answers and proposals holds as well.
func (p *store) validates() bool {
	return p.options.Registers == nil && p.Config.Faults == 0 && p.Config.View.Size() > 3
}

// fastQuorum is the size of a fast quorum of a plain view, or of one side of a joint one.
func (p *store) fastQuorum(v view.View) int {
	if p.validates() {
		return v.ValidatedQuorum()
	}
	return v.FastQuorum(p.Config.Faults)
}

// mayAgree reports whether this member may agree to a fast commit. Where recovery validates, a disk that replaces a
// lost one does not: it may not know of an instance of the lost one that others will take for a rival (judge).
func (p *store) mayAgree() bool {
	return p.mayBeFast() && (!p.validates() || p.Incarnations.Of(p.Config.Self) == 1)
}

// vote is what a member told of an update when it pre-accepted or validated it.
type vote struct {
	deps vector
	seq  uint64
}

// acceptedWidely reports whether one more than a majority has accepted a coordinator's own instance, so that its seq is
// known as it is after a commit on the fast path. An update that begins later and has no larger one was proposed by
// somebody who had not accepted that, nor had those who agreed to it; with those who did accept it, these would be too
// many. With a majority alone, recovery could not tell such an update from one that began before.
func (p *store) acceptedWidely(d *coordination) bool {
	return p.Incarnations.HasFast() && d.accepts.Count(p.Incarnations)+1 > p.Config.View.Majority()
}

// hearAccepted counts who has accepted a coordinator's own instance, also when it is committed.
func (p *recovery) hearAccepted(i *instance, from view.MemberID) {
	i.coordination.accepts.Answer(p.Incarnations, from)
	if i.status == peerv1.Status_COMMITTED {
		p.answerCommitted(i)
	}
}

// mayBeStale reports whether a read's dependencies may be those that a recovery did not validate, so that it may have
// missed what was answered before it began. They are not, if they are what its coordinator had from a majority.
func (p *store) mayBeStale(d *coordination) bool {
	return p.validates() && d.overtaken && (d.acceptOp == 0 || !d.sameAs(&d.candidate))
}

// keepVote keeps what this member told of an instance, which is about to take the attributes of an Accept. Those may be
// replaced by the initial ones in a higher ballot, or may be a no-op that is never committed.
func (p *store) keepVote(i *instance) {
	if i.status == peerv1.Status_PRE_ACCEPTED && p.options.Registers == nil && !i.reads() {
		i.noted = &vote{i.deps, i.seq}
	}
}

// told is what this member told of an instance that is not committed here; nil: nothing, or it reads.
func (i *instance) told() *vote {
	if i.status == peerv1.Status_PRE_ACCEPTED && !i.reads() {
		return &vote{i.deps, i.seq}
	}
	return i.noted
}

// known reports whether this member knows attributes of an instance that may be committed with commands.
func (i *instance) known() bool {
	switch i.status {
	case peerv1.Status_PRE_ACCEPTED:
		return true
	case peerv1.Status_ACCEPTED:
		return len(i.commands) > 0 || i.noted != nil
	}
	return i.status == peerv1.Status_COMMITTED && len(i.commands) > 0
}

// initial is what a coordinator proposes for its instance: dependencies on what it knows the seq of, and a seq above
// all those, also of reads. So what the dependencies name has a smaller initial seq, even what they name by a later
// instance of its writer alone. Recovery, which may have to keep both as they are, rests on that.
func (p *coordinator) initial(i *instance) (vector, uint64) {
	seq := i.seq
	for _, j := range i.object.instances {
		if j == i || !j.known() {
			continue
		}
		seq = max(seq, j.seq+1)
		if j.noted != nil {
			seq = max(seq, j.noted.seq+1)
		}
	}
	return i.object.depsOf(i, true), seq
}

// validate decides a recovery of which those heard so far can't tell whether these attributes were committed.
func (p *recovery) validate(d *coordination, initial attributes) {
	switch {
	case initial.reads():
		// Nobody needs a read of which its coordinator does not know the end: it reads again (clients.answer). So all that
		// counts is that members agree.
		p.Took(pathRecoverFast)
		p.accept(d, initial)
	case d.phase == preparing:
		p.Took(pathRecoverValidate)
		p.enter(d, validating)
		d.candidate = initial
		p.noteInitial(d.instance, &initial)
		p.saveInstance(d.instance)
		d.hear(p.own(d))
		p.SendAllDurably(p.AskAll(&d.asked), p.question(d))
		p.decidePrepare(d)
	default:
		d.hear(p.own(d))
		p.judge(d, initial)
	}
}

// judge decides by the rivals that a majority knows. The coordinator has not answered, and those who have not are, with
// those who agreed, a fast quorum with it and no more: whoever is silent has agreed, if the instance was committed.
//
//   - A rival that is committed says that it was not: some member of both quorums saw the one before the other.
//   - So does a rival whose coordinator is silent, which would have agreed after it had proposed the rival, or before.
//   - Any other rival is waited for. Its coordinator is there to end it, or another recovery will; or somebody else
//     answers, and there are too few or enough who agreed.
func (p *recovery) judge(d *coordination, initial attributes) {
	author, open := view.MemberID(d.id.writer.Member()), false
	for _, r := range p.standing(d) {
		for _, rival := range r.rivals {
			id := idOf(rival.Id)
			if !rival.Committed && p.endedHere(d.object, id) {
				continue // this member's own word tells
			}
			coordinator := view.MemberID(id.writer.Member())
			silent := coordinator != p.Config.Self && !d.asked.Answered(p.Incarnations, coordinator)
			if rival.Committed || silent && coordinator != author && p.electorate().Index(coordinator) >= 0 {
				p.Took(pathRecoverRivals)
				p.acceptNoOp(d)
				return
			}
			open = true
			p.hearOf(d.object, id)
		}
	}
	if open {
		p.Took(pathRecoverWait)
		return
	}
	p.Took(pathRecoverFast)
	p.accept(d, initial)
}

// endedHere reports whether an instance is committed or executed here.
func (p *recovery) endedHere(o *object, id instanceID) bool {
	i := o.find(id)
	return o.executed(id.writer) >= id.number || i != nil && i.status == peerv1.Status_COMMITTED
}

// hearOf has this member recover an instance that it does not know, unless it hears of its end.
func (p *recovery) hearOf(o *object, id instanceID) {
	if o.find(id) == nil {
		i := p.instance(o, id)
		i.status = peerv1.Status_HEARD
		p.scheduleRecovery(i)
	}
}

// own is what this member says to the question of its own recovery that validates.
func (p *store) own(d *coordination) reply {
	i := d.instance
	return reply{i.attributes, p.Config.Self, i.status, i.accepted, i.agreed, p.rivals(i, d.candidate.deps)}
}

// validation is the question of a recovery that validates.
func (p *store) validation(d *coordination) *peerv1.Message {
	m := p.query(d.instance, d.op, d.ballot)
	m.Kind = peerv1.Kind_VALIDATE
	m.Instance.Deps, m.Instance.Seq = p.names(d.candidate.deps), d.candidate.seq
	m.Instance.Commands = d.candidate.commands
	return m
}

// onValidate notes the initial attributes of an instance, so that whatever is voted on here from now on depends on it,
// and tells of its rivals.
func (p *acceptor) onValidate(i *instance, from view.MemberID, m *peerv1.Message) {
	if m.Instance.Ballot < i.ballot || m.Instance.Ballot == 0 {
		p.refuse(i, from, m)
		return
	}
	initial := attributesOf(m)
	if m.Instance.Ballot > i.ballot {
		i.ballot = m.Instance.Ballot
		i.seen = max(i.seen, i.ballot)
		p.yield(i)
	}
	p.scheduleRecovery(i)
	p.noteInitial(i, &initial)
	p.saveInstance(i)
	reply := p.about(i, peerv1.Kind_VALIDATE_OK)
	reply.Op, reply.Instance.Rivals = m.Op, p.rivals(i, initial.deps)
	p.SendDurably(from, reply)
}

// noteInitial notes initial attributes, unless this member has voted on the instance.
func (p *store) noteInitial(i *instance, initial *attributes) {
	switch {
	case i.status < peerv1.Status_PRE_ACCEPTED:
		i.attributes, i.status = *initial, peerv1.Status_PRE_ACCEPTED
	case i.status == peerv1.Status_ACCEPTED && i.noted == nil:
		i.noted = &vote{initial.deps, initial.seq}
	}
}

// rivals lists those that this member knows of an update with such dependencies. What is executed here and not named by
// them does not depend on it, since it is not executed itself. Instances of one writer depend on each other in any
// case.
func (p *store) rivals(i *instance, deps vector) []*peerv1.Rival {
	var all []*peerv1.Rival
	add := func(id instanceID, committed bool) {
		all = append(all, &peerv1.Rival{Id: p.name(id), Committed: committed})
	}
	unnamed := func(id instanceID) bool { return id.writer != i.id.writer && id.number > deps.of(id.writer) }
	for _, e := range i.object.state.Executed {
		if id := (instanceID{register.Writer(e.GetId().GetWriter()), lastUpdate(e)}); unnamed(id) {
			add(id, true)
		}
	}
	for _, j := range i.object.instances {
		if !unnamed(j.id) {
			continue
		}
		if j.status == peerv1.Status_COMMITTED {
			if len(j.commands) > 0 && !j.reads() && j.deps.of(i.id.writer) < i.id.number {
				add(j.id, true)
			}
		} else if told := j.told(); told != nil && told.deps.of(i.id.writer) < i.id.number {
			add(j.id, false)
		}
	}
	return all
}
