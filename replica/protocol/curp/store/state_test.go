package store_test

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/curp/store"
	"github.com/georegister/georegister/replica/protocol/protocoltest"
)

// An answer that entries put and delete is not written where they are applied together. If the pages of a copy may have
// brought it, of a moment behind these entries, it is deleted.
func TestAnswersAreUnmade(t *testing.T) {
	const answer = "d\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02"
	for name, through := range map[string]uint64{"of a whole state": 0, "behind a copy": 9} {
		disk := protocoltest.Disk{}
		if through > 0 {
			disk[answer] = []byte{}
		}
		outbox := base.NewOutbox("test", 0, protocol.NewJournal(disk))
		s, _, err := store.New(1, &protocol.Config{}, &outbox)
		if err != nil {
			t.Fatal(err)
		}
		s.Own.Through = through
		s.Append(&peerv1.LogEntry{Term: 1, Index: 1, Records: []*peerv1.Record{{Key: []byte(answer)}}})
		s.Append(&peerv1.LogEntry{Term: 1, Index: 2, Deleted: [][]byte{[]byte(answer)}})
		s.ApplyUpTo(2)
		changes := 0
		for _, m := range outbox.Journal.Take().Mutations {
			if string(m.Key) == answer {
				changes++
			}
		}
		if _, there := outbox.Journal.Get([]byte(answer)); there || through == 0 && changes > 0 {
			t.Errorf("%s: the answer is there: %v, after %d changes", name, there, changes)
		}
	}
}

// An answer may have no bytes: once sent, it is nil, and it is a record all the same.
func TestAnEmptyAnswerIsOne(t *testing.T) {
	const answer = "d\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x02"
	outbox := base.NewOutbox("test", 0, protocol.NewJournal(protocoltest.Disk{}))
	s, _, err := store.New(1, &protocol.Config{}, &outbox)
	if err != nil {
		t.Fatal(err)
	}
	s.Append(&peerv1.LogEntry{Term: 1, Index: 1, Records: []*peerv1.Record{{Key: []byte(answer)}}})
	s.ApplyUpTo(1)
	if _, there := outbox.Journal.Get([]byte(answer)); !there {
		t.Error("it is not there")
	}
}
