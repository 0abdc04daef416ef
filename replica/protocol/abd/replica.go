package abd

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// onQuery answers READ1 and WRITE1 with the tag of the register, and READ1 with its value too, unless the reader has
// it. What a read is told may let it return, so that must survive a crash of this member; a write only needs a tag that
// is large enough, and that a tag was once given and then lost does not make it too small.
func (p *Protocol) onQuery(from view.MemberID, m *peerv1.Message) {
	current := p.Load(m.Key)
	reply := p.Message(m.Kind+1, m.Op, m.Key)
	if m.Kind == peerv1.Kind_WRITE1 {
		wire.Put(reply, register.Versioned{Carstamp: current.Carstamp})
		p.Send(from, reply)
		return
	}
	if reply.Same = current.Carstamp == wire.Of(m).Carstamp; reply.Same {
		current.Value = nil
	}
	wire.Put(reply, current)
	p.Reply(p.Durable(m.Key), from, reply)
}

// onUpdate applies what READ2 and WRITE2 propagate. The reply says that this member holds that tag or a larger one, and
// will after a crash.
func (p *Protocol) onUpdate(from view.MemberID, m *peerv1.Message) {
	p.Apply(m.Key, wire.Of(m))
	p.Reply(p.Durable(m.Key), from, p.Message(m.Kind+1, m.Op, m.Key))
}
