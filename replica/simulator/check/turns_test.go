package check

import (
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// The same is asked again once Retry is over, and a fetch leaves out what is there.
func TestQuestionsOfATurn(t *testing.T) {
	records := map[string][]byte{}
	applied, err := (&peerv1.RaftApplied{Index: 7}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	records[raftApplied] = applied
	pull := func(above, op uint64, known ...uint32) *peerv1.Message {
		raw, err := (&peerv1.RaftPull{Above: above, Least: 8}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return &peerv1.Message{Kind: peerv1.Kind_RAFT_PULL, Op: op, Known: known, Raft: raw}
	}
	gather := &peerv1.Message{Kind: peerv1.Kind_GATHER, Timestamp: 3}
	for name, c := range map[string]struct {
		says   []*peerv1.Message
		after  time.Duration
		breaks bool
	}{
		"again after Retry":      {[]*peerv1.Message{gather, gather}, time.Second, false},
		"again at the next tick": {[]*peerv1.Message{gather, gather}, time.Second / 4, true},
		"what it lacks":          {[]*peerv1.Message{pull(7, 1)}, 0, false},
		"all":                    {[]*peerv1.Message{pull(0, 1)}, 0, true},
		"what was asked twice":   {[]*peerv1.Message{pull(7, 1), pull(7, 1), pull(7, 2)}, time.Second, false},
		"what was asked once":    {[]*peerv1.Message{pull(7, 1), pull(7, 2)}, time.Second, true},
		"of one without a disk":  {[]*peerv1.Message{pull(7, 1), pull(7, 2, 1, 2)}, time.Second, false},
	} {
		var l Logs
		l.begin(0)
		h := &Holder{Member: 1, Records: records, View: &view.View{Members: []view.Member{{ID: 1}, {ID: 2}}}}
		var broken error
		for i, m := range c.says {
			turn := &Turn{
				Sends: []protocol.Envelope{{To: 2, Message: m}}, Retry: time.Second, Votes: true,
				Tick:    protocol.Instant(time.Duration(i) * c.after),
				Journal: func(key []byte) ([]byte, bool) { raw, there := records[string(key)]; return raw, there },
			}
			if err := l.Turns(h, func() *Turn { return turn }); err != nil {
				broken = err
			}
		}
		if (broken != nil) != c.breaks {
			t.Errorf("%s: %v", name, broken)
		}
	}
}
