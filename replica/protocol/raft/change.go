package raft

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Unsettled implements member.Inner: a member has finished with earlier views when it has applied an entry that was
// appended in this one. All that was committed in earlier ones is before that.
func (p *Protocol) Unsettled() int {
	if p.state.Epoch < p.Config.View.Epoch {
		return 1
	}
	return 0
}

// resume is a protocol.Resume: it names a command in the log.
type resume struct {
	author register.Writer
	number uint64 // of the author's commands
}

// Unfinished implements protocol.Machine. Reads begin again. A write or rmw that was handed over keeps its number, by
// which it is recognised if it is, or comes to be, in the log.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	for o := range p.operations.InProgress() {
		r := o.request
		r.Resume = nil
		if o.told && !o.reads() {
			r.Resume = resume{p.author, o.Number}
		}
		unfinished = append(unfinished, r)
	}
	p.operations.Clear()
	return unfinished
}
