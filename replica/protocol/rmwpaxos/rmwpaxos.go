// Package rmwpaxos is RMWPaxos (Skrzypczak, Schintke and Schütt): for each key an atomic read-modify-write register,
// agreed on in place: a sequence of consensus decisions on one set of state, without a log.
//
// An acceptor (acceptor.go) holds, per key, the round that it has promised, and the last state that it voted for with
// the round of that vote. A proposer (prepare.go, vote.go) has a quorum promise a round, computes the next state from
// the chosen one, and has a quorum vote for it: algorithm 3. Consistent quorums tell what is chosen: a read (read.go)
// of a register at rest takes one round trip and changes nothing.
//
// docs/protocols.md, section RMWPaxos, says what differs from the paper, and why.
package rmwpaxos

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Options are choices. All members must agree on AtLeastOnce, which is a protocol of its own for whoever runs it.
type Options struct {
	// AtLeastOnce makes it the consensus sequence register of section 5.4: a state has no table, and an update may be
	// applied again by whoever does not know whether it was. So it takes no updates but calls of idempotent functions
	// (register.Function), for which that can't be seen, and refuses writes: one that is applied again takes back what
	// came after it.
	AtLeastOnce bool
	// ReadRetries bounds how often a read that finds an unfinished write asks again before it helps to finish it: X of
	// section 5.8. Zero stands for 2, beyond which the paper sees little gain (section 7.2); negative: it helps at once.
	ReadRetries int
	// Insist has a proposer that lost a round ask for the next one at once, as published (algorithm 3, lines 21 to 24),
	// whoever else is at work. Without it, it hands its updates to the key's proposer if there is another one in its way.
	Insist bool
}

const defaultReadRetries = 2

func (o Options) readRetries() int {
	if o.ReadRetries == 0 {
		return defaultReadRetries
	}
	return max(0, o.ReadRetries)
}

// Protocol is one member's part of RMWPaxos, for one shard: acceptor, proposer and learner.
type Protocol struct {
	base.Acceptors
	base.Settled
	options  Options
	me       register.Writer // names rounds: no two processes have the same
	author   register.Writer // names batches: their numbers go on over restarts
	before   view.View       // of the members before a change; in a plain view, all
	nextHand uint64          // number of the last batch

	objects map[string]*object // keys that something is done for, and those that rest
	due     []*object          // to be advanced by Ready
	reads   base.Operations[*read]
	busy    []*object // with proposals in progress, in the order of their first, until the Tick after the last
	resting []rest
	silent  map[view.MemberID]protocol.Instant // until when a proposer is taken for dead; never ranged over

	counting quorum.Tally `digest:"-"` // begun anew by each count
}

var _ member.Inner = (*Protocol)(nil)

// Factory makes the protocol for a member.
func Factory(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, known, Options{})
}

// AtLeastOnce makes one with Options.AtLeastOnce.
func AtLeastOnce(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
	return newProtocol(config, journal, known, Options{AtLeastOnce: true})
}

// FactoryWith makes one with options.
func FactoryWith(options Options) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
		return newProtocol(config, journal, known, options)
	}
}

func newProtocol(
	config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, options Options,
) *Protocol {
	p := &Protocol{
		Acceptors: base.Acceptors{Base: base.New("rmwpaxos", config, journal, known)},
		options:   options,
		before:    config.View.Before(),
		nextHand:  uint64(config.Boot) << 32,
		objects:   map[string]*object{},
		silent:    map[view.MemberID]protocol.Instant{},
	}
	p.me, p.author = p.Writer(), p.Author()
	return p
}

// Submit implements protocol.Machine. What is submitted begins in Ready, so that what comes together is batched.
func (p *Protocol) Submit(r protocol.Request) {
	if p.Invalid(r) || p.refused(r) {
		return
	}
	o := p.object([]byte(r.Operation.Key))
	if r.Operation.Kind == register.Read {
		p.joinRead(o, &request{Request: r})
		return
	}
	if done, resumed := r.Resume.(resume); resumed && !p.options.AtLeastOnce {
		p.resume(o, r, done)
	} else { // at least once, it begins again
		o.queue = append(o.queue, &request{Request: r})
	}
	p.advanceLater(o)
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m.RmwPaxos == nil {
		return
	}
	delete(p.silent, from)
	p.heed(from, m)
	switch m.Kind {
	case peerv1.Kind_PAXOS_READ:
		p.onRead(from, m)
	case peerv1.Kind_PAXOS_PREPARE:
		p.onPrepare(from, m)
	case peerv1.Kind_PAXOS_VOTE:
		p.onVote(from, m)
	case peerv1.Kind_PAXOS_STATE:
		p.onState(from, m)
	case peerv1.Kind_PAXOS_ACK, peerv1.Kind_PAXOS_VOTED, peerv1.Kind_PAXOS_NACK:
		p.onAnswer(from, m)
	case peerv1.Kind_PAXOS_HAND:
		p.onHand(from, m)
	case peerv1.Kind_PAXOS_HANDED:
		p.onHanded(m)
	}
}

// Tick implements protocol.Machine: it repeats what was not answered, gives up what is past its deadline, goes on with
// what has backed off, and takes back what a proposer that is silent was given.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now = now
	p.tickReads()
	p.tickObjects()
}

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	for len(p.due) > 0 && p.Err() == nil {
		due := p.due
		p.due = nil
		for _, o := range due {
			o.due = false
			p.beginRead(o)
			p.advance(o)
		}
	}
	return p.Outbox.Ready()
}

// Pending is how many reads, and batches of own or of others, this member has in progress.
func (p *Protocol) Pending() int {
	n := p.reads.Len()
	for _, o := range p.busy {
		n += o.pending()
	}
	for _, o := range p.due {
		n += len(o.asking)
		if !o.listed {
			n += o.pending()
		}
	}
	return n
}

// completeAbout completes once what this member's acceptor holds of the key is durable: it was counted.
func (p *Protocol) completeAbout(key []byte, handle uint64, r register.Result) {
	p.CompleteWhen(p.Durable(key), handle, r)
}
