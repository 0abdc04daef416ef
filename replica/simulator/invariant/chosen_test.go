package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/view"
)

// What is answered has the votes of a quorum, while members change one of both sides, unless some were cast before
// that.
func TestAnAnswerIsChosen(t *testing.T) {
	grows := &view.View{Cluster: "test", Epoch: 2, Since: 1, Members: []view.Member{
		{ID: 1}, {ID: 2}, {ID: 3}, {ID: 4, Joining: true}, {ID: 5, Joining: true},
	}}
	for name, c := range map[string]struct {
		view    *view.View
		attempt uint64 // 0: of CASPaxos
		votes   []cast
		right   bool
	}{
		"a majority":                  {&three, 1, []cast{{1, 1}, {2, 1}}, true},
		"one":                         {&three, 1, []cast{{1, 1}}, false},
		"both sides":                  {grows, 1, []cast{{1, 2}, {2, 2}, {4, 2}}, true},
		"one side":                    {grows, 1, []cast{{1, 2}, {2, 2}}, false},
		"before the change":           {grows, 1, []cast{{1, 1}, {2, 1}}, true},
		"CASPaxos, both sides":        {grows, 0, []cast{{1, 2}, {2, 2}, {4, 2}}, true},
		"CASPaxos, before the change": {grows, 0, []cast{{1, 1}, {2, 1}, {4, 2}}, false},
	} {
		var r Run
		for _, v := range c.votes {
			record := encoded(t, &peerv1.RMWPaxosRecord{
				Voted:   &peerv1.RMWPaxosRound{N: 5, Proposer: 1, Attempt: c.attempt},
				VotedIn: v.epoch, Timestamp: 7, Writer: 1,
			})
			r.Survives(speaker(v.id), protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(ofKey(acceptors)), Value: record}}})
		}
		s := speaker(1)
		s.View = c.view
		r.rests(s, "k", wire.Carstamp(7, 1, 0))
		if right := r.Broken == nil; right != c.right {
			t.Errorf("%s: %v", name, r.Broken)
		}
	}
}
