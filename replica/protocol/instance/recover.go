package instance

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/stamp"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// preparedReply is what a member said of an instance in a recovery.
type preparedReply struct {
	attributes
	from     view.MemberID
	status   peerv1.Status
	accepted uint64
	fastVote bool
}

// scheduleRecovery sets when to recover an instance that makes no progress here. Members take turns by their
// distance from the coordinator, and draw a delay, so that recoveries seldom duel.
func (p *Core) scheduleRecovery(i *instance) {
	n := p.Config.View.Size()
	author := p.Config.View.Index(view.MemberID(i.id.writer.Member()))
	rank := (p.Config.View.Index(p.Config.Self) - author + n) % n
	wait := p.Config.Suspect
	if i.status == peerv1.Status_HEARD || p.isOld(i) {
		wait = 2 * p.Config.Retry // something committed waits for it, or a change of the view does
	}
	wait += time.Duration(rank)*p.Config.Retry + time.Duration(min(i.attempts, 8))*p.Config.Retry
	wait += time.Duration(p.Draws.Below(uint64(p.Config.Retry)))
	i.recoverAt = p.Now.Add(wait)
}

// recover is algorithm 5, lines 1 to 3.
func (p *Core) recover(i *instance) {
	i.attempts++
	p.scheduleRecovery(i)
	if i.status == peerv1.Status_COMMITTED {
		if d := i.coordination; d != nil { // its clients came from an earlier view; others may not know of the commit
			d.enter(p, committed)
			p.SendAllDurably(p.AskAll(&d.asked), p.question(d))
		}
		p.execute(i.object) // its dependencies are recovered, each in its turn
		return
	}
	p.Took(pathRecoverBegin)
	d := i.coordination
	if d == nil {
		d = &coordination{instance: i}
		i.coordination = d
	}
	d.enter(p, preparing)
	d.ballot = ballotAfter(max(i.ballot, i.seen), p.Config.Self)
	own := &preparedReply{i.attributes, p.Config.Self, i.status, i.accepted, i.fastVote}
	if p.mistakes.OneBallot {
		own.accepted = i.ballot
	}
	d.prepared = []*preparedReply{own}
	i.ballot = d.ballot
	p.saveInstance(i)
	p.SendAllDurably(p.AskAll(&d.asked), p.question(d))
	p.decidePrepare(d)
}

// ballotAfter is the member's lowest ballot above b. Ballots are a count and the member's number; the
// coordinator's own, before any recovery, is 0.
func ballotAfter(b uint64, self view.MemberID) uint64 { return (b>>16+1)<<16 | uint64(self) }

// Settle asks who has executed what this newcomer only heard of.
func (p *Core) Settle(now protocol.Instant) bool {
	p.Now = now
	for e := p.live.Front(); e != nil; {
		i := e.Value.(*instance)
		e = e.Next()
		if p.Now < i.recoverAt {
			continue
		}
		i.recoverAt = p.Now.Add(p.Config.Retry)
		if i.status == peerv1.Status_COMMITTED {
			p.execute(i.object)
		}
		query := &coordination{instance: i, phase: preparing}
		p.SendAll(p.Config.Nearest, p.question(query))
		p.release(i.object)
	}
	return p.live.Len() == 0
}

// onPrepare is algorithm 6.
func (p *Core) onPrepare(o *object, from view.MemberID, m *peerv1.Message) {
	i := p.instanceForVote(o, from, m)
	if i == nil {
		return
	}
	if m.Instance.Ballot < i.ballot || m.Instance.Ballot == 0 { // an equal one is asked again; 0 is a mere query
		p.refuse(i, from, m)
		return
	}
	promised := i.ballot
	i.ballot = m.Instance.Ballot
	i.seen = max(i.seen, i.ballot)
	p.saveInstance(i)
	p.yield(i)
	reply := p.about(i, peerv1.Kind_PREPARE_OK)
	reply.Op = m.Op
	if p.mistakes.OneBallot {
		reply.Instance.AcceptedBallot = promised
	}
	p.SendDurably(from, reply)
}

// yield lets another member's recovery go first. A coordinator that has promised must not commit on the fast
// path any more: the recovery takes it for a member that never will. Nor may an older Accept be repeated once
// the instance has taken the attributes of a higher ballot.
func (p *Core) yield(i *instance) {
	p.scheduleRecovery(i)
	d := i.coordination
	switch {
	case d == nil || d.phase == committed:
	case d.own:
		d.enter(p, preempted)
	default:
		i.coordination = nil
	}
}

func (p *Core) onPrepareOK(o *object, from view.MemberID, m *peerv1.Message) {
	d := o.answering(m, preparing)
	if d == nil || !d.asked.Answer(p.Counted, from) {
		return
	}
	// A new disk's answer replaces that of the lost one.
	d.prepared = slices.DeleteFunc(d.prepared, func(r *preparedReply) bool { return r.from == from })
	d.prepared = append(d.prepared, &preparedReply{
		attributesOf(m), from, m.Instance.Status, m.Instance.AcceptedBallot, m.Instance.Agreed,
	})
	p.decidePrepare(d)
}

// decidePrepare is algorithm 5, lines 4 to 15, for the simple fast quorum: what may have been committed is
// proposed again, anything else becomes a no-op, which its coordinator or client then repeats elsewhere.
func (p *Core) decidePrepare(d *coordination) {
	if !d.asked.Quorum(p.Counted, p.Config.Self) {
		return
	}
	// Only those before a change were asked for what could be committed on the fast path.
	electorate := p.before
	if p.mistakes.RecoverAsPlain {
		electorate = p.Config.View
	}
	var decided, accepted, fast *preparedReply
	fastVotes := 0
	authorAnswered := false
	author := view.MemberID(d.id.writer.Member())
	for _, r := range d.prepared {
		if r.from != p.Config.Self && !d.asked.Answered(p.Counted, r.from) {
			continue // a disk that is gone
		}
		switch {
		case r.status == peerv1.Status_COMMITTED:
			decided = r
		case r.status == peerv1.Status_ACCEPTED && (accepted == nil || r.accepted > accepted.accepted):
			accepted = r
		case r.status == peerv1.Status_PRE_ACCEPTED && r.fastVote && r.from != author && electorate.Index(r.from) >= 0:
			fast = r
			fastVotes++
		}
		authorAnswered = authorAnswered || r.from == author && (p.sameDisk(d.id.writer) || p.mistakes.TrustNewDisk)
	}
	switch {
	case decided != nil:
		p.Took(pathRecoverCommitted)
		d.attributes = decided.attributes
		p.commit(d)
	case accepted != nil:
		p.Took(pathRecoverAccepted)
		p.acceptAgain(d, accepted.attributes)
	case !authorAnswered && fast != nil && fastVotes >= electorate.Size()/2:
		// The coordinator may have committed with these. With it, those who agreed are a majority, so
		// dependencies and base are good even if it has not.
		p.Took(pathRecoverFast)
		p.acceptAgain(d, fast.attributes)
	default:
		p.Took(pathRecoverNoOp)
		p.accept(d, attributes{deps: vector{}.with(instanceID{d.id.writer, d.id.number - 1})})
	}
}

// acceptAgain proposes what may have been chosen, base included.
func (p *Core) acceptAgain(d *coordination, a attributes) {
	if p.mistakes.BaseNotRecovered {
		a.base = p.load(d.object.key)
	}
	p.accept(d, a)
}

// sameDisk reports whether a writer still has the disk that it wrote with. Its next one knows nothing of what
// the lost one may have committed.
func (p *Core) sameDisk(w register.Writer) bool {
	return uint32(p.Incarnations.Of(view.MemberID(w.Member())))&0xffff == w.Incarnation()
}

// onNack ends a phase that a higher ballot has overtaken.
func (p *Core) onNack(o *object, m *peerv1.Message) {
	i := o.find(idOf(m.Instance.GetId()))
	if i == nil || i.coordination == nil || i.coordination.op != m.Op || i.coordination.phase == committed {
		return
	}
	p.Took(pathRecoverPreempted)
	i.seen = max(i.seen, m.Instance.Ballot)
	p.scheduleRecovery(i)
	if i.coordination.own {
		i.coordination.enter(p, preempted)
		return
	}
	i.coordination = nil
}

func (p *Core) tickCoordination(d *coordination) {
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
	if d.phase == preAccepting && d.asked.Quorum(p.Counted, p.Config.Self) {
		d.roundTrips = 1
		p.accept(d, d.merged) // the fast quorum does not come together
		return
	}
	if d.onePeer && d.phase == preAccepting && !p.mistakes.StayAlone && !p.mistakes.AskAllAlone {
		p.took(pathNotAlone)
		d.onePeer = false
	}
	p.SendAllDurably(missing, p.question(d))
}

// giveUpLate answers clients whose deadline is past. What is proposed goes on.
func (p *Core) giveUpLate(d *coordination) {
	for _, r := range d.requests {
		switch {
		case r.answered || !p.Late(&r.Request):
			continue
		case r.reads():
			p.Complete(r.Handle, base.Untaken(register.Read, 0, "what comes before the read was not known in time"))
		default:
			p.Complete(r.Handle, base.MayTake(r.Operation.Kind, 0, p.NoQuorum()))
		}
		r.answered = true
	}
	waiting := d.object.queue[:0:0]
	for _, r := range d.object.queue {
		if p.Late(&r.Request) {
			p.Complete(r.Handle, base.Untaken(r.Operation.Kind, 0, "the operations on the key before it were not finished in time"))
			continue
		}
		waiting = append(waiting, r)
	}
	d.object.queue = waiting
}

// answerEarly is the mistake of answering on commit what only execution knows.
func (p *Core) answerEarly(d *coordination) {
	current := d.base
	for _, r := range d.requests {
		if r.answered {
			continue
		}
		if r.reads() {
			r.answered = true
			p.Complete(r.Handle, register.Result{Status: register.OK, Value: stamp.OfRecord(d.object.state.Previous).Value})
			continue
		}
		if r.Operation.Kind == register.Write {
			continue
		}
		r.answered = true
		if out, err := p.Config.Functions.Apply(current.Value, r.Operation.Call); err == nil && out.Refused == "" {
			p.Complete(r.Handle, register.Result{Status: register.OK, Value: out.Reply})
			if out.Changed {
				current.Value = out.Next
			}
		}
	}
}
