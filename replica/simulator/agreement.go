package simulator

import (
	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// instanceName tells instances of all keys apart.
type instanceName struct {
	key            string
	writer, number uint64
}

// agree holds every commit of an instance against the first one: who commits it, in whatever ballot, the
// commands, dependencies, base and seq are the same. Clients would notice a difference only sometimes: a value that
// spreads as a base may hide that a member took the instance for a no-op.
func (w *world) agree(m *peerv1.Message) {
	if m.Kind != peerv1.Kind_COMMIT {
		return
	}
	decision := &peerv1.Message{
		Key: m.Key, Timestamp: m.Timestamp, Writer: m.Writer, Rmws: m.Rmws, Present: m.Present, Value: m.Value,
		Instance: &peerv1.Instance{
			Id: m.Instance.GetId(), Deps: m.Instance.GetDeps(), Seq: m.Instance.GetSeq(), Commands: m.Instance.GetCommands(),
		},
	}
	encoded, err := decision.MarshalVT()
	if err != nil {
		w.Fail("encode a commit: %w", err)
		return
	}
	id := instanceName{string(m.Key), m.Instance.GetId().GetWriter(), m.Instance.GetId().GetNumber()}
	first, known := w.decided[id]
	if !known {
		w.decided[id] = string(encoded)
	} else if first != string(encoded) {
		w.Fail("instance %v#%d of key %q is committed twice, with different attributes", register.Writer(id.writer), id.number, m.Key)
	}
}
