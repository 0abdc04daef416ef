package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// A disk tells of a vote in an epoch that somebody asked for in that epoch, or of what is chosen.
func TestAVoteWasAskedFor(t *testing.T) {
	vote := func(epoch uint64) protocol.Batch {
		return protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(ofKey(acceptors)), Value: encoded(t,
			&peerv1.RMWPaxosRecord{Ack: round(6), Voted: round(5), VotedIn: epoch})}}}
	}
	asks := &peerv1.Message{
		Kind: peerv1.Kind_PAXOS_VOTE, Key: []byte("k"), Timestamp: 8, RmwPaxos: &peerv1.RMWPaxos{Round: round(5)},
	}
	promised := disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(5)}}.all(t)
	for name, c := range map[string]struct {
		asked bool
		epoch uint64
		disks Disks
		want  string
	}{
		"asked for":                  {true, 1, promised, ""},
		"asked for in another epoch": {true, 2, promised, "nobody asked for"},
		"not asked for":              {false, 1, promised, "nobody asked for"},
		"copied":                     {false, 0, promised, ""},
		"chosen": {false, 1, func(id view.MemberID) Holder {
			if id == 3 {
				return Holder{Has: disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(6), Voted: round(5)}}.has(t)}
			}
			return promised(id)
		}, ""},
	} {
		var r Run
		if c.asked {
			r.Leaves(speaker(1), asks, promised)
			r.Broken = nil // of who has promised, which is not asked here
		}
		r.Persists(speaker(2), c.disks, vote(c.epoch))
		expect(t, name, &r, c.want)
	}
}
