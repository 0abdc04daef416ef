package instance

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// recovery takes over the coordination of an instance that makes no progress.
type recovery struct{ coordinator }

// recover is algorithm 5, lines 1 to 3.
func (p *recovery) recover(i *instance) {
	p.scheduleRecovery(i)
	if i.status == peerv1.Status_COMMITTED {
		if d := i.coordination; d != nil { // its clients came from an earlier view; others may not know of the commit
			p.enter(d, committed)
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
	p.enter(d, preparing)
	d.ballot = ballotAfter(max(i.ballot, i.seen), p.Config.Self)
	d.hear(reply{i.attributes, p.Config.Self, i.status, i.accepted, i.agreed, nil})
	i.ballot = d.ballot
	p.saveInstance(i)
	p.SendAllDurably(p.AskAll(&d.asked), p.question(d))
	p.decidePrepare(d)
}

// ballotAfter is the member's lowest ballot above b. Ballots are a count and the member's number; the
// coordinator's own, before any recovery, is 0.
func ballotAfter(b uint64, self view.MemberID) uint64 { return (b>>16+1)<<16 | uint64(self) }

// onAnswer counts an answer to the question of a coordination's present phase.
func (p *recovery) onAnswer(o *object, from view.MemberID, m *peerv1.Message) {
	i := o.find(idOf(m.Instance.Id))
	if i == nil || i.coordination == nil {
		return
	}
	if m.Kind == peerv1.Kind_ACCEPT_OK && i.coordination.acceptOp == m.Op {
		p.hearAccepted(i, from)
	}
	if i.coordination == nil || i.coordination.op != m.Op {
		return
	}
	switch d := i.coordination; {
	case m.Kind == peerv1.Kind_PRE_ACCEPT_OK && d.phase == preAccepting:
		p.onPreAcceptOK(d, from, m)
	case m.Kind == peerv1.Kind_ACCEPT_OK && d.phase == accepting:
		d.asked.Answer(p.Incarnations, from)
		p.decideAccept(d)
	case m.Kind == peerv1.Kind_PREPARE_OK && d.phase == preparing,
		m.Kind == peerv1.Kind_VALIDATE_OK && d.phase == validating:
		if d.asked.Answer(p.Incarnations, from) {
			d.hear(replyOf(from, m))
			p.decidePrepare(d)
		}
	case m.Kind == peerv1.Kind_NACK && d.phase != committed: // a higher ballot has overtaken the phase
		p.Took(pathRecoverPreempted)
		i.seen = max(i.seen, m.Instance.Ballot)
		p.yield(i)
	}
}

// decidePrepare is algorithm 5, lines 4 to 15: what may have been committed is proposed again, anything else becomes a
// no-op, which its coordinator or client then repeats elsewhere. What may have been committed on the fast path is what
// those who agreed know together (Atlas, section 3).
func (p *recovery) decidePrepare(d *coordination) {
	if !d.asked.Quorum(p.Incarnations, p.Config.Self) {
		return
	}
	author := view.MemberID(d.id.writer.Member())
	var decided, accepted reply
	var fast attributes
	agreements, authorAnswered := 0, false
	for _, r := range p.standing(d) {
		switch {
		case r.status == peerv1.Status_COMMITTED:
			decided = r
		case r.status == peerv1.Status_ACCEPTED && (accepted.from == 0 || r.accepted > accepted.accepted):
			accepted = r
		case r.status == peerv1.Status_PRE_ACCEPTED && r.agreed && r.from != author && p.electorate().Index(r.from) >= 0:
			fast.commands = r.commands
			fast.join(&r.attributes)
			agreements++
		}
		authorAnswered = authorAnswered || r.from == author && p.sameDisk(d.id.writer)
	}
	switch {
	case decided.from != 0:
		p.Took(pathRecoverCommitted)
		d.attributes = decided.attributes
		p.commit(d)
	case accepted.from != 0:
		p.Took(pathRecoverAccepted)
		p.accept(d, accepted.attributes)
	case !authorAnswered && agreements > 0 && agreements >= p.electorate().Size()/2:
		// The coordinator may have committed with these. With it, those who agreed are a majority, so
		// dependencies and base are good even if it has not.
		p.Took(pathRecoverFast)
		p.accept(d, fast)
	case !p.mayHaveAgreed(d, author, agreements):
		p.acceptNoOp(d)
	case p.validates():
		p.validate(d, fast)
	default:
		p.Took(pathRecoverWait)
	}
}

func (p *recovery) acceptNoOp(d *coordination) {
	p.Took(pathRecoverNoOp)
	p.accept(d, attributes{deps: vector{}.with(instanceID{d.id.writer, d.id.number - 1})})
}

// electorate is those who could be asked for what is committed on the fast path: in a joint view, those before the
// change alone.
func (p *recovery) electorate() view.View { return p.Config.View.Before() }

// mayHaveAgreed reports whether those who have agreed are a fast quorum with the coordinator, if it has not answered,
// and with all others that have not. It is never so with the simple fast quorum, which is large enough for a majority
// of the others to tell. With a smaller one, n - f members have to answer (Atlas, section 3), or the coordinator. A new
// disk of the coordinator will do: what it has lost, those who adopted it would have told it of.
func (p *recovery) mayHaveAgreed(d *coordination, author view.MemberID, agreements int) bool {
	asked := p.electorate()
	silent := 0
	for _, m := range asked.Members {
		switch {
		case m.ID == p.Config.Self, d.asked.Answered(p.Incarnations, m.ID):
		case m.ID == author:
		default:
			silent++
		}
	}
	gone := asked.Index(author) < 0 // and its instance is of an earlier view, of which all is settled
	answered := author == p.Config.Self || d.asked.Answered(p.Incarnations, author)
	return !gone && !answered && agreements+silent >= p.fastQuorum(asked)-1
}

// tickInstance repeats what a coordination asked, gives up requests past their deadline, and recovers what others
// left unfinished.
func (p *recovery) tickInstance(i *instance) {
	d := i.coordination
	if i.forgotten && d == nil {
		return // it ended while this tick went on
	}
	if d != nil {
		p.tickCoordination(d)
	}
	if d = i.coordination; d != nil && d.phase == validating {
		p.decidePrepare(d) // what it waits for may be decided here
		d = i.coordination
	}
	if (d == nil || d.phase == preempted) && p.Now >= i.recoverAt {
		p.recover(i)
	}
}
