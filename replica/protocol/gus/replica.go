package gus

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// hold makes v the register's, under the first tag of a write that is not final.
func (r *record) hold(v register.Versioned, born uint64) {
	r.add(write{origin: v.Carstamp, born: born}).held = true
	r.Versioned = v
}

// choose votes for a tag of a write in a ballot. It is not the register's before it is final: another ballot may decide
// for the write's first tag, and what the register has must still be there then.
func (r *record) choose(w *write, v register.Versioned, b ballot) {
	w.promised = b
	w.voted, w.vote = v.Carstamp.Timestamp, b
	w.stored, w.value = r.Carstamp.Less(v.Carstamp), nil
	if w.stored {
		w.value = v.Value
	}
}

// onRead answers READ with the largest tag here (line 42), its value if the reader has another one, and whether it is
// final.
func (p *Protocol) onRead(from view.MemberID, m *peerv1.Message) {
	if m.Gus.Held {
		p.heard(m.Key, tagOf(m), from)
	}
	if m.Same {
		p.learn(m.Key, register.Versioned{Carstamp: tagOf(m), Value: valueOf(m)}, m)
	}
	r := p.load(m.Key)
	v, of := r.newest()
	origin, born := of.began(v.Carstamp)
	a := p.message(peerv1.Kind_GUS_READ_REPLY, m.Op, m.Key, origin, v.Carstamp.Timestamp)
	a.Gus.Born, a.Gus.Final = born, of == nil
	a.Gus.Held = p.enough > 0 && p.holds(&r, v.Carstamp)
	if v.Carstamp == tagOf(m) {
		a.Same = true
	} else {
		setValue(a, v.Value)
	}
	p.reply(from, a)
}

// onWrite answers WRITE (lines 21 to 29): it tells whether this member held nothing newer before the WRITE that may
// have ended. Line 29 as published tells the tag after it, which makes every write slow.
func (p *Protocol) onWrite(from view.MemberID, m *peerv1.Message) {
	r := p.load(m.Key)
	t := tagOf(m)
	a := p.message(peerv1.Kind_GUS_WRITE_REPLY, m.Op, m.Key, t, t.Timestamp)
	ended := p.ended(m.Key, &r)
	p.remember(m.Key, t, valueOf(m))
	r.end(t.Writer, m.Gus.Ended) // goes with what is stored next
	switch w := r.find(t); {
	case w != nil && w.decided != 0:
		a.Gus.Final, a.Timestamp = true, w.decided
	case w != nil && w.unsure:
		a.Gus.Forgotten = true
	case w != nil:
		a.Gus.Held = w.held
	case r.Carstamp == t:
		a.Gus.Held = true
	case !t.Less(ended) && t.Less(r.Carstamp):
		p.Took(pathLetPass)
		a.Gus.Held = true
	case ended.Less(t):
		r.hold(register.Versioned{Carstamp: t, Value: valueOf(m)}, m.Gus.Born)
		p.store(m.Key, r)
		a.Gus.Held = true
	case !r.forgotten.Less(t):
		a.Gus.Forgotten = true
	case p.enough > 0 && r.Carstamp.Less(t):
		// The larger tag is one that was voted for, and may lose: what is said of this one stays said.
		r.add(write{origin: t, born: m.Gus.Born})
		p.store(m.Key, r)
	}
	if a.Gus.Held {
		p.mayHaveEnded(m.Key, t)
	}
	tellNewest(a, &r)
	p.reply(from, a)
}

// ended is the largest tag that may be of a write that has ended, or was read, with this member's help. A writer that
// has a larger one is told that its tag is held, for it is as if its WRITE had come before this member's own writes
// that are under way. Their tags may be larger yet, but they have not ended, so that others may come before them
// (section 3.3): who holds a tag can't know that, but for its writer's member. Three things count that the register
// does not show: what was here before these writes, what others were told to be held since, and ballots of others on
// these writes. The writer of the smaller tag needs no more of this member than of one that has held it: its register
// is past the tag.
func (p *Protocol) ended(key []byte, r *record) register.Carstamp {
	if k := p.writing(key); k != nil {
		return k.ended
	}
	newest, _ := r.newest()
	return newest.Carstamp
}

// mayHaveEnded takes note of a tag that others may have ended with, or read, with this member's help.
func (p *Protocol) mayHaveEnded(key []byte, tag register.Carstamp) {
	if k := p.writing(key); k != nil && k.ended.Less(tag) {
		k.ended = tag
	}
}

// writing is what runs here on a key if that are writes, among others, and to hold a tag is no vote; else nil.
func (p *Protocol) writing(key []byte) *active {
	if k := p.active[string(key)]; k != nil && p.enough == 0 && k.writes() {
		return k
	}
	return nil
}

// holds reports whether this member counts as a holder of a tag, for whoever counts holders. A vote of a ballot is none
// with relaxed quorums: others hold something newer, and vote all the same. With three only one of the writer's own
// ballot is, and only who has promised no later one is a holder: votes of different ballots don't add up.
func (p *Protocol) holds(r *record, tag register.Carstamp) bool {
	if p.three {
		w := r.about(tag)
		return r.final(tag) || w != nil && r.has(tag) && p.votes(w.born) && w.promised.round <= 1
	}
	if !p.relaxed {
		return r.has(tag)
	}
	w := r.find(tag)
	return r.final(tag) || w != nil && w.held && !w.unsure && p.votes(w.born)
}

// own reports whether a write that began with a tag is under way here. Its member does not hold the tag meanwhile,
// where that would be voting for it.
func (p *Protocol) own(key []byte, origin register.Carstamp) bool {
	if k := p.active[string(key)]; k != nil {
		return slices.ContainsFunc(k.operations, func(o *operation) bool { return o.writes() && o.origin == origin })
	}
	return false
}

func tellNewest(a *peerv1.Message, r *record) {
	newest, _ := r.newest()
	a.Gus.Newest, a.Gus.NewestWriter = newest.Carstamp.Timestamp, uint64(newest.Carstamp.Writer)
}

// barred answers a ballot on a write of which nothing can be promised or voted here: what was known of it is forgotten,
// or it is decided, or a later ballot was promised. It reports whether that is so. W is the entry of the write, nil if
// there is none.
func barred(a *peerv1.Message, r *record, w *write, origin register.Carstamp, b ballot) bool {
	switch {
	case w == nil && !r.forgotten.Less(origin):
		a.Gus.Forgotten = true
		tellNewest(a, r)
	case w != nil && w.decided != 0:
		a.Gus.Final, a.Timestamp = true, w.decided
	case w != nil && b.less(w.promised):
		a.Gus.Refused = true
		setBallot(a, w.promised)
	default:
		return false
	}
	return true
}

// lock serves LOCK, the first half of a ballot on a write's tag: the member promises to vote in no earlier one, and
// tells how it has voted. If it holds nothing newer, it holds the write from now on: a LOCK relays the write of one who
// crashed.
func (p *Protocol) lock(m *peerv1.Message) *peerv1.Message {
	r := p.load(m.Key)
	origin, b := originOf(m), ballotOf(m)
	a := p.message(peerv1.Kind_GUS_LOCK_REPLY, m.Op, m.Key, origin, m.Timestamp)
	setBallot(a, b)
	w := r.find(origin)
	switch {
	case r.final(tagOf(m)):
		a.Gus.Final = true
		return a
	case r.final(origin):
		a.Gus.Final, a.Timestamp = true, origin.Timestamp
		return a
	case barred(a, &r, w, origin, b):
		return a
	case w == nil:
		if newest, _ := r.newest(); newest.Carstamp.Less(origin) && !(p.enough > 0 && p.own(m.Key, origin)) {
			r.hold(register.Versioned{Carstamp: origin, Value: valueOf(m)}, 0)
		} else {
			r.add(write{origin: origin})
		}
		w = r.find(origin)
	}
	w.promised = b
	a.Gus.Held, a.Gus.Born = w.held, w.born
	a.Gus.Voted, a.Gus.VotedRound, a.Gus.VotedProposer = w.voted, w.vote.round, uint64(w.vote.proposer)
	tellNewest(a, &r)
	r.asked = origin
	p.store(m.Key, r)
	return a
}

// vote serves COMMIT, the second half of a ballot (lines 30 to 40).
func (p *Protocol) vote(m *peerv1.Message) *peerv1.Message {
	r := p.load(m.Key)
	origin, t, b := originOf(m), tagOf(m), ballotOf(m)
	a := p.message(peerv1.Kind_GUS_COMMIT_REPLY, m.Op, m.Key, origin, m.Timestamp)
	setBallot(a, b)
	p.remember(m.Key, origin, valueOf(m))
	if b.round > 1 || !p.own(m.Key, origin) {
		p.mayHaveEnded(m.Key, t)
	}
	w := r.find(origin)
	switch {
	case r.final(t):
		return a
	case w == nil && t != origin && t.Less(r.Carstamp):
		return a // whoever has the write decided for its first tag finds that this member is past it
	case barred(a, &r, w, origin, b):
		return a
	case w == nil:
		w = r.add(write{origin: origin, born: m.Gus.Born})
	}
	v := register.Versioned{Carstamp: t, Value: valueOf(m)}
	r.choose(w, v, b)
	r.asked = origin
	p.store(m.Key, r)
	return a
}

// settle makes a tag of a write its last, and reports whether that was news. What was decided in a later ballot than
// the writer's is remembered where it was voted for: another vote may be under way.
func (r *record) settle(origin register.Carstamp, timestamp uint64) bool {
	w := r.find(origin)
	if w == nil || w.decided != 0 {
		return false
	}
	// A write has one value, whatever its tag: who has it under another one has it.
	switch t := w.tag(timestamp); {
	case r.Carstamp == origin:
		r.Carstamp = t
	case r.Carstamp.Less(t) && w.stored:
		r.Versioned = register.Versioned{Carstamp: t, Value: w.value}
	}
	if w.vote.round > 1 {
		*w = write{origin: origin, decided: timestamp}
	} else {
		r.remove(origin)
	}
	return true
}

// onFinal takes note of FINAL, from here too: that a write has a tag for good, and that a quorum holds it or a larger
// one.
func (p *Protocol) onFinal(key []byte, origin register.Carstamp, timestamp uint64) {
	if r := p.load(key); r.settle(origin, timestamp) {
		p.store(key, r)
	}
	p.settled(key, origin, timestamp)
}

// settled tells what runs here that a write has a tag for good.
func (p *Protocol) settled(key []byte, origin register.Carstamp, timestamp uint64) {
	if k := p.active[string(key)]; k != nil {
		for i := range k.versions {
			if v := &k.versions[i]; v.origin == origin {
				v.final = timestamp
			}
		}
	}
	for _, o := range p.of(key) {
		switch {
		case o.stage == 0 || o.origin != origin:
		case o.stage != reading:
			p.decided(o, timestamp)
		case o.timestamp <= timestamp:
			o.timestamp, o.final = timestamp, true
		case o.waits: // what was found is no tag of the write's any more
			p.read(o)
		}
	}
	p.wake(key)
}
