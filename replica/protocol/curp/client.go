package curp

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/register"
)

// submit begins an operation.
func (c *coordinator) submit(r protocol.Request) {
	if c.Invalid(r) {
		return
	}
	o := &operation{request: r, key: []byte(r.Operation.Key), due: c.Now.Add(c.Config.Retry)}
	o.Number = c.Op()
	c.operations.Begin(o)
	if r.Operation.Kind == register.Read {
		c.read(o)
	} else {
		c.update(o)
	}
}

// tick gives up what is past its deadline, and asks again.
func (c *coordinator) tick() {
	c.operations.Sweep(nil)
	for o := range c.operations.InProgress() {
		switch {
		case c.Late(&o.request):
			c.giveUp(o)
		case c.Now < o.due:
		case o.update == nil:
			o.due = c.Now.Add(c.Config.Retry)
			c.readAtMaster(o)
		default:
			o.due = c.Now.Add(c.Config.Retry)
			c.sendAgain(o)
		}
	}
}

func (c *coordinator) giveUp(o *operation) {
	giveUp := base.MayTake
	if o.update == nil {
		giveUp = base.Untaken
	}
	c.finish(o, giveUp(o.request.Operation.Kind, o.trips, "the master of the key did not answer in time"))
}

// unfinished lists the operations in progress, and ends them here.
func (c *coordinator) unfinished() (all []protocol.Request) {
	for o := range c.operations.InProgress() {
		r := o.request
		r.Resume = nil
		if o.update != nil {
			id := o.update.Command
			r.Resume = resume{session: id.Session, number: id.Number, next: c.next}
		}
		all = append(all, r)
	}
	c.operations.Clear()
	return all
}
