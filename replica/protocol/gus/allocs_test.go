package gus_test

import (
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/disktest"
	"github.com/georegister/georegister/replica/protocol/gus"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// trio is three members without a world: messages are delivered at once, batches are durable at once.
type trio struct {
	members  [3]*member.Member
	journals [3]*protocol.Journal
	disks    [3]disktest.Disk
	done     int
}

func newTrio(tb testing.TB) *trio {
	t := &trio{}
	v := view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for i := range t.members {
		t.disks[i] = disktest.Disk{}
		t.journals[i] = protocol.NewJournal(t.disks[i])
		c := protocol.Config{
			Self: view.MemberID(i + 1), View: v, Boot: 1, Functions: register.NewRegistry(), Limits: register.DefaultLimits(),
			Retry: time.Second, Suspect: time.Minute, Bootstrap: true,
			Nearest: []view.MemberID{view.MemberID((i+1)%3 + 1), view.MemberID((i+2)%3 + 1)},
		}
		m, err := member.Start(c, t.journals[i], gus.Factory)
		if err != nil {
			tb.Fatal(err)
		}
		t.members[i] = m
		t.turn(i)
	}
	return t
}

// turn does what a member asks, and what follows from it.
func (t *trio) turn(i int) {
	e := t.members[i].Ready()
	t.disks[i].Write(e.Persist)
	if e.Persist.Sequence != 0 {
		t.journals[i].Persisted(e.Persist.Sequence)
	}
	t.done += len(e.Complete) + len(e.CompleteAfterPersist)
	for _, envelopes := range [][]protocol.Envelope{e.Send, e.SendAfterPersist} {
		for _, n := range envelopes {
			t.deliver(i, n.To, n.Message)
		}
	}
}

func (t *trio) deliver(from int, to view.MemberID, m *peerv1.Message) {
	t.members[to-1].Receive(view.MemberID(from+1), m)
	t.turn(int(to - 1))
}

// What the three members together allocate for an operation stays below a bound; a write has records with an entry, two
// for each member, and all three are told twice.
func TestReadsAndWritesAllocateLittle(t *testing.T) {
	for kind, c := range map[string]struct {
		op   register.Operation
		most float64
	}{
		"read":  {register.Operation{Kind: register.Read, Key: "key"}, 14},
		"write": {register.Operation{Kind: register.Write, Key: "key", Value: register.Value("0123456789abcdef")}, 50},
	} {
		three := newTrio(t)
		now := protocol.Instant(0)
		n := testing.AllocsPerRun(2000, func() {
			now = now.Add(time.Millisecond)
			three.members[0].Tick(now)
			three.members[0].Submit(protocol.Request{Handle: 1, Operation: c.op})
			three.turn(0)
		})
		if three.done != 2001 {
			t.Fatalf("%d operations ended, want 2001", three.done)
		}
		if n >= c.most {
			t.Errorf("a %s makes %.1f allocations", kind, n)
		}
		t.Logf("a %s makes %.1f allocations", kind, n)
		for i := range three.members {
			if pending := three.members[i].Pending(); pending != 0 {
				t.Errorf("member %d has %d operations at rest", i+1, pending)
			}
		}
	}
}
