package member

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// effects are what the member itself asks of the world, beside its inner protocol.
type effects struct{ protocol.Effects }

// reply leaves once everything it tells of is durable.
func (e *effects) reply(to view.MemberID, msg *peerv1.Message) {
	e.SendAfterPersist = append(e.SendAfterPersist, protocol.Envelope{To: to, Message: msg})
}

// complete ends an operation that the inner protocol has not begun.
func (e *effects) complete(handle uint64, r register.Result) {
	e.Complete = append(e.Complete, protocol.Completion{Handle: handle, Result: r})
}

// refuse has the world tell people of what another member sent. One of a turn will do for each.
func (e *effects) refuse(from view.MemberID, why error) {
	for _, r := range e.Refused {
		if r.From == from {
			return
		}
	}
	e.Refused = append(e.Refused, protocol.Refused{From: from, Why: why})
}

// put stores a record in the journal.
func (e *effects) put(j *protocol.Journal, key []byte, record interface{ MarshalVT() ([]byte, error) }, what string) {
	raw, err := record.MarshalVT()
	if err != nil {
		e.Fault = fmt.Errorf("encode the %s: %w", what, err)
		return
	}
	j.Put(key, raw)
}
