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
	var unfinished []protocol.Request
	list := func(r protocol.Request, done protocol.Resume) {
		r.Resume = done
		unfinished = append(unfinished, r)
	}
	for o := range p.operations.InProgress() {
		switch {
		case o.answered:
		case o.second && o.Kind() == register.Write:
			list(o.Request, o.chosen.Carstamp)
		default:
			list(o.Request, nil)
		}
	}
	p.operations.Clear()
	return append(unfinished, p.rmws.Unfinished()...)
}
