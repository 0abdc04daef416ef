package gus

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Settle implements member.Inner. What is undecided is decided by whoever reads it, with any quorum.
func (p *Protocol) Settle(protocol.Instant) bool { return true }

// Unsettled implements member.Inner: what members have said of undecided writes goes with their records.
func (p *Protocol) Unsettled() int { return 0 }

// Unfinished implements member.Inner. Reads begin again. A write goes on as the one that it is: it names the tag that it
// has, in Instance the timestamp that it began with, and in Command whether it began with relaxed quorums.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	for _, o := range p.order {
		if o.done {
			continue
		}
		for _, r := range o.requests {
			r.Resume = protocol.Resume{}
			if o.writes() {
				r.Resume = protocol.Resume{Carstamp: o.tag(), Instance: o.origin.Timestamp}
				if o.unsure {
					r.Resume.Command = 1
				}
			}
			unfinished = append(unfinished, r)
		}
	}
	clear(p.running)
	clear(p.keys)
	clear(p.joining)
	p.order = nil
	return unfinished
}

// resume goes on with a write of an earlier view. There, somebody may have read it under its first tag without the
// writer's knowing (with three), or have had it decided. So the writer asks a quorum for its votes.
func (p *Protocol) resume(o *operation) {
	p.config.Took(pathWriteResumed)
	resume := o.requests[0].Resume
	o.timestamp, o.value, o.unsure = resume.Carstamp.Timestamp, o.requests[0].Operation.Value, resume.Command != 0
	o.origin = register.Carstamp{Timestamp: resume.Instance, Writer: resume.Carstamp.Writer}
	p.propose(o)
}
