package gus

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// write begins a write with a speculative timestamp (algorithm 1, lines 1 to 3).
func (p *Protocol) write(o *operation) {
	r := p.load(o.Key)
	o.origin = register.Carstamp{Timestamp: p.nextTimestamp(o, &r), Writer: p.Writer()}
	if o.origin.Check() != nil {
		p.Complete(o.requests[0].Handle, register.Result{Status: register.Unavailable, Message: register.Exhausted})
		p.end(o)
		return
	}
	o.timestamp, o.value = o.origin.Timestamp, o.requests[0].Operation.Value
	if p.enough > 0 {
		o.born, o.unsure = p.Config.View.Epoch, p.relaxed
	}
	o.stage = speculating
	p.remember(o.Key, o.origin, o.value)
	members := p.everyone(o)
	o.answered.Answer(p.Incarnations, p.Config.Self)
	if p.enough == 0 {
		// What a holder says is final in no case, so the writer's own member may hold the tag at once. Where holding it
		// is voting for it, the writer does so last, since it may have to change the tag.
		r.hold(register.Versioned{Carstamp: o.origin, Value: o.value}, o.born)
		p.store(o.Key, r)
	}
	p.ask(o, members)
	p.decide(o)
}

// nextTimestamp is larger than that of any tag that this member knows of the key, and than of any that it issued: those
// of writes under way may be in no record yet.
func (p *Protocol) nextTimestamp(o *operation, r *record) uint64 {
	v, _ := r.newest()
	last := max(v.Carstamp.Timestamp, r.Carstamp.Timestamp, o.seen, p.issued)
	for _, other := range p.active[string(o.Key)].operations {
		if other.stage != 0 && other.writes() {
			last = max(last, other.timestamp)
		}
	}
	return last + 1
}

// onWriteReply counts an answer to WRITE (line 4).
func (p *Protocol) onWriteReply(o *operation, from view.MemberID, m *peerv1.Message) {
	switch {
	case m.Gus.Final: // somebody had it decided
		p.decided(o, m.Timestamp)
		return
	case m.Gus.Forgotten:
		if !p.relaxed {
			p.forgotten(o, from, m)
			return
		}
		p.Took(pathForgotten)
		o.seen = max(o.seen, m.Gus.Newest) // it tells its largest tag, but not how it has voted
	case m.Gus.Held:
		o.holders.Answer(p.Incarnations, from)
	default:
		o.stale.Answer(p.Incarnations, from)
		o.seen = max(o.seen, m.Gus.Newest)
	}
	o.answered.Answer(p.Incarnations, from)
	p.decide(o)
}

// decide ends the first phase of a write (lines 5 to 9). A quorum that held nothing newer that may have ended, the
// writer included, leaves the tag as it is. Otherwise the write gets a tag larger than all that a quorum has told of.
// Nobody but the writer can know that the first was the case, so it may: with three, because one of the two others
// holds a larger tag and won't ever hold this one, and the writer does not; with relaxed quorums, because so many won't
// that enough never will (view.RelaxedFor); with more, because no reader returns a tag that is not final. If somebody
// had the write decided instead, the writer's ballot is refused.
func (p *Protocol) decide(o *operation) {
	switch {
	case o.stage != speculating:
	case p.quorum(&o.holders, p.Config.Self):
		p.Took(pathWriteFast)
		p.decided(o, o.timestamp)
	case o.stale.Count(p.Incarnations) >= p.stales && p.quorum(&o.answered, 0):
		p.Took(pathWriteRetags)
		r := p.load(o.Key)
		o.ballot = ballot{1, o.origin.Writer}
		p.commit(o, p.nextTimestamp(o, &r))
	case p.relaxed && o.answered.Count(p.Incarnations) == p.Config.View.Size():
		// Too many lost their disks, and can't tell how they have voted.
		p.giveUp(o, "members lost their disks during the write")
	}
}

// heard takes note that a member holds a tag. Where that is a vote, it is as good as its answer to WRITE, if it is of a
// write that is undecided here.
func (p *Protocol) heard(key []byte, tag register.Carstamp, from view.MemberID) {
	if p.enough == 0 || tag.IsZero() {
		return
	}
	for _, o := range p.of(key) {
		if o.stage == speculating && p.votes(o.born) && o.origin == tag {
			p.Took(pathWriteHeard)
			o.answered.Answer(p.Incarnations, from)
			o.holders.Answer(p.Incarnations, from)
			p.decide(o)
		}
	}
}
