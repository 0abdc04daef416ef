package gus

import (
	"fmt"
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// stage is what an operation waits for.
type stage uint8

const (
	reading     stage = iota + 1 // answers to READ, and then that the largest tag is final
	speculating                  // answers to WRITE
	locking                      // promises of a ballot
	committing                   // votes of a ballot
)

// asks is the kind of message that a stage sends; the next one answers it.
func (s stage) asks() peerv1.Kind {
	return [...]peerv1.Kind{
		reading: peerv1.Kind_GUS_READ, speculating: peerv1.Kind_GUS_WRITE,
		locking: peerv1.Kind_GUS_LOCK, committing: peerv1.Kind_GUS_COMMIT,
	}[s]
}

// operation is a write that this member coordinates, or a round of reading for one or several reads.
type operation struct {
	base.Operation
	requests []protocol.Request // one of a write
	stage    stage

	// The write that this operation makes, or the one that has the largest tag that a read found: the tag that it began
	// with, its present tag's timestamp, its value, and where it began (GusWrite.born).
	origin    register.Carstamp
	timestamp uint64
	value     register.Value
	born      uint64

	answered quorum.Tally // who answered this stage's question
	holders  quorum.Tally // reading, speculating, locking: who holds the tag, with nothing newer when it was asked first
	forgot   quorum.Tally // speculating, locking, committing: who can't tell what it has said of the write, and never will
	stale    quorum.Tally // speculating: who won't ever hold the tag, since it has a larger one
	seen     uint64       // the largest timestamp that was heard of

	// reading
	asked   register.Versioned // what this member had when it asked; an answer may say "the same"
	final   bool               // the tag found is final
	waits   bool               // a quorum has answered, and the tag is not known to be final
	relayed bool               // all were asked to hold the tag
	full    bool               // READ brings the value, however large
	// Its answer is waited for, until the question is asked again: it has a larger tag; 0: nobody's.
	need  view.MemberID
	below register.Carstamp // undecided tags from here on can't be decided, and are left out; zero: none are
	left  quorum.Tally      // who has had such a tag
	// What is final and no less may be returned at once: a quorum has told of no more; zero: not known.
	least register.Carstamp

	// locking, committing
	ballot ballot
	voted  uint64 // the timestamp of the latest vote that was told
	vote   ballot
	sure   bool             // a member's holding the origin is a vote
	unsure bool             // the write began with relaxed quorums: one holder does not tell whether enough hold it
	beyond view.MemberID    // has a larger tag than the origin; 0: nobody
	began  protocol.Instant // when all were asked the present stage's question
	lost   int              // ballots, to larger rounds
	lasted time.Duration    // for how long a question was asked at most until it was refused

	after   protocol.Instant // nothing is asked before
	retries int              // how often members were asked again
}

// patience is how often those are asked again without whom the others can't tell what a write's tag is to be: a
// majority with relaxed quorums, or a quorum of which some have forgotten the write.
const patience = 8

func (o *operation) writes() bool { return o.Kind() == register.Write }

// tag is the present tag of the operation's write.
func (o *operation) tag() register.Carstamp {
	return register.Carstamp{Timestamp: o.timestamp, Writer: o.origin.Writer}
}

func (p *Protocol) quorum(f *quorum.Tally, also view.MemberID) bool {
	return f.Quorum(p.Incarnations, also)
}

// votes reports whether holding a tag is voting for it, of a write that began in an epoch.
func (p *Protocol) votes(born uint64) bool { return p.enough > 0 && born == p.Config.View.Epoch }

// ask sends the present stage's message to some members.
func (p *Protocol) ask(o *operation, members []view.MemberID) {
	m := p.question(o)
	if o.stage != committing {
		p.SendAll(members, m)
		return
	}
	for _, id := range members {
		// A writer that changes a tag has promised not to count as a holder of the old one; and whoever proposes
		// counts its own promise.
		p.Reply(p.durable(o.Key), id, m)
	}
}

func (p *Protocol) question(o *operation) *peerv1.Message {
	if o.stage == reading {
		return p.readMessage(o)
	}
	m := p.message(o.stage.asks(), o.Number, o.Key, o.origin, o.timestamp)
	setBallot(m, o.ballot)
	if o.stage == speculating || o.ballot.round == 1 {
		m.Gus.Born = o.born // in later ballots, to hold the tag is no vote
	}
	if o.stage == speculating {
		m.Gus.Ended = o.origin.Timestamp
		for _, other := range p.active[string(o.Key)].operations {
			if other.writes() && other.origin.Writer == o.origin.Writer {
				m.Gus.Ended = min(m.Gus.Ended, other.origin.Timestamp)
			}
		}
	}
	setValue(m, o.value)
	return m
}

// everyone begins to count answers to a question that all members are asked, and lists them.
func (p *Protocol) everyone(o *operation) []view.MemberID {
	o.began = p.Now
	o.answered.Restart()
	o.forgot.Restart()
	o.Trips++
	return p.AskAll(&o.answered)
}

// retransmit asks those who have not answered, if it is time; it has a write decided that a read has waited for; and it
// takes a new ballot after one that was refused.
func (p *Protocol) retransmit(o *operation) {
	if p.Now < o.after {
		return
	}
	switch {
	case o.waits:
		p.Took(pathReadRecovers)
		p.recover(o)
		return
	case o.after != 0: // set by a refusal
		o.after = 0
		p.propose(o)
		return
	}
	missing := p.Unanswered(&o.answered)
	if len(missing) == 0 {
		return
	}
	p.Took(pathRetry)
	o.retries++
	if p.relaxed && o.stage == speculating && o.retries >= patience && p.quorum(&o.answered, 0) {
		p.giveUp(o, fmt.Sprintf("more than %d of %d members are away (faultTolerance)", p.Config.Faults, p.Config.View.Size()))
		return
	}
	if o.writes() && o.retries >= patience && o.forgot.Count(p.Incarnations) > 0 && p.reached(o) {
		p.giveUp(o, unremembered+", and others are away")
		return
	}
	p.ask(o, missing)
	if o.need != 0 {
		o.need = 0
		p.found(o)
	}
}

// later puts off what the operation does next, by a time that differs between members, or they would duel: it is drawn
// from a window that doubles with each ballot that is lost, and is no less than it took until one was, so that whoever
// is at work comes to an end also where a round trip takes longer than Config.Retry.
func (p *Protocol) later(o *operation) {
	window := max(p.Config.Retry, o.lasted, 4)
	o.after = p.Now.Add(window/2) + protocol.Instant(p.Draws.Below(uint64(window)<<min(o.lost, lastBackOff)))
}

// lastBackOff is how often the window doubles.
const lastBackOff = 3

// finish completes an operation that a quorum holds. The coordinator may be one of the holders, so it does not tell
// before its own record is durable.
func (p *Protocol) finish(o *operation, v register.Versioned) {
	durable := p.durable(o.Key)
	for _, request := range o.requests {
		r := register.Result{Status: register.OK, Carstamp: v.Carstamp, RoundTrips: o.Trips, Fast: o.Trips <= 1}
		if request.Operation.Kind == register.Read {
			r.Value = v.Value
		}
		p.CompleteWhen(durable, request.Handle, r)
	}
	p.end(o)
}

// giveUp ends a write of which nobody can say what its tag is to be. It keeps the one that it has: a later read may
// have it decided.
func (p *Protocol) giveUp(o *operation, why string) {
	p.issued = max(p.issued, o.timestamp)
	p.GiveUp(&o.requests[0], true, o.Trips, why)
	p.end(o)
}

// unremembered is why a write is given up that members have forgotten.
const unremembered = "members no longer know what they have said of the write, after many newer ones of its key"

// reached reports whether a quorum has answered, those that have forgotten the write among it.
func (p *Protocol) reached(o *operation) bool {
	return p.Config.View.Quorum(func(id view.MemberID) bool {
		return o.answered.Answered(p.Incarnations, id) || o.forgot.Answered(p.Incarnations, id)
	})
}

// forgotten takes note that a member can't tell what it has said of the operation's write: it has nothing of it any
// more, and will say nothing else. Once so many say so that no quorum is left to decide, a write is given up: it may
// have been decided, and read, or not. So it is if the others stay away. A read needs nothing of it then. Either that
// member has a larger tag. Or the largest one that was found is one that was voted for, and all of these members are
// below it: they have not voted for it, since a member keeps a vote until it is past its tag, so no quorum has.
func (p *Protocol) forgotten(o *operation, from view.MemberID, m *peerv1.Message) {
	p.Took(pathForgotten)
	if o.forgot.Count(p.Incarnations) == 0 {
		o.retries = 0
	}
	o.forgot.Answer(p.Incarnations, from)
	switch lost := o.forgot.Meets(p.Incarnations, 0); {
	case o.writes() && lost:
		p.giveUp(o, unremembered)
	case !o.writes() && o.tag().Less(tag(m.Gus.Newest, m.Gus.NewestWriter)) && !o.left.Answered(p.Incarnations, from):
		o.need = from
		p.read(o)
	case !o.writes() && lost:
		p.Took(pathReadBelow)
		o.below = o.tag()
		p.read(o)
	}
}

// expire gives up what is too late. A write has left its tag somewhere, and a later read may have it decided.
func (p *Protocol) expire(o *operation) {
	if !slices.ContainsFunc(o.requests, func(r protocol.Request) bool { return p.Late(&r) }) {
		return
	}
	why := p.NoQuorum()
	if p.relaxed && o.stale.Count(p.Incarnations) > 0 {
		why = fmt.Sprintf("fewer than %d of %d members answered in time, which takes a write that others conflict with (faultTolerance %d)",
			p.Config.View.Size()-p.Config.Faults, p.Config.View.Size(), p.Config.Faults)
	}
	o.requests = slices.DeleteFunc(slices.Clone(o.requests), func(r protocol.Request) bool {
		if !p.Late(&r) {
			return false
		}
		if o.writes() {
			p.issued = max(p.issued, o.timestamp)
		}
		p.GiveUp(&r, o.writes(), o.Trips, why)
		return true
	})
	if len(o.requests) == 0 {
		p.end(o)
	}
}

func (p *Protocol) end(o *operation) {
	o.stage, o.waits = 0, false
	p.operations.End(o)
	if p.joining[string(o.Key)] == o {
		delete(p.joining, string(o.Key))
	}
	k := p.active[string(o.Key)]
	if k == nil {
		return
	}
	k.operations = slices.DeleteFunc(k.operations, func(x *operation) bool { return x == o })
	if o.writes() {
		p.mayHaveEnded(o.Key, o.tag())
	}
	if !k.writes() {
		k.ended = register.Carstamp{}
	}
	switch {
	case len(k.operations) == 0:
		delete(p.active, string(o.Key))
	case !k.reads():
		k.versions = nil
	}
}
