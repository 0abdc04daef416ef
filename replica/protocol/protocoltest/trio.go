package protocoltest

import (
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Starter starts a member from its journal.
type Starter func(protocol.Config, *protocol.Journal) (protocol.Protocol, error)

// Trio is three members without a world, for tests of what their operations allocate: messages are delivered at once,
// batches are durable at once.
type Trio struct {
	Members  [3]protocol.Protocol
	Done     int // operations that ended
	journals [3]*protocol.Journal
	disks    [3]Disk
}

// NewTrio starts three members.
func NewTrio(tb testing.TB, start Starter) *Trio {
	tb.Helper()
	t := &Trio{}
	v := view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for i := range t.Members {
		t.disks[i] = Disk{}
		t.journals[i] = protocol.NewJournal(t.disks[i])
		c := protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Functions: register.NewRegistry(),
			Limits: register.DefaultLimits(),
			Retry:  time.Second, Suspect: time.Minute, Bootstrap: true, Continued: true,
			Nearest: []view.MemberID{view.MemberID((i+1)%3 + 1), view.MemberID((i+2)%3 + 1)},
		}
		m, err := start(c, t.journals[i])
		if err != nil {
			tb.Fatal(err)
		}
		t.Members[i] = m
		t.Turn(i)
	}
	return t
}

// Turn does what a member asks, and what follows from it.
func (t *Trio) Turn(i int) {
	e := t.Members[i].Ready()
	t.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		t.journals[i].Persisted(e.Persist.Sequence)
	}
	t.Done += len(e.Complete) + len(e.CompleteAfterPersist)
	for _, envelopes := range [][]protocol.Envelope{e.Send, e.SendAfterPersist} {
		for _, n := range envelopes {
			t.deliver(i, n.To, n.Message)
		}
	}
}

func (t *Trio) deliver(from int, to view.MemberID, m *peerv1.Message) {
	t.Members[to-1].Receive(view.MemberID(from+1), m)
	t.Turn(int(to - 1))
}
