package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// Who asks has a reason to.
func TestWhoAsksHasAReason(t *testing.T) {
	const read, prepare, vote = peerv1.Kind_PAXOS_READ, peerv1.Kind_PAXOS_PREPARE, peerv1.Kind_PAXOS_VOTE
	says := func(kind peerv1.Kind, op uint64, try uint32) *peerv1.Message {
		p := &peerv1.RMWPaxos{Round: round(1), Try: try}
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Op: op, RmwPaxos: p}
	}
	state := func(try uint32, voted uint64) *peerv1.Message {
		return &peerv1.Message{Kind: peerv1.Kind_PAXOS_STATE, Key: []byte("k"), Op: 1, RmwPaxos: &peerv1.RMWPaxos{
			Round: round(1), Try: try, Voted: attempt(voted, 1), VotedIn: 1,
		}}
	}
	answers := func(all ...*peerv1.Message) []*peerv1.Message { return all }
	nack := &peerv1.Message{Kind: peerv1.Kind_PAXOS_NACK, Key: []byte("k"), Op: 1, RmwPaxos: &peerv1.RMWPaxos{}}
	for name, c := range map[string]struct {
		first *peerv1.Message
		hears []*peerv1.Message // of members 2 and 3, each in a turn of its own
		asks  *peerv1.Message
		idle  bool // nobody has asked for an update
		want  string
	}{
		"no number":       {nil, nil, says(read, 0, 0), false, "under no number"},
		"an update":       {nil, nil, says(prepare, 1, 0), false, ""},
		"no update":       {nil, nil, says(prepare, 1, 0), true, "nobody has updated"},
		"a vote again":    {says(vote, 1, 0), nil, says(vote, 1, 0), false, ""},
		"a refused vote":  {says(vote, 1, 0), answers(nack, nack), says(vote, 1, 0), false, "has refused it"},
		"no answer":       {says(read, 1, 1), nil, says(read, 1, 2), false, "only members []"},
		"something else":  {says(read, 1, 1), answers(state(1, 4)), says(read, 1, 2), false, ""},
		"what is chosen":  {says(read, 1, 1), answers(state(1, 4), state(1, 4)), says(read, 1, 2), false, "is chosen"},
		"different votes": {says(read, 1, 1), answers(state(1, 4), state(1, 5)), says(read, 1, 2), false, ""},
	} {
		var r Run
		s := speaker(1)
		s.Intact, s.Retry = true, 1
		turn := func(m *peerv1.Message) {
			e := &protocol.Effects{}
			if m != nil {
				e.Send = []protocol.Envelope{{To: 2, Message: m}, {To: 3, Message: m}}
			}
			r.Turns(s, e, disk{}.has(t))
		}
		if !c.idle {
			r.Updates("k")
		}
		turn(c.first)
		for i, m := range c.hears {
			if i > 0 {
				turn(nil)
			}
			r.Hears(s, three.Members[i+1].ID, m)
		}
		turn(c.asks)
		expect(t, name, &r, c.want)
	}
}
