package gus

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// maxPiggyback bounds the values that READ brings along at first, unless the tuning does.
const maxPiggyback = 64 << 10

// read begins a round of reading (line 16), or begins it anew. The coordinator's own register is the first answer.
func (p *Protocol) read(o *operation) {
	r := p.load(o.Key)
	v, of := r.newest()
	o.stage, o.waits, o.relayed, o.after = reading, false, false, 0
	o.asked = v
	o.answered.Restart()
	if o.leavesOut(v.Carstamp, of != nil) {
		o.left.Answer(p.Incarnations, p.Config.Self)
		p.find(o, register.Versioned{}, nil)
		p.ask(o, p.everyone(o))
		return
	}
	o.answered.Answer(p.Incarnations, p.Config.Self)
	p.find(o, v, of)
	if p.knows(o) {
		p.safe(o)
		return
	}
	if o.need != 0 || !o.below.IsZero() {
		p.ask(o, p.everyone(o))
		o.answered.Answer(p.Incarnations, p.Config.Self)
		return
	}
	o.Trips++
	if p.relaxed {
		// Answers of a majority say what the largest tag is; more of them, whether enough hold it.
		p.ask(o, o.answered.Ask(&p.Config, p.Now, p.enough-1))
		return
	}
	p.ask(o, p.AskQuorum(&o.answered))
}

// found ends the first part of a read when a quorum has told of its tags, and with it who is known to have a larger
// one.
func (p *Protocol) found(o *operation) {
	if o.stage == reading && (o.need == 0 || o.answered.Answered(p.Incarnations, o.need)) && p.knows(o) {
		o.need = 0
		p.safe(o)
	}
}

// leavesOut reports whether a read leaves out a tag that a member has, and with it that member: what it had before is
// not known.
func (o *operation) leavesOut(tag register.Carstamp, undecided bool) bool {
	return undecided && !o.below.IsZero() && !tag.Less(o.below)
}

// knows reports whether a read knows the largest tag that may have been read, or be of a write that has ended. Such a
// tag is at a quorum, so that answers of one tell; where tags are left out, none of those that answered has them, and
// they meet each quorum.
func (p *Protocol) knows(o *operation) bool {
	if !o.below.IsZero() {
		return o.answered.Meets(p.Incarnations, 0)
	}
	return p.quorum(&o.answered, 0)
}

// find makes v the largest tag that a read has found, with the undecided write that it is of, nil if it is final.
func (p *Protocol) find(o *operation, v register.Versioned, of *write) {
	o.timestamp, o.value, o.final = v.Carstamp.Timestamp, v.Value, of == nil
	o.origin, o.born = of.began(v.Carstamp)
	o.holders.Restart()
}

// readMessage brings along what the coordinator has: with three, who has less adopts it, and then two hold it. The
// paper's piggyback (section 5.2) goes the other way only, and leaves a read to wait if the reader is ahead. With
// relaxed quorums it brings what is not final, to the same end.
func (p *Protocol) readMessage(o *operation) *peerv1.Message {
	r := p.load(o.Key)
	v, of := o.asked, r.about(o.asked.Carstamp)
	if o.relayed {
		of = &write{origin: o.origin, born: o.born}
	}
	origin, born := of.began(v.Carstamp)
	m := p.message(peerv1.Kind_GUS_READ, o.Number, o.Key, origin, v.Carstamp.Timestamp)
	m.Gus.Born = born
	if p.durable(o.Key) { // the writer may count that, and others may tell it on
		m.Gus.Final = r.final(v.Carstamp)
		m.Gus.Held = p.holds(&r, v.Carstamp)
	}
	if (p.three || p.relaxed && of != nil) && (o.full || len(v.Value) <= cmp.Or(p.Config.Tuning.Carried, maxPiggyback)) {
		m.Same = true // the value is there
		setValue(m, v.Value)
	}
	return m
}

// onReadReply counts an answer to READ (lines 17 and 18).
func (p *Protocol) onReadReply(o *operation, from view.MemberID, m *peerv1.Message) {
	v := register.Versioned{Carstamp: tagOf(m), Value: valueOf(m)}
	if m.Same {
		if v.Carstamp != o.asked.Carstamp {
			return // to an earlier round's question
		}
		v = o.asked
	}
	holds := p.enough == 0 || m.Gus.Held
	if holds {
		p.heard(o.Key, v.Carstamp, from)
	}
	p.learn(o.Key, v, m)
	if o.stage != reading {
		return // it ended with what was learned
	}
	if o.leavesOut(v.Carstamp, !m.Gus.Final) {
		o.left.Answer(p.Incarnations, from)
		if o.need == from {
			o.need = 0
			p.found(o)
		}
		return // it may be final when it is asked again
	}
	o.answered.Answer(p.Incarnations, from)
	of := &write{origin: originOf(m), born: m.Gus.Born}
	if m.Gus.Final {
		of = nil
	}
	switch v.Carstamp.Compare(o.tag()) {
	case +1:
		if o.waits && of != nil {
			// A quorum has told of no more than what is waited for. What is larger need not be read, and would end later.
			p.Took(pathReadPassed)
			holds = false
		} else {
			p.find(o, v, of)
		}
	case 0:
		o.final = o.final || of == nil
		if of != nil {
			o.born = max(o.born, of.born) // a relay by LOCK does not tell
		}
	case -1:
		holds = false
	}
	if holds {
		o.holders.Answer(p.Incarnations, from)
	}
	p.found(o)
}

// learn takes over what another member's READ, or its answer to one, says of the key, where that is safe: what is
// final, and where holding is voting, what began in this view and is newer than all that the member has. That is a vote,
// so it is none where the member has said the opposite. A tag that is not the write's first is one of its writer's
// ballot.
func (p *Protocol) learn(key []byte, v register.Versioned, m *peerv1.Message) {
	if v.Carstamp.IsZero() {
		return
	}
	r := p.load(key)
	if m.Gus.Final {
		if w := r.about(v.Carstamp); w != nil {
			p.onFinal(key, w.origin, v.Carstamp.Timestamp)
			r = p.load(key)
		}
	}
	if p.enough == 0 || p.relaxed && m.Gus.Final || !m.Gus.Final && !p.votes(m.Gus.Born) {
		return
	}
	newest, _ := r.newest()
	switch origin := originOf(m); {
	case !newest.Carstamp.Less(v.Carstamp):
		return
	case m.Gus.Final:
		r.Versioned = v
	case p.own(key, origin):
		return // its writer may change it yet
	case v.Carstamp == origin && r.mayHold(origin):
		p.Took(pathAdopted)
		r.hold(v, m.Gus.Born)
	case v.Carstamp != origin && p.three && r.mayChoose(origin):
		p.Took(pathAdopted)
		r.choose(r.add(write{origin: origin, born: m.Gus.Born}), v, ballot{1, origin.Writer})
	default:
		return
	}
	p.store(key, r)
}

// safe is condition SafeToRead (lines 19 and 20), corrected. A quorum has told of its tags. The largest may be returned
// if it is final; with three also if it is in the views of a quorum, that is, each of them has said that it holds it.
func (p *Protocol) safe(o *operation) {
	r := p.load(o.Key)
	found := register.Versioned{Carstamp: o.tag(), Value: o.value}
	if p.holds(&r, found.Carstamp) {
		o.holders.Answer(p.Incarnations, p.Config.Self)
	}
	switch {
	case o.final || r.final(found.Carstamp):
		p.Took(pathReadFinal)
		p.finish(o, found)
	case p.finishWith(o, &r, found.Carstamp):
	case p.three && p.votes(o.born) && p.quorum(&o.holders, 0),
		p.relaxed && p.votes(o.born) && found.Carstamp == o.origin && o.holders.Count(p.Incarnations) >= p.enough:
		p.Took(pathReadHeld)
		p.finish(o, found)
	case p.three && p.votes(o.born) && o.least != found.Carstamp:
		// This member, or the one that was asked, is past the tag, and won't hold it: what it holds is read instead. If
		// this read finds the same tag again, that one was past it, and a vote has lost since.
		p.Took(pathReadOvertaken)
		o.full, o.least = true, found.Carstamp
		p.read(o)
	default:
		p.wait(o)
	}
}

// wait has a read wait for its tag to be final. With relaxed quorums enough may hold it before that: the rest of those
// that were asked may say so; and if they don't, all are brought the value, as by its writer.
func (p *Protocol) wait(o *operation) {
	if !o.waits {
		p.Took(pathReadWaits)
		o.waits = true
		p.later(o)
		o.after = o.after.Add(p.Config.Retry / 2)
		if !p.relaxed {
			o.Trips++
		}
	}
	if !p.relaxed || o.relayed || o.answered.Count(p.Incarnations) < p.enough {
		return
	}
	o.relayed = true
	o.Trips++
	if p.votes(o.born) && o.tag() == o.origin {
		p.Took(pathReadRelays)
		o.full, o.asked = true, register.Versioned{Carstamp: o.tag(), Value: o.value}
		p.ask(o, p.Config.Nearest)
	}
}

// finishWith completes a read with something final whose tag is no less than what a quorum has told of, if there is.
func (p *Protocol) finishWith(o *operation, r *record, least register.Carstamp) bool {
	v, ok := r.Versioned, r.final(r.Carstamp) && !r.Carstamp.Less(least)
	for _, version := range p.active[string(o.Key)].versions {
		t := register.Carstamp{Timestamp: version.final, Writer: version.origin.Writer}
		if !ok && version.final != 0 && !t.Less(least) {
			v, ok = register.Versioned{Carstamp: t, Value: version.value}, true
		}
	}
	if ok {
		p.Took(pathReadFinal)
		p.finish(o, v)
	}
	return ok
}

// remember keeps the value of a write that has arrived, if reads of its key are under way.
func (p *Protocol) remember(key []byte, origin register.Carstamp, value register.Value) {
	k := p.active[string(key)]
	if k == nil || !k.reads() || slices.ContainsFunc(k.versions, func(v version) bool { return v.origin == origin }) {
		return
	}
	if len(k.versions) >= cmp.Or(p.Config.Tuning.Versions, versionsKept) {
		k.versions = slices.Delete(k.versions, 0, 1)
	}
	k.versions = append(k.versions, version{origin: origin, value: value})
}

func (k *active) reads() bool {
	return slices.ContainsFunc(k.operations, func(o *operation) bool { return o.stage == reading })
}

func (k *active) writes() bool {
	return slices.ContainsFunc(k.operations, (*operation).writes)
}

// wake lets reads go on that wait for what this member has been told by now.
func (p *Protocol) wake(key []byte) {
	for _, o := range p.of(key) {
		switch {
		case o.waits:
			p.safe(o)
		case o.stage == reading && !o.least.IsZero():
			r := p.load(key)
			p.finishWith(o, &r, o.least)
		}
	}
}
