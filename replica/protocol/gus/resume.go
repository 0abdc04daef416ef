package gus

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// resume is a protocol.Resume: it says which write goes on.
type resume struct {
	tag     register.Carstamp
	origin  uint64 // the timestamp that the write began with
	issued  uint64 // the largest timestamp that its writer has issued and that no record need know of
	unsure  bool   // it began with relaxed quorums
	decided bool   // a quorum has voted for the tag; the origin is not known then
}

// Tag is what the write's value goes by.
func (r resume) Tag() register.Carstamp { return r.tag }

// ResumeWritten implements layered.Inner.
func (p *Protocol) ResumeWritten(tag register.Carstamp) protocol.Resume {
	return resume{tag: tag, decided: true}
}

// Unfinished implements protocol.Machine. Reads begin again. A write goes on as the one that it is.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	issued := p.issued
	for o := range p.operations.InProgress() {
		if o.writes() {
			issued = max(issued, o.timestamp) // its deadline may end it before the next view's protocol begins
		}
	}
	for o := range p.operations.InProgress() {
		for _, r := range o.requests {
			r.Resume = nil
			if o.writes() {
				r.Resume = resume{tag: o.tag(), origin: o.origin.Timestamp, issued: issued, unsure: o.unsure}
			}
			unfinished = append(unfinished, r)
		}
	}
	return unfinished
}

// resume goes on with a write of an earlier view. There, somebody may have read it under its first tag without the
// writer's knowing (with three), or have had it decided. So the writer asks a quorum for its votes. A write that was
// decided is held by a quorum of that view, and so by every quorum of this one: to ask again, under a tag that need not
// be the one that it began with, would find no vote for it, and have it take another tag after it was read.
//
// If it takes another tag, that has the writer of the earlier view. Somebody who is not asked may hold one that another
// write of that writer had when it was given up.
func (p *Protocol) resume(o *operation, done resume) {
	p.Took(pathWriteResumed)
	if done.decided {
		p.finish(o, register.Versioned{Carstamp: done.tag})
		return
	}
	p.issued = max(p.issued, done.issued)
	o.timestamp, o.value, o.unsure = done.tag.Timestamp, o.requests[0].Operation.Value, done.unsure
	o.origin = register.Carstamp{Timestamp: done.origin, Writer: done.tag.Writer}
	p.propose(o)
}
