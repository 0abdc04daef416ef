package check

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// Commits is what each instance was committed with. Whichever member commits it, in whatever ballot, the commands,
// dependencies, base and seq are the same. Clients would notice a difference only sometimes: a value that spreads as a
// base may hide that a member took the instance for a no-op.
type Commits struct {
	first map[instance]string // never ranged over
}

// instance tells instances of all keys apart.
type instance struct {
	key            string
	writer, number uint64
}

// Note holds a message against the first commit of the same instance, if it is one.
func (c *Commits) Note(m *peerv1.Message) error {
	if m.Kind != peerv1.Kind_COMMIT {
		return nil
	}
	decision := &peerv1.Message{
		Key: m.Key, Timestamp: m.Timestamp, Writer: m.Writer, Rmws: m.Rmws, Present: m.Present, Value: m.Value,
		Instance: &peerv1.Instance{
			Id: m.Instance.GetId(), Deps: m.Instance.GetDeps(), Seq: m.Instance.GetSeq(), Commands: m.Instance.GetCommands(),
		},
	}
	encoded, err := decision.MarshalVT()
	if err != nil {
		return fmt.Errorf("encode a commit: %w", err)
	}
	id := instance{string(m.Key), m.Instance.GetId().GetWriter(), m.Instance.GetId().GetNumber()}
	first, known := c.first[id]
	if c.first == nil {
		c.first = map[instance]string{}
	}
	if !known {
		c.first[id] = string(encoded)
	} else if first != string(encoded) {
		return fmt.Errorf("instance %v#%d of key %q is committed twice, with different attributes", register.Writer(id.writer), id.number, m.Key)
	}
	return nil
}
