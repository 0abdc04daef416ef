package rmwpaxos

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Unfinished implements member.Inner. Reads begin again, and so do batches that have not left this member. One that has
// goes on under its number: it may be in the state already, or come into it by a proposal of somebody else.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	list := func(r *request, done protocol.Resume) {
		if r != nil && !r.answered {
			q := r.Request
			q.Resume = done
			unfinished = append(unfinished, q)
		}
	}
	keys := make([]string, 0, len(p.objects))
	for key := range p.objects { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o := p.objects[key]
		if b := o.mine; b != nil {
			for k, r := range b.requests {
				if b.left && r != nil && r.Operation.Kind != register.Read {
					list(r, protocol.Resume{Instance: b.number, Command: k})
				} else {
					list(r, protocol.Resume{})
				}
			}
		}
		for _, r := range o.queue {
			list(r, protocol.Resume{})
		}
	}
	for _, r := range p.reads {
		if !r.ended {
			for _, q := range r.requests {
				list(q, protocol.Resume{})
			}
		}
	}
	p.objects, p.asking = map[string]*object{}, map[uint64]*read{}
	p.due, p.reads, p.busy, p.resting = nil, nil, nil, nil
	return unfinished
}

// resume puts an update into the batch that carried it in an earlier view. The batch begins with the next Tick, when all
// its requests are back. The numbers of this process are higher, so it comes before all others.
func (p *Protocol) resume(o *object, r protocol.Request) {
	b := o.mine
	if b == nil {
		p.config.Took(pathResumed)
		b = &batch{author: p.author, number: r.Resume.Instance, left: true, resuming: true}
		o.mine = b
	}
	if b.number != r.Resume.Instance {
		p.complete(r.Handle, register.Result{
			Status: register.Unknown, Message: "the view changed, and what came of the " + r.Operation.Kind.String() + " was forgotten meanwhile; it may have taken effect",
		})
		return
	}
	for len(b.commands) <= r.Resume.Command { // answers are told apart by their places
		b.commands = append(b.commands, &peerv1.Command{Function: noCommand})
		b.requests = append(b.requests, nil)
	}
	b.commands[r.Resume.Command] = command(r.Operation)
	b.requests[r.Resume.Command] = &request{Request: r}
}
