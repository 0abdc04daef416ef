package check

import (
	"encoding/binary"
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// What an entry remembers and forgets is held against the state before it: sessions 1 and 2, with an answer each.
func TestEntriesAreMadeOfTheStateBefore(t *testing.T) {
	encode := func(m interface{ MarshalVT() ([]byte, error) }) []byte {
		raw, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	remembers := func(number, first uint64, deleted ...[]byte) *peerv1.LogEntry {
		s := &peerv1.PartitionSession{FirstIncomplete: first, SeenAt: 30, UsedAt: 8, UsedIn: 1}
		return &peerv1.LogEntry{
			Term: 1, Index: 8, Session: 2, Number: number, Deleted: deleted, Records: []*peerv1.Record{
				{Key: doneKey(2, number)}, {Key: sessionKey(2), Value: encode(s)},
			},
		}
	}
	forgets := func(id uint64) *peerv1.LogEntry {
		return &peerv1.LogEntry{Term: 1, Index: 8, Deleted: [][]byte{sessionKey(id)}}
	}
	q := &Requests{}
	q.Asks(register.ID{Session: 2, Number: 4, FirstIncomplete: 4}, "k")
	q.Asks(register.ID{Session: 2, Number: 6, FirstIncomplete: 4, IssuedAt: 31}, "k")
	for _, c := range []struct {
		name   string
		tuning protocol.Tuning
		synced uint64
		entry  *peerv1.LogEntry
		right  bool
	}{
		{"the next request", protocol.Tuning{}, 7, remembers(4, 4, doneKey(2, 3)), true},
		{"one that was executed", protocol.Tuning{}, 7, remembers(3, 3), false},
		{"one that drops an answer that is not there", protocol.Tuning{}, 7, remembers(4, 4, doneKey(2, 2)), false},
		{"one that acknowledges too much", protocol.Tuning{}, 7, remembers(5, 5), false},
		{"one that keeps too much", protocol.Tuning{Answers: 1}, 7, remembers(4, 3), false},
		{"one that was asked later than it says", protocol.Tuning{}, 7, remembers(6, 4, doneKey(2, 3)), false},
		{"too many sessions", protocol.Tuning{Sessions: 1}, 7, forgets(1), true},
		{"the later of them", protocol.Tuning{Sessions: 1}, 7, forgets(2), false},
		{"not too many", protocol.Tuning{Sessions: 2}, 7, forgets(1), false},
		{"one that was not seen for long", protocol.Tuning{SessionsFor: 5 * time.Millisecond}, 7, forgets(1), true},
		{"what is not synced", protocol.Tuning{Sessions: 1}, 3, forgets(1), false},
	} {
		h := &Holder{
			Member: 1, View: &view.View{Partitions: []view.Partition{{Term: 1, Master: 1}}},
			Records: map[string][]byte{
				string(sessionKey(1)): encode(&peerv1.PartitionSession{FirstIncomplete: 1, SeenAt: 10, UsedAt: 4}),
				string(sessionKey(2)): encode(&peerv1.PartitionSession{FirstIncomplete: 2, SeenAt: 20, UsedAt: 5}),
				string(doneKey(1, 1)): {}, string(doneKey(2, 3)): {},
			},
		}
		own := &peerv1.PartitionRecord{Term: 1, Applied: 7, Commit: c.synced}
		entry := binary.BigEndian.AppendUint64([]byte{curpEntry}, 8)
		b := &protocol.Batch{Mutations: []protocol.Mutation{
			{Key: []byte(curpOwn), Value: encode(own)}, {Key: entry, Value: encode(c.entry)},
		}}
		if err := h.Makes(&c.tuning, q, b); (err == nil) != c.right {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// Once a master has looked, it remembers no more sessions than it may, and none that was not seen for too long.
func TestSessionsAreLookedAt(t *testing.T) {
	h := &Holder{Records: map[string][]byte{}}
	for id := range uint64(3) {
		raw, err := (&peerv1.PartitionSession{SeenAt: 10 * int64(id+1), UsedAt: id + 1}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		h.Records[string(sessionKey(id+1))] = raw
	}
	for _, c := range []struct {
		tuning protocol.Tuning
		synced uint64
		right  bool
	}{
		{protocol.Tuning{Sessions: 3}, 3, true},
		{protocol.Tuning{Sessions: 2}, 3, false},
		{protocol.Tuning{Sessions: 2}, 2, true},
		{protocol.Tuning{Sessions: 3, SessionsFor: 15 * time.Millisecond}, 3, false},
		{protocol.Tuning{Sessions: 3, SessionsFor: 15 * time.Millisecond}, 2, true},
	} {
		if err := h.Looked(&c.tuning, c.synced); (err == nil) != c.right {
			t.Errorf("%d sessions for %v, and %d is synced: %v", c.tuning.Sessions, c.tuning.SessionsFor, c.synced, err)
		}
	}
}
