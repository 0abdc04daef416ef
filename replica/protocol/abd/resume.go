package abd

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Unfinished implements protocol.Machine. The Resume of a write is its tag, a register.Carstamp. Reads begin again, and
// so do writes that have no tag yet. One with a tag goes on with it: members may hold the value under that tag, and a
// value that is written under two can be read as x, y, x.
func (p *Protocol) Unfinished() []protocol.Request {
	return p.operations.Unfinished(func(o *operation) protocol.Resume {
		if o.writes() && o.second {
			return o.chosen.Carstamp
		}
		return nil
	})
}

// resume goes on with a write that an earlier view's protocol had given its tag. Nothing that was acknowledged there
// counts here.
func (p *Protocol) resume(o *operation, tag register.Carstamp) {
	p.Took(pathWriteResumed)
	o.second = true
	o.chosen = register.Versioned{Carstamp: tag, Value: o.Request.Operation.Value}
	p.update(o)
}
