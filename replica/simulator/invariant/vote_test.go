package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/view"
)

// A disk tells of a vote in an epoch that it was asked for in that epoch, or of what is chosen.
func TestAVoteWasAskedFor(t *testing.T) {
	vote := func(epoch uint64) protocol.Batch {
		return protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(ofKey(acceptors)), Value: encoded(t,
			&peerv1.RMWPaxosRecord{Ack: round(6), Voted: round(5), VotedIn: epoch})}}}
	}
	asks := &peerv1.Message{
		Kind: peerv1.Kind_PAXOS_VOTE, Key: []byte("k"), Epoch: 1, Timestamp: 8,
		RmwPaxos: &peerv1.RMWPaxos{Round: round(5)},
	}
	promised := disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(5)}}.all(t)
	for name, c := range map[string]struct {
		asked view.MemberID // 0: nobody
		epoch uint64
		disks Disks
		want  string
	}{
		"asked for":                  {2, 1, promised, ""},
		"another one was asked":      {3, 1, promised, "nobody asked it for"},
		"asked for in another epoch": {2, 2, promised, "nobody asked it for"},
		"not asked for":              {0, 1, promised, "nobody asked it for"},
		"copied":                     {0, 0, promised, ""},
		"chosen": {0, 1, func(id view.MemberID) Holder {
			if id == 3 {
				return Holder{Has: disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(6), Voted: round(5)}}.has(t)}
			}
			return promised(id)
		}, ""},
	} {
		var r Run
		if c.asked > 0 {
			r.Hears(speaker(c.asked), 1, asks)
		}
		r.Persists(speaker(2), c.disks, vote(c.epoch))
		expect(t, name, &r, c.want)
	}
}

// A member of Gus that has told a writer that it does not hold its tag does not hold it later, where that is a vote.
func TestWhoRefusesATagNeverHoldsIt(t *testing.T) {
	answer := func(says *peerv1.Gus) *peerv1.Message {
		says.Origin = 4
		return &peerv1.Message{Kind: peerv1.Kind_GUS_WRITE_REPLY, Key: []byte("k"), Timestamp: 4, Writer: 1, Gus: says}
	}
	on := func(disk string) Speaker {
		s := speaker(2)
		s.Disk = disk
		return s
	}
	for name, c := range map[string]struct {
		says *peerv1.Gus
		disk string // that holds it later
		born uint64
		held bool
		want string
	}{
		"refused":                       {&peerv1.Gus{}, "first", 1, true, "does not"},
		"refused, and not held":         {&peerv1.Gus{}, "first", 1, false, ""},
		"refused, on another disk":      {&peerv1.Gus{}, "second", 1, true, ""},
		"refused, of another epoch":     {&peerv1.Gus{}, "first", 0, true, ""},
		"held":                          {&peerv1.Gus{Held: true}, "first", 1, true, ""},
		"forgotten":                     {&peerv1.Gus{Forgotten: true}, "first", 1, true, ""},
		"decided when it was asked for": {&peerv1.Gus{Final: true}, "first", 1, true, ""},
	} { // order is irrelevant: each is a test
		var r Run
		r.refuse(on("first"), answer(c.says))
		w := &peerv1.GusWrite{Origin: 4, Writer: 1, Born: c.born, Held: c.held}
		r.Persists(on(c.disk), disk{}.all(t), protocol.Batch{Mutations: []protocol.Mutation{{
			Key:   []byte(ofKey(undecided)),
			Value: encoded(t, &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: []*peerv1.GusWrite{w}}),
		}}})
		expect(t, name, &r, c.want)
	}
}

// Who takes a write of Gus as news keeps nothing of the former one, which its writer has ended.
func TestWhoTakesAWriteKeepsNoEndedOne(t *testing.T) {
	m := &peerv1.Message{
		Kind: peerv1.Kind_GUS_WRITE, Key: []byte("k"), Timestamp: 9, Writer: 1, Gus: &peerv1.Gus{Origin: 9, Ended: 9},
	}
	kept := &peerv1.GusWrite{Origin: 4, Writer: 1, Born: 1, Held: true, PromisedRound: 1, PromisedProposer: 1, Voted: 5, VotedRound: 1}
	lock := &peerv1.Message{Kind: peerv1.Kind_GUS_LOCK, Key: []byte("k"), Timestamp: 4, Writer: 1, Gus: &peerv1.Gus{Origin: 4}}
	for name, c := range map[string]struct {
		was   uint64 // the register's tag before
		lock  bool
		write *peerv1.GusWrite
		want  string
	}{
		"it is kept":                     {6, false, kept, "which its writer has ended"},
		"it is gone":                     {6, false, &peerv1.GusWrite{Origin: 9, Writer: 1, Born: 1, Held: true}, ""},
		"somebody asked for a ballot":    {6, true, kept, ""},
		"the register was not past it":   {4, false, kept, ""},
		"it is decided":                  {6, false, &peerv1.GusWrite{Origin: 4, Writer: 1, Decided: 5}, ""},
		"the writer is another one":      {6, false, &peerv1.GusWrite{Origin: 4, Writer: 2, Voted: 5}, ""},
		"the WRITE was not news by then": {10, false, kept, ""},
	} { // order is irrelevant: each is a test
		var r Run
		if c.lock {
			r.Leaves(speaker(3), lock, disk{}.all(t))
		}
		r.Takes(speaker(2), m, encoded(t, &peerv1.GusRecord{Timestamp: c.was, Writer: 1}),
			encoded(t, &peerv1.GusRecord{Timestamp: max(c.was, 9), Writer: 1, Writes: []*peerv1.GusWrite{c.write}}))
		expect(t, name, &r, c.want)
	}
}
