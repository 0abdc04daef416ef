package instance

import (
	"bytes"
	"slices"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// keep does what a step of the core asks of its disk.
func keep(disk protocoltest.Disk, p *Core, journal *protocol.Journal) protocol.Effects {
	e := p.Ready()
	disk.Write(e.Persist)
	if e.Persist.Sequence != 0 {
		journal.Persisted(e.Persist.Sequence)
	}
	return e
}

// about3 is a message of an instance of member 3: its first one, which depends on the first of member 2.
func about3(kind peerv1.Kind) *peerv1.Message {
	return &peerv1.Message{
		Kind: kind, Key: []byte("k"), Op: 1<<56 | 1<<40 | 1,
		Instance: &peerv1.Instance{
			Id:       &peerv1.InstanceID{Writer: uint64(register.NewWriter(3, 1, 0)), Number: 1},
			Status:   peerv1.Status_PRE_ACCEPTED,
			Deps:     []*peerv1.InstanceID{{Writer: uint64(register.NewWriter(2, 1, 0)), Number: 1}},
			Commands: []*peerv1.Command{{Function: register.Append, Args: [][]byte{[]byte("y")}, MaxValueBytes: 100}},
			Seq:      2,
		},
	}
}

// busy is a member of three with an instance of its own in progress, and one of member 3 that is committed and waits.
func busy(t *testing.T) (*Core, *protocol.Journal, protocoltest.Disk) {
	disk := protocoltest.Disk{}
	journal := protocol.NewJournal(disk)
	p := of(3, 1, journal)
	p.Submit(appends(1, 0))
	p.Receive(3, about3(peerv1.Kind_COMMIT))
	if e := keep(disk, p, journal); e.Fault != nil || len(disk) != 2 {
		t.Fatalf("%v, %d records", e.Fault, len(disk))
	}
	return p, journal, disk
}

// again starts a member from what is on disk.
func again(disk protocoltest.Disk) protocol.Effects {
	return of(3, 2, protocol.NewJournal(disk)).Ready()
}

// FuzzReceive throws two messages at a member in the midst of things. It must not panic, must ask no one but the
// others, and must be able to read what it wrote. A function that it does not know is a fault.
func FuzzReceive(f *testing.F) {
	encode := func(m *peerv1.Message) []byte {
		raw, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		return raw
	}
	state := &peerv1.KeyState{
		Count: 3, Executed: []*peerv1.Executed{{Id: about3(0).Instance.Id, Answers: []*peerv1.Answer{{}}}},
	}
	for kind := range peerv1.Kind_name { // order is irrelevant: they are seeds
		m := about3(peerv1.Kind(kind))
		own := m.CloneVT()
		own.Instance.Id.Writer, own.Instance.Agreed = uint64(register.NewWriter(1, 1, 0)), true
		f.Add(uint8(3), encode(m), encode(own))
		m.Instance.Ballot, m.Instance.Status, m.Instance.State = 1<<16|3, peerv1.Status_ACCEPTED, state
		f.Add(uint8(2), encode(own), encode(m))
	}
	f.Fuzz(func(t *testing.T, from uint8, first, second []byte) {
		p, journal, disk := busy(t)
		for step, raw := range [][]byte{first, second} {
			m := &peerv1.Message{}
			if m.UnmarshalVT(raw) != nil {
				return
			}
			p.Receive(view.MemberID(2+from%2), m)
			p.Tick(protocol.Instant(step) << 40) // from then to long after everything was due
			e := keep(disk, p, journal)
			for _, s := range slices.Concat(e.Send, e.SendAfterPersist) {
				if s.To != 2 && s.To != 3 {
					t.Fatalf("sends %v to %d", s.Message, s.To)
				}
			}
		}
		if e := again(disk); e.Fault != nil {
			t.Errorf("can't read what it wrote: %v", e.Fault)
		}
	})
}

// FuzzRecords gives a member a record, from another one and from its own disk. What is damaged is a fault, never a
// panic, and what was taken over can be read again.
func FuzzRecords(f *testing.F) {
	writer := register.NewWriter(3, 1, 0)
	key := append([]byte{instanceRecord}, make([]byte, 16)...)
	for _, status := range []peerv1.Status{
		peerv1.Status_HEARD, peerv1.Status_PRE_ACCEPTED, peerv1.Status_ACCEPTED, peerv1.Status_COMMITTED,
	} {
		m := about3(0)
		m.Instance.Status = status
		raw, err := m.MarshalVT()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(append(key, 'k'), raw)
		f.Add(append(key, 'k'), raw[:len(raw)-3])
	}
	state, err := (&peerv1.KeyState{
		Count: 2, Seq: 3,
		Previous: &peerv1.RegisterRecord{Present: true, Value: []byte("y"), Timestamp: 1, Writer: uint64(writer)},
		Executed: []*peerv1.Executed{{Id: &peerv1.InstanceID{Writer: uint64(writer), Number: 2}, Reads: 1}, {}},
		Sessions: []*peerv1.Session{{}},
	}).MarshalVT()
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte("sk"), state)
	f.Add([]byte("sk"), state[1:])
	f.Add([]byte{instanceRecord}, []byte{})
	f.Fuzz(func(t *testing.T, key, value []byte) {
		p, journal, disk := busy(t)
		p.Adopt(bytes.Clone(key), bytes.Clone(value))
		p.Receive(2, about3(peerv1.Kind_PREPARE))
		p.Tick(1 << 40)
		if e := keep(disk, p, journal); e.Fault == nil {
			if e := again(disk); e.Fault != nil {
				t.Errorf("can't read what it took over: %v", e.Fault)
			}
		}
		if len(key) > 0 {
			disk[string(key)] = value
			p := of(3, 2, protocol.NewJournal(disk))
			p.Receive(2, about3(peerv1.Kind_PREPARE))
			p.Tick(1 << 40)
			p.Ready()
		}
	})
}
