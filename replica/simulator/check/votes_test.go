package check

import (
	"testing"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/georegister/georegister/replica/view"
)

// Who leads was voted for on the disk that it has.
func TestALeaderWasVotedFor(t *testing.T) {
	v := &view.View{Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}
	for name, c := range map[string]struct {
		voted  raftMessage
		known  []uint32 // by the voter
		breaks bool
	}{
		"by a quorum":        {raftMessage{kind: raftpb.MsgVoteResp, term: 5}, []uint32{2, 1, 1}, false},
		"on an earlier disk": {raftMessage{kind: raftpb.MsgVoteResp, term: 5}, nil, true},
		"in another term":    {raftMessage{kind: raftpb.MsgVoteResp, term: 4}, []uint32{2, 1, 1}, true},
		"not at all":         {raftMessage{kind: raftpb.MsgVoteResp, term: 5, reject: true}, []uint32{2, 1, 1}, true},
	} {
		var l Logs
		g := l.begin(0)
		if err := g.elects(&Holder{Member: 2, View: v}, 1, c.voted, c.known); err != nil {
			t.Error(err)
		}
		err := g.elects(&Holder{Member: 1, View: v}, 2, raftMessage{kind: raftpb.MsgHeartbeat, term: 5}, []uint32{2, 1, 1})
		if (err != nil) != c.breaks {
			t.Errorf("%s: %v", name, err)
		}
	}
}
