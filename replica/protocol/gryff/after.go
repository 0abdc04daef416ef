package gryff

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Gryff-RSC (Helt et al., Regular Sequential Serializability and Regular Sequential Consistency, section 7.1): a read
// answers after its first phase, and what it did not write back then, later operations of its session carry.

// carry begins an operation with what its session depends on. This member is one of the quorum that holds it then, so
// nothing that rests on that quorum may leave before it is durable here: see carriedDurably.
func (p *Protocol) carry(o *operation) {
	after := o.Request.Operation.After
	if len(after) == 0 {
		return
	}
	o.after = make([]*peerv1.Dependency, len(after))
	for i, d := range after {
		o.after[i] = wire.Dependency(d)
	}
	if !p.applyAll(o.after) {
		o.rests = p.Journal.Mark()
	}
	for i := range after {
		p.learnHolders(&after[i])
	}
	if o.after = p.withoutHeld(o.after); len(o.after) > 0 {
		p.Took(pathDependencyCarried)
	} else {
		p.Took(pathDependencyHeld)
	}
}

// carriedDurably reports whether what the operation carries survives a crash of this member now.
func (p *Protocol) carriedDurably(o *operation) bool { return p.Journal.Survives(o.rests) }

// applyAll applies dependencies, and reports whether all of them are durable already.
func (p *Protocol) applyAll(after []*peerv1.Dependency) bool {
	durable := true
	for _, d := range after {
		p.Apply(d.Key, wire.OfDependency(d))
		durable = p.Durable(d.Key) && durable
	}
	return durable
}

// dependsOnOthers reports whether the operation carries anything of another key than its own.
func (o *operation) dependsOnOthers() bool {
	return slices.ContainsFunc(o.after, func(d *peerv1.Dependency) bool { return string(d.Key) != string(o.Key) })
}

// writeBack has a quorum hold what an operation carries, in a round trip of its own before all else that it does: its
// place in the order of all operations may not be before that of what it comes after. That is what a fence is. Of an
// rmw, whoever brings its instance to its end then need not know of dependencies. A read that carried them beside its
// question, as the paper has it, could return a value that was replaced before they are held; and so could a write that
// did get a place before they are held, since that is where a newer value of its key has its own (docs/protocols.md).
//
// A read or a write of the same key need not wait: what it returns, or writes, is at least as new, and so is held no
// earlier.
func (p *Protocol) writeBack(o *operation) {
	if len(o.after) == 0 {
		p.wroteBack(o)
		return
	}
	o.backing, o.Trips = true, min(1, p.Config.View.Size()-1)
	if !p.await(o) {
		p.countHolders(o)
		p.spread(o, o.asked.AskRest(&p.Config, p.Incarnations, p.Now))
		p.decide(o)
	}
	if o.backing && !o.Over {
		p.haveWaited(o)
	}
}

// wroteBack goes on when a quorum holds it. An rmw's pre-accept leaves when what was put until now is durable, and so
// what the rmw depends on.
func (p *Protocol) wroteBack(o *operation) {
	switch o.Kind() {
	case register.Fence:
		p.Took(pathFence)
		p.end(o, register.Result{Status: register.OK, RoundTrips: o.Trips})
	case register.Read, register.Write:
		if o.Kind() == register.Read {
			p.Took(pathReadAfter)
		} else {
			p.Took(pathWriteAfter)
		}
		// Answers to what it has asked until now are none to what it asks next.
		p.operations.Renumber(o, p.Op())
		o.backing = false
		o.asked.Restart()
		p.firstPhase(o)
	case register.RMW:
		p.operations.End(o)
		if o.backing {
			p.Took(pathRMWAfter)
			p.waited[o.Request.Handle] = o.Trips
		}
		p.rmws.Submit(o.Request)
	}
}

// Ready implements protocol.Machine. The answers of rmws count what they waited for before they had an instance.
func (p *Protocol) Ready() protocol.Effects {
	e := p.Outbox.Ready()
	if len(p.waited) > 0 {
		p.count(e.Complete)
		p.count(e.CompleteAfterPersist)
	}
	return e
}

func (p *Protocol) count(completions []protocol.Completion) {
	for i := range completions {
		c := &completions[i]
		c.Result.RoundTrips += p.waited[c.Handle]
		delete(p.waited, c.Handle)
	}
}

// onDependencies is the receiver's part of writeBack.
func (p *Protocol) onDependencies(from view.MemberID, m *peerv1.Message) {
	reply := p.Message(peerv1.Kind_READ2_REPLY, m.Op, nil)
	p.applyAll(m.After)
	p.SendDurably(from, reply)
}
