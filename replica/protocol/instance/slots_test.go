package instance

import (
	"bytes"
	"fmt"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
	"github.com/georegister/georegister/replica/register"
)

// settled has what a member has put be durable, and returns all that it asks of the world.
func settled(p *Core, journal *protocol.Journal, disk protocoltest.Disk) protocol.Effects {
	e := p.Ready()
	disk.Write(e.Persist)
	journal.Persisted(e.Persist.Sequence)
	return e
}

// preAccept is the question for votes on the first instance of a writer of a key.
func preAccept(writer register.Writer, key string, args ...byte) *peerv1.Message {
	return &peerv1.Message{Kind: peerv1.Kind_PRE_ACCEPT, Key: []byte(key), Epoch: 1, Instance: &peerv1.Instance{
		Id: &peerv1.InstanceID{Writer: uint64(writer), Number: 1}, Status: peerv1.Status_PRE_ACCEPTED, Alone: true,
		Commands: []*peerv1.Command{{Function: register.Append, Args: [][]byte{args}, MaxValueBytes: 1 << 20}},
	}}
}

func commit(m *peerv1.Message) *peerv1.Message {
	done := m.CloneVT()
	done.Kind, done.Instance.Status = peerv1.Kind_COMMIT, peerv1.Status_COMMITTED
	return done
}

// A slot is used again once its instance is executed, also by the next process, and never before.
func TestSlotsAreUsedAgain(t *testing.T) {
	disk := protocoltest.Disk{}
	journal := protocol.NewJournal(disk)
	p := of(3, 1, journal)
	writer := register.NewWriter(2, 1, 0)
	var all []*peerv1.Message
	for k := range 4 {
		all = append(all, preAccept(writer, fmt.Sprint("k", k), 'x'))
		p.Receive(2, all[k])
	}
	p.Receive(2, commit(all[0]))
	p.Receive(2, commit(all[2]))
	settled(p, journal, disk)
	held := func(slot uint32) string {
		m, err := instanceOf(disk[string(slotKey(slot))], func(any) error { return nil })
		if err != nil {
			t.Fatalf("slot %d: %v", slot, err)
		}
		return string(m.Key)
	}
	for range 2 { // the second one starts from the disk
		p.Receive(2, preAccept(writer, "more", 'x'))
		settled(p, journal, disk)
		if held(2) != "k1" || held(4) != "k3" || (held(1) != "more") == (held(3) != "more") || len(p.slots.free) != 1 ||
			p.slots.made != 4 {
			t.Errorf("the slots have %s, %s, %s and %s, and %d of %d are free", held(1), held(2), held(3), held(4),
				len(p.slots.free), p.slots.made)
		}
		if awaits := p.Awaits([]byte("k0")) || p.Awaits([]byte("k2")); awaits {
			t.Error("what is executed is awaited")
		}
		journal = protocol.NewJournal(disk)
		p = of(3, 1, journal)
	}
	if !p.Awaits([]byte("k1")) || p.Pending() != 3 {
		t.Errorf("%d instances are left, want 3", p.Pending())
	}
}

// What free slots keep on disk is bounded.
func TestFreeSlotsKeepLittle(t *testing.T) {
	disk := protocoltest.Disk{}
	journal := protocol.NewJournal(disk)
	p := of(3, 1, journal)
	writer, value := register.NewWriter(2, 1, 0), bytes.Repeat([]byte("x"), keptBytes)
	var all []*peerv1.Message
	for k := range keptSlots + 3 {
		all = append(all, preAccept(writer, fmt.Sprint("k", k), value...))
		p.Receive(2, all[k])
	}
	settled(p, journal, disk)
	for _, m := range all {
		p.Receive(2, commit(m))
	}
	settled(p, journal, disk)
	slots := 0
	for key, raw := range disk { // order is irrelevant: a count
		if key[0] == instanceRecord {
			slots++
			if len(raw) > 0 {
				t.Errorf("slot %x has %d bytes left", key[1:], len(raw))
			}
		}
	}
	if slots != keptSlots || p.Pending() != 0 {
		t.Errorf("%d slots are left, and %d instances", slots, p.Pending())
	}
	delete(disk, string(slotKey(7)))
	if p = of(3, 1, protocol.NewJournal(disk)); len(p.slots.free) != keptSlots {
		t.Errorf("the next process has %d free slots", len(p.slots.free))
	}
}
