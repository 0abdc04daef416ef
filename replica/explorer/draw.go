package explorer

import (
	"fmt"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/simulator/diagram"
	"github.com/georegister/georegister/replica/simulator/kernel"
)

// drawing draws a run, as the simulator draws one. What it gives for times are the numbers of the steps.
type drawing struct {
	*world
	*diagram.Diagram
	time  *kernel.Kernel
	state *state
}

// draw is the diagram of a run: what came before, the steps of a path, some more, and how things settled then.
func (s *search) draw(path []uint32, more, settled []choice) string {
	d := &drawing{world: s.world, time: &kernel.Kernel{}, state: &state{attempts: make([]attempt, len(s.operations))}}
	d.Diagram = diagram.New(d.time, d.lanes)
	for i := range s.processes() {
		d.state.locals = append(d.state.locals, s.empty(i))
	}
	_ = s.plain(d.state, func() *Failure {
		for _, c := range s.before {
			d.step(c)
		}
		return nil
	})
	for _, op := range s.world.before {
		d.state.attempts[op] = attempt{}
	}
	if len(s.before) > 0 && len(path)+len(more)+len(settled) > 0 {
		d.Remark("what was explored begins")
	}
	s.repeat(path, d.step)
	if !s.ordered {
		s.world.drop(d.state)
	}
	for _, c := range more {
		d.step(c)
	}
	if settled != nil {
		d.Remark("nothing is left to happen: everything arrives from here on, and members' clocks move on")
		_ = s.plain(d.state, func() *Failure {
			for _, c := range settled {
				d.step(c)
			}
			return nil
		})
	}
	return diagram.Legend + "\n" + d.String()
}

func (d *drawing) lanes() (all []diagram.Lane) {
	for i := range d.state.locals {
		lane := diagram.Votes
		switch {
		case !d.up(d.state, i):
			lane = diagram.Down
		case d.witnesses(i):
			lane = diagram.Witnesses
		}
		all = append(all, lane)
	}
	return all
}

// step has a choice happen, and draws it.
func (d *drawing) step(c choice) {
	d.time.Now += time.Millisecond
	argument := int(c.argument())
	op := c.argument()
	switch c.kind() {
	case start:
		d.Note(argument, "starts")
	case deliver, duplicate, lose, hold:
		d.moved(c)
	case invoke:
		op, _ = d.next(d.state, argument)
		d.invoked(op)
	case submit:
		d.invoked(op)
	case persist:
		d.Note(argument, "has a batch durable")
	case slow:
		d.Note(argument, "has its batches durable later")
	case tell:
		d.Note(argument, "is told of the view of epoch %d", d.views[d.state.recorded].Epoch)
	case timeout:
		if d.scope.Partitioned {
			d.Remark("all clocks move on")
			break
		}
		d.Note(argument, "waits until it retransmits")
	case takeover:
		if d.scope.Partitioned {
			d.Remark("the view is recorded in which member %d is the master", d.views[1].Partitions[0].Master)
			break
		}
		d.Note(argument, "waits until it takes over")
	case crash:
		d.Happened("%d crashes, and loses %d batches", argument+1, d.states[d.state.locals[argument]].batches)
	}
	was := append([]attempt{}, d.state.attempts...)
	var done did
	if c.kind() == submit {
		done = d.invoke(d.state, op)
	} else {
		done = d.do(d.state, c)
	}
	if done.fault != nil {
		d.Remark("%v", done.fault)
	}
	for i, a := range d.state.attempts {
		o := &d.operations[i]
		switch {
		case a.result == was[i].result:
		case a.result == lost:
			d.Happened("%s at %d: %s has an unknown outcome", d.name(uint32(i)), o.member+1,
				diagram.OperationText(o.request))
		case a.result >= firstResult:
			d.Returned(d.name(uint32(i)), o.member, o.request, d.results[a.result-firstResult])
		}
	}
}

func (d *drawing) name(op uint32) string { return fmt.Sprintf("client %d", d.operations[op].session+1) }

func (d *drawing) invoked(op uint32) {
	o := d.operations[op]
	request := d.requests[d.request(d.state, op)].request
	d.Invoked(d.name(op), o.member, request)
}

// moved draws what happens to a message.
func (d *drawing) moved(c choice) {
	sent := &d.messages[c.argument()]
	m := &peerv1.Message{}
	if err := m.UnmarshalVT(sent.wire); err != nil {
		d.Remark("%v", err)
		return
	}
	switch {
	case c.kind() == lose:
		d.Dropped(sent.from, sent.to, m, "lost")
	case c.kind() == hold:
		d.Dropped(sent.from, sent.to, m, "comes later")
	case !d.up(d.state, sent.to):
		d.Dropped(sent.from, sent.to, m, "it is down")
	case c.kind() == duplicate:
		d.Delivered(sent.from, sent.to, m)
		d.Remark("a copy of that stays under way")
	default:
		d.Delivered(sent.from, sent.to, m)
	}
}
