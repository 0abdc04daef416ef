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
	o := &operation{Operation: c.NewOperation(r), due: c.Now.Add(c.Config.Retry)}
	c.operations.Begin(o)
	if o.Kind() == register.Read {
		c.read(o)
	} else {
		c.update(o)
	}
}

// tick gives up what is past its deadline, and asks again.
func (c *coordinator) tick() { c.operations.Tick(c.Base, c.Now, c.giveUp, c.askAgain) }

func (c *coordinator) giveUp(o *operation) {
	giveUp := base.MayTake
	if o.update == nil {
		giveUp = base.Untaken
	}
	c.finish(o, giveUp(o.Kind(), o.Trips, "the master of the key did not answer in time"))
}

// askAgain asks once more what is not answered for long.
func (c *coordinator) askAgain(o *operation) {
	if c.Now < o.due {
		return
	}
	o.due = c.Now.Add(c.Config.Retry)
	if o.update == nil {
		c.readAtMaster(o)
	} else {
		c.sendAgain(o)
	}
}

// unfinished lists the operations in progress, and ends them here.
func (c *coordinator) unfinished() []protocol.Request {
	return c.operations.Unfinished(func(o *operation) protocol.Resume {
		if o.update == nil {
			return nil
		}
		id := o.update.Command
		return resume{session: id.Session, number: id.Number, firstIncomplete: id.FirstIncomplete}
	})
}
