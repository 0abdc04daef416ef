package instance

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/register"
)

// Settle asks who has executed what this newcomer only heard of.
func (p *Core) Settle(now protocol.Instant) bool {
	p.Now = now
	for e := p.live.Front(); e != nil; {
		i := e.Value.(*instance)
		e = e.Next()
		if p.Now < i.recoverAt {
			continue
		}
		i.recoverAt = p.Now.Add(p.Config.Retry)
		if i.status == peerv1.Status_COMMITTED {
			p.execute(i.object)
		}
		p.SendAll(p.Config.Nearest, p.query(i, 0, 0))
		p.letRest(i.object)
	}
	return p.live.Len() == 0
}

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
			continue
		}
		p.scheduleRecovery(i)
		if p.options.Registers != nil { // reads and writes of the key wait for it
			p.SendAll(p.Config.Nearest, p.query(i, 0, 0))
		}
	}
}

// Resume is a protocol.Resume: it names the instance that carries an operation.
type Resume struct {
	Instance uint64 // the number of this member's instance of the key, over all its lanes; from 1
	Command  int    // the operation's place in that instance's commands, from 0
}

// Unfinished lists the operations in progress. Each stays with its instance: members may hold what it did. Reads begin
// again, and requests that wait are as they came; both are last, or they would take the lanes of those instances. The
// core does nothing any more.
func (p *Core) Unfinished() []protocol.Request {
	var carried, others []protocol.Request
	for _, key := range slices.Sorted(maps.Keys(p.objects)) {
		o := p.objects[key]
		for _, d := range o.mine {
			for k, r := range d.requests {
				switch {
				case r.answered:
				case r.reads():
					r.Resume = nil
					others = append(others, r.Request)
				default:
					r.Resume = Resume{Instance: p.placeOf(d.id), Command: k}
					carried = append(carried, r.Request)
				}
			}
		}
		for _, r := range o.queue {
			r.Resume = nil
			others = append(others, r.Request)
		}
	}
	p.objects = map[string]*object{}
	p.live.Init()
	return append(carried, others...)
}

// resume attaches a command to this member's instance that carries it since an earlier view. The instance is recovered,
// or asked about if it is executed here: only its end tells whether the command may be proposed again. The next Tick
// does that, when all requests of a batch are back.
func (p *Core) resume(r protocol.Request, done Resume) {
	o := p.object([]byte(r.Operation.Key))
	defer p.letRest(o)
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
		i = &instance{object: o, id: id, since: p.Config.View.Epoch, forgotten: true}
		i.element = p.live.PushBack(i)
		i.coordination = &coordination{instance: i, outcome: e}
		p.enter(i.coordination, committed)
	default:
		return nil
	}
	o.mine = append(o.mine, i.coordination)
	i.coordination.own, i.coordination.roundTrips = true, min(1, p.Config.View.Size()-1)
	return i.coordination
}

// errForeign is of a record that no member which runs the same protocol has.
var errForeign = errors.New("it is no record of this protocol; all members must run one protocol")

// Adopt merges a record of another member, with coordinations and votes in progress.
func (p *Core) Adopt(key, value []byte) error {
	if len(key) == 0 {
		return errForeign
	}
	switch key[0] {
	case stateRecord:
		state := &peerv1.KeyState{}
		if err := bounds.Decode(value, state, bounds.Told); err != nil {
			return err
		}
		o := p.object(key[1:])
		p.takeState(o, state)
		p.letRest(o)
	case instanceRecord:
		if len(value) == 0 {
			return nil // a free slot
		}
		m, err := instanceOf(value, bounds.Told)
		if err != nil {
			return err
		}
		p.hear(m)
	default:
		return errForeign
	}
	return nil
}

// hear notes an instance that another member has not executed. A newcomer's lost disk may have voted on it: this disk
// votes on nothing before it is settled. In a joint view, those before the change may have committed it, and it has to
// be executed here before the change is finished.
func (p *Core) hear(m *peerv1.Message) {
	o := p.object(m.Key)
	defer p.letRest(o)
	id := idOf(m.Instance.GetId())
	if o.executed(id.writer) >= id.number {
		return
	}
	i := p.instance(o, id)
	news := m.Epoch < i.since
	i.since = min(i.since, m.Epoch)
	if m.Instance.Status == peerv1.Status_COMMITTED && i.status != peerv1.Status_COMMITTED {
		p.learnCommit(i, m)
		return
	}
	if i.status == peerv1.Status_NONE {
		i.status, news = peerv1.Status_HEARD, true
		p.scheduleRecovery(i)
	}
	if news {
		p.saveInstance(i)
	}
}
