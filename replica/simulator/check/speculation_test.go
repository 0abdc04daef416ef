package check

import (
	"encoding/binary"
	"testing"

	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// An answer before the commit rests on a recovery of its term, and on no other command of its key that is not executed.
func TestAnswersBeforeTheCommit(t *testing.T) {
	author := uint64(register.NewWriter(2, 1, 1))
	command := func(number uint64, key string) *peerv1.RaftCommand {
		return &peerv1.RaftCommand{Author: author, Number: number, Key: []byte(key)}
	}
	for _, c := range []struct {
		served uint64
		before *peerv1.RaftCommand
		breaks bool
	}{
		{5, command(1, "other"), false},
		{5, command(1, "k"), true},
		{4, command(1, "other"), true},
	} {
		records := map[string][]byte{}
		applied, err := (&peerv1.RaftApplied{Index: 7, Served: c.served}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		records[raftApplied] = applied
		for i, each := range []*peerv1.RaftCommand{c.before, command(2, "k")} {
			data, err := (&peerv1.RaftEntry{Commands: []*peerv1.RaftCommand{each}}).MarshalVT()
			if err != nil {
				t.Fatal(err)
			}
			index := uint64(8 + i)
			raw, err := proto.Marshal(&raftpb.Entry{Term: proto.Uint64(5), Index: &index, Data: data})
			if err != nil {
				t.Fatal(err)
			}
			records[string(binary.BigEndian.AppendUint64([]byte{raftEntry}, index))] = raw
		}
		journal := func(key []byte) ([]byte, bool) { raw, there := records[string(key)]; return raw, there }
		m := &peerv1.Message{Kind: peerv1.Kind_SPECULATED, Op: 2, Timestamp: 5}
		if err := rests(journal, view.MemberID(2), m); (err != nil) != c.breaks {
			t.Errorf("behind %v, after the recovery of term %d: %v", c.before, c.served, err)
		}
	}
}
