package gryff

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// isOld reports whether an instance was known in an earlier view: someone may have voted on it there.
func (p *Protocol) isOld(i *instance) bool { return i.born < p.config.View.Epoch }

// Unsettled implements member.Inner. What this member hears of in this epoch, as a dependency or by a message, nobody
// voted on here before; what came with another member's state, that one did.
func (p *Protocol) Unsettled() int {
	n := 0
	for e := p.live.Front(); e != nil; e = e.Next() {
		if i := e.Value.(*instance); !i.gone && p.isOld(i) {
			n++
		}
	}
	return n
}

// takeUp begins with what the disk holds, when the time is known. An own instance has nobody else who goes on with it,
// and a commit has nothing to wait for; others' have their coordinators, who may begin at the same time.
func (p *Protocol) takeUp() {
	for e := p.live.Front(); e != nil; e = e.Next() {
		i := e.Value.(*instance)
		if i.id.writer == p.author || i.status == peerv1.Status_COMMITTED {
			i.patience = p.now
		} else {
			p.bePatient(i)
		}
	}
}

// Unfinished implements member.Inner. Reads begin again, and so do writes that have no carstamp yet. A write goes on with
// its carstamp, and an rmw with its instance: members may hold what they did. Requests that wait are as they came.
func (p *Protocol) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	list := func(r protocol.Request, done protocol.Resume) {
		r.Resume = done
		unfinished = append(unfinished, r)
	}
	for _, o := range p.inFlight {
		switch {
		case o.ended:
		case o.second && o.request.Operation.Kind == register.Write:
			list(o.request, protocol.Resume{Carstamp: o.chosen.Carstamp})
		default:
			list(o.request, protocol.Resume{})
		}
	}
	keys := make([]string, 0, len(p.objects))
	for key := range p.objects { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o := p.objects[key]
		if d := o.mine; d != nil {
			for k, r := range d.requests {
				if !r.answered {
					list(r.Request, protocol.Resume{Instance: d.id.number, Command: k})
				}
			}
		}
		for _, r := range o.queue {
			list(r.Request, protocol.Resume{})
		}
	}
	p.operations, p.inFlight, p.objects = map[uint64]*operation{}, nil, map[string]*object{}
	p.live.Init()
	return unfinished
}

// resume attaches an rmw to this member's instance that carries it since an earlier view. The instance is recovered, or
// asked about if it is executed here: only its end tells whether the rmw may be proposed again. The next Tick does that,
// when all requests of a batch are back.
func (p *Protocol) resume(r protocol.Request) {
	o := p.object([]byte(r.Operation.Key))
	defer p.release(o)
	d := o.mine
	if d == nil {
		d = p.driveAgain(o, instanceID{p.author, r.Resume.Instance})
	}
	if d == nil || d.id.number != r.Resume.Instance {
		p.complete(r.Handle, register.Result{
			Status: register.Unknown, Message: "the view changed, and what came of the rmw was forgotten meanwhile; it may have taken effect",
		})
		return
	}
	p.config.Took("rmw.resumed")
	for len(d.requests) <= r.Resume.Command { // answers are told apart by their places
		d.requests = append(d.requests, &rmwRequest{answered: true})
	}
	d.requests[r.Resume.Command] = &rmwRequest{Request: r}
}

// driveAgain makes an instance of this member the key's one in progress. It returns nil if its end was forgotten.
func (p *Protocol) driveAgain(o *object, id instanceID) *drive {
	i := o.find(id)
	switch e := o.execution(p.author); {
	case i != nil && i.drive != nil: // it is being recovered
	case i != nil:
		i.drive = &drive{instance: i, stage: preempted}
		i.patience = p.now
	case idOf(e.GetId()) == id:
		i = &instance{object: o, id: id, born: p.config.View.Epoch, gone: true}
		i.element = p.live.PushBack(i)
		i.drive = &drive{instance: i, outcome: e}
		i.drive.next(p, committed)
	default:
		return nil
	}
	o.mine = i.drive
	o.mine.roundTrips = min(1, p.config.View.Size()-1)
	return o.mine
}
