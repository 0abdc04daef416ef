package gryff

import (
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// Unsettled implements member.Inner: registers have nothing to settle.
func (p *Protocol) Unsettled() int { return p.rmws.Unsettled() }

// Unfinished implements protocol.Machine. Reads begin again, and so do writes that have no carstamp yet. The Resume of
// a write is its carstamp, a register.Carstamp, and that of an rmw is an instance.Resume: members may hold what they
// did. Requests that wait are as they came.
func (p *Protocol) Unfinished() []protocol.Request {
	for o := range p.operations.InProgress() {
		if o.answered {
			p.operations.End(o)
		}
	}
	unfinished := p.operations.Unfinished(func(o *operation) protocol.Resume {
		if o.second && o.Kind() == register.Write {
			return o.chosen.Carstamp
		}
		return nil
	})
	unfinished = append(unfinished, p.waiting...)
	p.waiting = nil
	return append(unfinished, p.rmws.Unfinished()...)
}
