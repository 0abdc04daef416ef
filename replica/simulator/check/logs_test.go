package check

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/view"
	"go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// The entries that a leader appends name its epoch, in a message in which they are new; later they may be of another.
func TestAnEntryNamesItsEpoch(t *testing.T) {
	message := func(term, of, epoch uint64) raftMessage {
		data, err := (&peerv1.RaftEntry{Epoch: epoch, Recovered: true}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		e := &raftpb.Entry{Index: new(uint64(1)), Term: &of, Data: data}
		raw, err := proto.Marshal(&raftpb.Message{Entries: []*raftpb.Entry{e}})
		if err != nil {
			t.Fatal(err)
		}
		return raftMessage{kind: raftpb.MsgApp, term: term, epoch: 2, raw: raw}
	}
	for name, c := range map[string]struct {
		r  raftMessage
		ok bool
	}{
		"its own":                 {message(3, 3, 2), true},
		"none":                    {message(3, 3, 0), false},
		"an earlier one":          {message(3, 3, 1), false},
		"of a former leader, too": {message(3, 1, 1), true},
	} { // order is irrelevant: each is a test
		var l Logs
		if err := l.begin(0).appends(c.r); (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestWhoHasSettledIsAfterAnEntryOfItsView(t *testing.T) {
	for epoch, ok := range []bool{false, false, true, true} {
		raw, err := (&peerv1.RaftApplied{Index: 7, Epoch: uint64(epoch)}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		var l Logs
		h := &Holder{View: &view.View{Epoch: 2}, Records: map[string][]byte{raftApplied: raw}}
		if err := l.Settles(h); err != nil {
			t.Errorf("where there is no log: %v", err)
		}
		l.begin(0)
		if err := l.Settles(h); (err == nil) != ok {
			t.Errorf("epoch %d: %v", epoch, err)
		}
	}
}
