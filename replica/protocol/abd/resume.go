package abd

import "github.com/georegister/georegister/replica/protocol"

// Unsettled implements member.Inner: registers have nothing that is voted on.
func (p *Protocol) Unsettled() int { return 0 }

// Unfinished implements member.Inner.
func (p *Protocol) Unfinished() []protocol.Request { return nil }
