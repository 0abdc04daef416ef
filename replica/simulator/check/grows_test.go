package check

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// What a disk has less of than before is told, if it is a number that only grows.
func TestWhatOnlyGrows(t *testing.T) {
	encode := func(m interface{ MarshalVT() ([]byte, error) }) []byte {
		raw, err := m.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	for _, c := range []struct {
		key         string
		before, now interface{ MarshalVT() ([]byte, error) }
		partitioned bool
		breaks      bool
	}{
		{raftHard, &peerv1.RaftHard{Term: 4}, &peerv1.RaftHard{Term: 3}, false, true},
		{raftHard, &peerv1.RaftHard{Term: 4, Vote: 2}, &peerv1.RaftHard{Term: 5, Vote: 1}, false, false},
		{"m", &peerv1.MemberRecord{Incarnation: 1, Voter: true}, &peerv1.MemberRecord{Incarnation: 1}, false, true},
		{
			curpOwn, &peerv1.PartitionRecord{Term: 2, NotedTerm: 2}, &peerv1.PartitionRecord{Term: 3, NotedTerm: 1},
			true, true,
		},
		{curpOwn, &peerv1.PartitionRecord{Term: 2, Applied: 9}, &peerv1.PartitionRecord{Term: 3}, true, false},
		{curpOwn, &peerv1.PartitionRecord{WholeTerm: 2}, &peerv1.PartitionRecord{}, true, true},
		{curpOwn, &peerv1.PartitionRecord{WholeTerm: 2}, &peerv1.PartitionRecord{Copying: true}, true, false},
		{curpOwn, &peerv1.PartitionRecord{WholeTerm: 2}, &peerv1.PartitionRecord{Copying: true, WholeTerm: 2}, true,
			true},
		{curpOwn, &peerv1.PartitionRecord{Commit: 2}, &peerv1.PartitionRecord{Copying: true, Commit: 2}, true, true},
		{curpOwn, &peerv1.PartitionRecord{Commit: 3}, &peerv1.PartitionRecord{Commit: 3, Applied: 3}, true, false},
		{curpOwn, &peerv1.PartitionRecord{Through: 3}, &peerv1.PartitionRecord{Applied: 3}, true, false},
		{curpOwn, &peerv1.PartitionRecord{Commit: 3}, &peerv1.PartitionRecord{Applied: 3}, true, true},
		{curpOwn, &peerv1.PartitionRecord{Granted: true}, &peerv1.PartitionRecord{Recovered: 2}, true, false},
		{curpOwn, &peerv1.PartitionRecord{Granted: true}, &peerv1.PartitionRecord{Recovered: 2, Granted: true}, true,
			true},
	} {
		h := Holder{View: &view.View{}, Records: map[string][]byte{c.key: encode(c.before)}}
		b := protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(c.key), Value: encode(c.now)}}}
		if err := h.Grows(c.partitioned, &b); (err != nil) != c.breaks {
			t.Errorf("%v after %v: %v", c.now, c.before, err)
		}
	}
}
