package instance

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// isOld reports whether an instance was known in an earlier view: someone may have voted on it there.
func (p *Core) isOld(i *instance) bool { return i.born < p.Config.View.Epoch }

// Unsettled is how many instances of earlier views are not finished here. What this member hears of in this epoch, as a
// dependency or by a message, nobody voted on here before; what came with another member's state, that one did.
func (p *Core) Unsettled() int {
	n := 0
	for e := p.live.Front(); e != nil; e = e.Next() {
		if i := e.Value.(*instance); !i.forgotten && p.isOld(i) {
			n++
		}
	}
	return n
}

// takeUp begins with what the disk holds, when the time is known. An own instance has nobody else who goes on with it,
// and a commit has nothing to wait for; others' have their coordinators, who may begin at the same time.
func (p *Core) takeUp() {
	for e := p.live.Front(); e != nil; e = e.Next() {
		i := e.Value.(*instance)
		if p.isMine(i.id) || i.status == peerv1.Status_COMMITTED {
			i.recoverAt = p.Now
		} else {
			p.scheduleRecovery(i)
		}
	}
}

// Resume is a protocol.Resume: it names the instance that carries an operation.
type Resume struct {
	Instance uint64 // the number of this member's instance of the key, over all its lanes; from 1
	Command  int    // the operation's place in that instance's commands, from 0
}

// Unfinished lists the operations in progress. Each stays with its instance: members may hold what it did. Reads begin
// again, and requests that wait are as they came. The core does nothing any more.
func (p *Core) Unfinished() []protocol.Request {
	var unfinished []protocol.Request
	list := func(r protocol.Request, done protocol.Resume) {
		r.Resume = done
		unfinished = append(unfinished, r)
	}
	keys := make([]string, 0, len(p.objects))
	for key := range p.objects { // sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		o := p.objects[key]
		for _, d := range o.mine {
			for k, r := range d.requests {
				switch {
				case r.answered:
				case r.reads():
					list(r.Request, nil)
				default:
					list(r.Request, Resume{Instance: p.placeOf(d.id), Command: k})
				}
			}
		}
		for _, r := range o.queue {
			list(r.Request, nil)
		}
	}
	p.objects = map[string]*object{}
	p.live.Init()
	return unfinished
}

// placeOf counts this member's instances of a key over its lanes, and instanceAt is the other way round.
func (p *Core) placeOf(id instanceID) uint64 {
	return id.number*uint64(p.options.Lanes) + uint64(id.writer-p.author)
}

func (p *Core) instanceAt(place uint64) instanceID {
	lanes := uint64(p.options.Lanes)
	return instanceID{p.lane(int(place % lanes)), place / lanes}
}

// resume attaches a command to this member's instance that carries it since an earlier view. The instance is recovered,
// or asked about if it is executed here: only its end tells whether the command may be proposed again. The next Tick
// does that, when all requests of a batch are back.
func (p *Core) resume(r protocol.Request, done Resume) {
	o := p.object([]byte(r.Operation.Key))
	defer p.release(o)
	id := p.instanceAt(done.Instance)
	d := o.inLane(id.writer)
	if d == nil {
		d = p.coordinateAgain(o, id)
	}
	if d == nil || d.id != id {
		p.Complete(r.Handle, register.Result{Status: register.Unknown, Message: fmt.Sprintf(
			"the view changed, and what came of the %s was forgotten meanwhile; it may have taken effect", r.Operation.Kind)})
		return
	}
	p.took(pathResumed)
	for len(d.requests) <= done.Command { // answers are told apart by their places
		d.requests = append(d.requests, &request{answered: true})
	}
	d.requests[done.Command] = &request{Request: r}
}

// coordinateAgain makes an instance of this member the key's one in progress. It returns nil if its end was forgotten.
func (p *Core) coordinateAgain(o *object, id instanceID) *coordination {
	i := o.find(id)
	switch e := o.execution(id.writer); {
	case i != nil && i.coordination != nil: // it is being recovered
	case i != nil:
		i.coordination = &coordination{instance: i, phase: preempted}
		i.recoverAt = p.Now
	case idOf(e.GetId()) == id:
		i = &instance{object: o, id: id, born: p.Config.View.Epoch, forgotten: true}
		i.element = p.live.PushBack(i)
		i.coordination = &coordination{instance: i, outcome: e}
		i.coordination.enter(p, committed)
	default:
		return nil
	}
	o.mine = append(o.mine, i.coordination)
	i.coordination.own, i.coordination.roundTrips = true, min(1, p.Config.View.Size()-1)
	return i.coordination
}
