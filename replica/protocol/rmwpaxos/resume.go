package rmwpaxos

import (
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// resume is a protocol.Resume: it names the batch that carries an update.
type resume struct {
	author  register.Writer // its lane's
	batch   uint64          // its number
	command int             // the update's place in the batch, from 0
}

// Unfinished implements protocol.Machine. Reads begin again, and so do batches that have not left this member. One that
// has goes on under its number: it may be in the state already, or come into it by a proposal of somebody else.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	list := func(r *request, done protocol.Resume) {
		if r != nil && !r.answered {
			q := r.Request
			if done != nil { // else what an earlier view has said: others may know of it still
				q.Resume = done
			}
			unfinished = append(unfinished, q)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(p.objects)) {
		o := p.objects[key]
		for _, b := range o.mine {
			for k, r := range b.requests {
				if b.left && r != nil && r.Operation.Kind != register.Read {
					list(r, resume{b.author, b.number, k})
				} else {
					list(r, nil)
				}
			}
		}
		for _, r := range slices.Concat(o.queue, o.asking) {
			list(r, nil)
		}
	}
	for r := range p.reads.InProgress() {
		for _, q := range r.requests {
			list(q, nil)
		}
	}
	return unfinished
}

// resume puts an update into the batch that carried it in an earlier view. That begins with the next Tick, when all its
// requests are back. The numbers of this process are higher, so it comes before all others of its lane.
func (p *Protocol) resume(o *object, r protocol.Request, done resume) {
	at := slices.IndexFunc(o.mine, func(b *batch) bool { return b.number == done.batch })
	if at < 0 {
		p.Took(pathResumed)
		at = len(o.mine)
		o.mine = append(o.mine, &batch{author: done.author, number: done.batch, left: true, resuming: true})
	}
	b := o.mine[at]
	for len(b.commands) <= done.command { // answers are told apart by their places
		b.commands = append(b.commands, &peerv1.Command{Function: noCommand})
		b.requests = append(b.requests, nil)
	}
	b.commands[done.command] = command(r.Operation)
	b.requests[done.command] = &request{Request: r}
}
