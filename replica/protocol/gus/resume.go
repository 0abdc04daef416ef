package gus

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// resume is a protocol.Resume: it says which write goes on.
type resume struct {
	tag    register.Carstamp
	origin uint64 // the timestamp that the write began with
	unsure bool   // it began with relaxed quorums
}

// Tag is what the write's value goes by.
func (r resume) Tag() register.Carstamp { return r.tag }

// ResumeWritten implements layered.Inner: the writer asks a quorum for its votes, and finds that the write was decided.
func (p *Protocol) ResumeWritten(tag register.Carstamp) protocol.Resume {
	return resume{tag: tag, origin: tag.Timestamp}
}

// Unfinished implements protocol.Machine. Reads begin again. A write goes on as the one that it is.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	for o := range p.operations.InProgress() {
		for _, r := range o.requests {
			r.Resume = nil
			if o.writes() {
				r.Resume = resume{o.tag(), o.origin.Timestamp, o.unsure}
			}
			unfinished = append(unfinished, r)
		}
	}
	p.operations.Clear()
	clear(p.active)
	clear(p.joining)
	return unfinished
}

// resume goes on with a write of an earlier view. There, somebody may have read it under its first tag without the
// writer's knowing (with three), or have had it decided. So the writer asks a quorum for its votes.
func (p *Protocol) resume(o *operation, done resume) {
	p.Took(pathWriteResumed)
	o.timestamp, o.value, o.unsure = done.tag.Timestamp, o.requests[0].Operation.Value, done.unsure
	o.origin = register.Carstamp{Timestamp: done.origin, Writer: done.tag.Writer}
	p.propose(o)
}
