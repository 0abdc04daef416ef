package instance

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
)

// recovery takes over the coordination of an instance that makes no progress.
type recovery struct{ coordinator }

// preparedReply is what a member said of an instance in a recovery.
type preparedReply struct {
	attributes
	from     view.MemberID
	status   peerv1.Status
	accepted uint64
	agreed   bool
}

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
	d.prepared = []*preparedReply{{i.attributes, p.Config.Self, i.status, i.accepted, i.agreed}}
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
	if i == nil || i.coordination == nil || i.coordination.op != m.Op {
		return
	}
	switch d := i.coordination; {
	case m.Kind == peerv1.Kind_PRE_ACCEPT_OK && d.phase == preAccepting:
		p.onPreAcceptOK(d, from, m)
	case m.Kind == peerv1.Kind_ACCEPT_OK && d.phase == accepting:
		d.asked.Answer(p.Incarnations, from)
		p.decideAccept(d)
	case m.Kind == peerv1.Kind_PREPARE_OK && d.phase == preparing:
		if d.asked.Answer(p.Incarnations, from) {
			p.onPrepareOK(d, from, m)
		}
	case m.Kind == peerv1.Kind_NACK && d.phase != committed: // a higher ballot has overtaken the phase
		p.Took(pathRecoverPreempted)
		i.seen = max(i.seen, m.Instance.Ballot)
		p.yield(i)
	}
}

// onPrepareOK notes what a member said of the instance.
func (p *recovery) onPrepareOK(d *coordination, from view.MemberID, m *peerv1.Message) {
	// A new disk's answer replaces that of the lost one.
	d.prepared = slices.DeleteFunc(d.prepared, func(r *preparedReply) bool { return r.from == from })
	d.prepared = append(d.prepared, &preparedReply{
		attributesOf(m), from, m.Instance.Status, m.Instance.AcceptedBallot, m.Instance.Agreed,
	})
	p.decidePrepare(d)
}

// decidePrepare is algorithm 5, lines 4 to 15, for the simple fast quorum: what may have been committed is
// proposed again, anything else becomes a no-op, which its coordinator or client then repeats elsewhere.
func (p *recovery) decidePrepare(d *coordination) {
	if !d.asked.Quorum(p.Incarnations, p.Config.Self) {
		return
	}
	// Only those before a change were asked for what could be committed on the fast path.
	electorate := p.Config.View.Before()
	var decided, accepted, fast *preparedReply
	agreements := 0
	authorAnswered := false
	author := view.MemberID(d.id.writer.Member())
	for _, r := range d.prepared {
		if r.from != p.Config.Self && !d.asked.Answered(p.Incarnations, r.from) {
			continue // a disk that is gone
		}
		switch {
		case r.status == peerv1.Status_COMMITTED:
			decided = r
		case r.status == peerv1.Status_ACCEPTED && (accepted == nil || r.accepted > accepted.accepted):
			accepted = r
		case r.status == peerv1.Status_PRE_ACCEPTED && r.agreed && r.from != author && electorate.Index(r.from) >= 0:
			fast = r
			agreements++
		}
		authorAnswered = authorAnswered || r.from == author && p.sameDisk(d.id.writer)
	}
	switch {
	case decided != nil:
		p.Took(pathRecoverCommitted)
		d.attributes = decided.attributes
		p.commit(d)
	case accepted != nil:
		p.Took(pathRecoverAccepted)
		p.accept(d, accepted.attributes)
	case !authorAnswered && fast != nil && agreements >= electorate.Size()/2:
		// The coordinator may have committed with these. With it, those who agreed are a majority, so
		// dependencies and base are good even if it has not.
		p.Took(pathRecoverFast)
		p.accept(d, fast.attributes)
	default:
		p.Took(pathRecoverNoOp)
		p.accept(d, attributes{deps: vector{}.with(instanceID{d.id.writer, d.id.number - 1})})
	}
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
	if (d == nil || d.phase == preempted) && p.Now >= i.recoverAt {
		p.recover(i)
	}
}
