package raft

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Unsettled implements member.Inner: a member has finished with earlier views when it has applied an entry that was appended
// in this one. All that was committed in earlier ones is before that.
func (p *Protocol) Unsettled() int {
	if p.state.Epoch < p.config.View.Epoch {
		return 1
	}
	return 0
}

// Unfinished implements member.Inner. Reads begin again. A write or rmw that was handed over keeps its number, by which it is
// recognised if it is, or comes to be, in the log.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	for _, o := range p.operations {
		if o.over {
			continue
		}
		r := o.request
		r.Resume = protocol.Resume{}
		if o.told && !o.reads() {
			r.Resume.Carstamp = register.Carstamp{Timestamp: o.number, Writer: p.author}
		}
		unfinished = append(unfinished, r)
	}
	clear(p.byNumber)
	p.operations = nil
	return unfinished
}
