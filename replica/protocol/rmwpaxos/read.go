package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// read is a read of a key, for those clients of this member that asked before anything was sent for it.
type read struct {
	base.Operation
	object   *object
	requests []*request
	asked    quorum.Tally // in this try
	replies  replies      // of all tries: late ones may make a quorum consistent (section 5.8)
	had      []acceptor   // this member's at each try, of which others need not send the state
	highest  round        // after the last try
	retries  int
	trips    int `digest:"-"`
}

// joinRead adds a client to the key's read that has not begun yet.
func (p *Protocol) joinRead(o *object, r *request) {
	o.asking = append(o.asking, r)
	p.advanceLater(o)
}

// beginRead is algorithm 3, lines 1 to 4, for reads.
func (p *Protocol) beginRead(o *object) {
	if len(o.asking) == 0 {
		return
	}
	r := &read{Operation: base.Operation{Number: p.Op()}, object: o, requests: o.asking}
	o.asking = nil
	o.reads++
	p.reads.Begin(r)
	p.askRead(r, p.AskQuorum(&r.asked))
}

// askRead begins a try.
func (p *Protocol) askRead(r *read, to []view.MemberID) {
	own := p.Load(r.object.key)
	r.had = append(r.had, own)
	r.trips++
	r.replies.add(p.reply(p.Config.Self, own, false))
	r.asked.Answer(p.Incarnations, p.Config.Self)
	p.SendAll(to, p.readMessage(r))
	p.decideRead(r)
}

func (p *Protocol) readMessage(r *read) *peerv1.Message {
	m := p.Say(peerv1.Kind_PAXOS_READ, r.Number, r.object.key)
	m.RmwPaxos.Voted = r.had[len(r.had)-1].Accepted.Wire()
	m.RmwPaxos.Try = uint32(len(r.had))
	return m
}

// onState counts an answer to a read, of its present try or an earlier one.
func (p *Protocol) onState(from view.MemberID, m *peerv1.Message) {
	r := p.reads.Find(m.Op)
	if r == nil || m.RmwPaxos.Try == 0 || int(m.RmwPaxos.Try) > len(r.had) {
		p.Took(base.PathStale)
		return
	}
	a, sound := base.Said(m, r.had[m.RmwPaxos.Try-1])
	if !sound {
		return
	}
	r.replies.add(p.reply(from, a, false))
	if int(m.RmwPaxos.Try) == len(r.had) {
		r.asked.Answer(p.Incarnations, from)
	}
	p.decideRead(r)
}

// decideRead is algorithm 3, lines 5 to 7, with the retries of section 5.8.
func (p *Protocol) decideRead(r *read) {
	if r.Over {
		return
	}
	highest := r.replies.highest().Accepted
	for i := range r.replies {
		voted := r.replies[i].Accepted
		if p.chosen(r.replies, voted) {
			p.Took(pathRead)
			s := r.replies[i].State
			p.learn(r.object.key, voted, s) // if this member has missed it, so that it is asked for once
			p.endRead(r, s)
			return
		}
	}
	if !r.asked.Quorum(p.Incarnations, 0) {
		return
	}
	// A write is under way, or was left unfinished. If nothing has moved since the last try, its proposer may be dead.
	if highest == r.highest || r.retries >= p.options.readRetries() {
		p.help(r)
		return
	}
	p.Took(pathReadRetry)
	r.highest = highest
	r.retries++
	r.asked.Restart()
	p.askRead(r, p.AskAll(&r.asked))
}

// help has a read finish what is unfinished: it is proposed like an update that changes nothing, after a write-through.
func (p *Protocol) help(r *read) {
	p.Took(pathReadHelps)
	o := r.object
	for _, q := range r.requests {
		if !q.answered {
			q.trips += r.trips
			o.queue = append(o.queue, q)
		}
	}
	p.forgetRead(r)
	p.advanceLater(o)
}

// endReads ends the reads of a key that began before a proposal that is chosen now was sent: it was the last state at
// some time since then.
func (p *Protocol) endReads(o *object, d *instance) {
	if o.reads == 0 {
		return
	}
	for r := range p.reads.InProgress() {
		if r.object == o && r.Number < d.op {
			p.Took(pathReadJoined)
			p.endRead(r, d.proposal)
		}
	}
}

func (p *Protocol) endRead(r *read, s state) {
	for _, q := range r.requests {
		if !q.answered {
			trips := r.trips + q.trips
			p.completeAbout(r.object.key, q.Handle, register.Result{
				Status: register.OK, Value: s.Value, Carstamp: s.Carstamp, RoundTrips: p.wide(trips), Fast: trips <= 1,
			})
		}
	}
	p.forgetRead(r)
}

func (p *Protocol) forgetRead(r *read) {
	p.reads.End(r)
	r.object.reads--
	p.release(r.object)
}

// tickReads gives up what is past its deadline, and asks again.
func (p *Protocol) tickReads() {
	p.reads.Sweep(nil)
	for r := range p.reads.InProgress() {
		waits := false
		for _, q := range r.requests {
			waits = !p.expire(q, false) || waits
		}
		if !waits {
			p.forgetRead(r)
		} else if missing := p.Unanswered(&r.asked); len(missing) > 0 {
			p.Took(pathRetryRead)
			p.SendAll(missing, p.readMessage(r))
		}
	}
}
