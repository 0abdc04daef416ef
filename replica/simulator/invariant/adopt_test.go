package invariant

import (
	"bytes"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// numbered is one of CASPaxos, and attempt one of RMWPaxos.
func numbered(n, proposer uint64) *peerv1.RMWPaxosRound {
	return &peerv1.RMWPaxosRound{N: n, Proposer: proposer}
}

func attempt(n, proposer uint64) *peerv1.RMWPaxosRound {
	return &peerv1.RMWPaxosRound{N: n, Proposer: proposer, Attempt: 1}
}

// A page is taken in whole: what another member has promised and accepted is not less here, and what was here neither.
func TestAPageIsTakenIn(t *testing.T) {
	acceptor := func(ack, voted *peerv1.RMWPaxosRound) *peerv1.RMWPaxosRecord {
		return &peerv1.RMWPaxosRecord{Ack: ack, Voted: voted}
	}
	for name, c := range map[string]struct {
		before, page, has record
		want              string
	}{
		"both": {acceptor(numbered(5, 1), nil), acceptor(numbered(4, 1), numbered(4, 1)),
			acceptor(numbered(5, 1), numbered(4, 1)), ""},
		"not what was here": {acceptor(numbered(5, 1), nil), acceptor(numbered(4, 1), numbered(4, 1)),
			acceptor(numbered(4, 1), numbered(4, 1)), "a promise of ballot 4"},
		"not the page's state": {acceptor(numbered(5, 1), nil), acceptor(numbered(4, 1), numbered(4, 1)),
			acceptor(numbered(5, 1), nil), "a vote in ballot 0"},
		"the lower proposer": {acceptor(numbered(5, 1), nil), acceptor(numbered(5, 2), nil),
			acceptor(numbered(5, 1), nil), "a promise of ballot 5"},
		"the higher proposer": {acceptor(numbered(5, 1), nil), acceptor(numbered(5, 2), nil),
			acceptor(numbered(5, 2), nil), ""},
		"one of two rounds": {acceptor(attempt(5, 1), nil), acceptor(attempt(5, 2), nil), acceptor(attempt(5, 2), nil),
			"a promise of ballot 5"},
		"neither of them": {acceptor(attempt(5, 1), nil), acceptor(attempt(5, 2), nil), acceptor(numbered(5, 0), nil), ""},
	} {
		key := []byte(ofKey(acceptors))
		var r Run
		r.Adopts(speaker(1), &peerv1.Record{Key: key, Value: encoded(t, c.page)}, encoded(t, c.before),
			disk{string(key): c.has}.has(t))
		expect(t, name, &r, c.want)

		r = Run{}
		r.Persists(speaker(1), disk{string(key): c.before}.all(t), protocol.Batch{Mutations: []protocol.Mutation{
			{Key: key, Value: encoded(t, c.has)},
		}})
		again := bytes.Equal(encoded(t, c.has), encoded(t, c.before))
		if lost := again || name == "not what was here" || name == "one of two rounds"; lost != (r.Broken != nil) {
			t.Errorf("%s, and becomes durable: %v", name, r.Broken)
		}
	}
}

// What a page brings is a copy, and no vote.
func TestACopyIsNoVote(t *testing.T) {
	key := ofKey(acceptors)
	for epoch, want := range []string{"", "its own vote of epoch 1"} {
		var r Run
		page := &peerv1.RMWPaxosRecord{Ack: round(5), Voted: round(5), VotedIn: 1}
		has := disk{key: &peerv1.RMWPaxosRecord{Ack: round(5), Voted: round(5), VotedIn: uint64(epoch)}}
		r.Adopts(speaker(1), &peerv1.Record{Key: []byte(key), Value: encoded(t, page)}, nil, has.has(t))
		expect(t, "a copy", &r, want)
	}
}

// A page may tell of a write what the member has less of: it has no less from then on.
func TestAPageOfUndecidedWritesIsTakenInWhole(t *testing.T) {
	key := ofKey(undecided)
	write := func(promised uint64, decided bool) *peerv1.GusRecord {
		w := &peerv1.GusWrite{Origin: 4, Writer: 1, PromisedRound: promised}
		if decided {
			w.Decided = 4
		}
		return &peerv1.GusRecord{Writes: []*peerv1.GusWrite{w}}
	}
	open := &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: write(1, false).Writes}
	final := &peerv1.GusRecord{Timestamp: 4, Writer: 1}
	for name, c := range map[string]struct {
		before, page, has record
		want              string
	}{
		"what is final here":         {final, open, final, ""},
		"which is open again":        {final, open, open, "not final"},
		"what is final there":        {open, final, final, ""},
		"which stays open":           {open, final, open, "not final"},
		"a higher promise":           {write(1, false), write(2, false), write(2, false), ""},
		"which is left out":          {write(1, false), write(2, false), write(1, false), "a promise of round 1"},
		"a lower one":                {write(2, false), write(1, false), write(2, false), ""},
		"which takes the own away":   {write(2, false), write(1, false), write(1, false), "a promise of round 1"},
		"it is decided in the page":  {write(2, false), write(1, true), write(1, true), ""},
		"which is left out too":      {write(2, false), write(1, true), write(2, false), "undecided"},
		"the write is ended by then": {write(2, false), write(3, false), &peerv1.GusRecord{Timestamp: 5, Writer: 1}, ""},
	} { // order is irrelevant: each is a test
		var r Run
		r.Adopts(speaker(1), &peerv1.Record{Key: []byte(key), Value: encoded(t, c.page)}, encoded(t, c.before),
			disk{key: c.has}.has(t))
		expect(t, name, &r, c.want)
	}
}

// Who is asked about a write that is decided says so.
func TestADecisionIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		says    *peerv1.Gus
		decided uint64
		want    string
	}{
		"it is not decided": {&peerv1.Gus{Origin: 4}, 0, ""},
		"it is told":        {&peerv1.Gus{Origin: 4, Final: true}, 4, ""},
		"it is over":        {&peerv1.Gus{Origin: 4, Forgotten: true}, 4, ""},
		"another write":     {&peerv1.Gus{Origin: 5}, 4, ""},
		"it is not told":    {&peerv1.Gus{Origin: 4}, 4, "does not say that it is decided"},
	} { // order is irrelevant: each is a test
		for _, kind := range []peerv1.Kind{peerv1.Kind_GUS_WRITE_REPLY, peerv1.Kind_GUS_LOCK_REPLY} {
			var r Run
			w := &peerv1.GusWrite{Origin: 4, Writer: 1, Decided: c.decided}
			has := disk{ofKey(undecided): &peerv1.GusRecord{Writes: []*peerv1.GusWrite{w}}}
			m := &peerv1.Message{Kind: kind, Key: []byte(ofKey(undecided)[1:]), Writer: 1, Gus: c.says}
			r.SaysDecided(speaker(1), m, has.has(t))
			expect(t, name, &r, c.want)
		}
	}
}
