package invariant

import (
	"strings"
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// disk is what a member has.
type disk map[string]record

type record interface{ MarshalVT() ([]byte, error) }

func (d disk) has(t *testing.T) Records {
	return func(key []byte) ([]byte, bool) {
		r, ok := d[string(key)]
		if !ok {
			return nil, false
		}
		return encoded(t, r), true
	}
}

// all is all members with one disk.
func (d disk) all(t *testing.T) Disks {
	return func(view.MemberID) Holder { return Holder{Has: d.has(t)} }
}

func encoded(t *testing.T, r record) []byte {
	t.Helper()
	raw, err := r.MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

var three = view.View{Cluster: "test", Epoch: 1, Members: []view.Member{{ID: 1}, {ID: 2}, {ID: 3}}}

func speaker(id view.MemberID) Speaker { return Speaker{ID: id, View: &three} }

func round(n uint64) *peerv1.RMWPaxosRound { return &peerv1.RMWPaxosRound{N: n, Proposer: 1} }

func ofKey(prefix byte) string { return string([]byte{prefix, 'k'}) }

// instance is what a member knows of the first instance of key k.
func instance(status peerv1.Status, ballot uint64) *peerv1.Message {
	return &peerv1.Message{Key: []byte("k"), Epoch: 1, Instance: &peerv1.Instance{
		Id: &peerv1.InstanceID{Writer: 1, Number: 1}, Status: status, Ballot: ballot,
	}}
}

func TestADiskDoesNotGoBack(t *testing.T) {
	first := string(instanceKey([]byte("k"), &peerv1.InstanceID{Writer: 1, Number: 1}))
	write := func(promised uint64) *peerv1.GusRecord {
		return &peerv1.GusRecord{Writes: []*peerv1.GusWrite{{Origin: 4, Writer: 1, PromisedRound: promised}}}
	}
	for name, c := range map[string]struct {
		key          string
		before, then record
		want         string // in why it is broken; empty: it is not
	}{
		"a larger carstamp":    {ofKey(registers), &peerv1.RegisterRecord{Timestamp: 1}, &peerv1.RegisterRecord{Timestamp: 2}, ""},
		"a smaller carstamp":   {ofKey(registers), &peerv1.RegisterRecord{Timestamp: 2}, &peerv1.RegisterRecord{Timestamp: 1}, "carstamp"},
		"a smaller writer":     {ofKey(registers), &peerv1.RegisterRecord{Timestamp: 2, Writer: 2}, &peerv1.RegisterRecord{Timestamp: 2}, "carstamp"},
		"no register":          {ofKey(registers), &peerv1.RegisterRecord{Timestamp: 2}, nil, "carstamp"},
		"a promise":            {ofKey(acceptors), &peerv1.RMWPaxosRecord{Ack: round(3)}, &peerv1.RMWPaxosRecord{Ack: round(3), Voted: round(3)}, ""},
		"no promise":           {ofKey(acceptors), &peerv1.RMWPaxosRecord{Ack: round(3)}, &peerv1.RMWPaxosRecord{Ack: round(2)}, "promise"},
		"a vote above":         {ofKey(acceptors), nil, &peerv1.RMWPaxosRecord{Ack: round(2), Voted: round(3)}, "promise"},
		"an instance":          {first, instance(peerv1.Status_ACCEPTED, 2), instance(peerv1.Status_COMMITTED, 2), ""},
		"a lower ballot":       {first, instance(peerv1.Status_ACCEPTED, 2), instance(peerv1.Status_COMMITTED, 1), "promise"},
		"an instance is lost":  {first, instance(peerv1.Status_ACCEPTED, 2), nil, "state does not have it"},
		"a promise of Gus":     {ofKey(undecided), write(2), write(3), ""},
		"no promise of Gus":    {ofKey(undecided), write(2), write(1), "promise of round 1"},
		"another incarnation":  {"m", &peerv1.MemberRecord{Incarnation: 1}, &peerv1.MemberRecord{Incarnation: 2}, ""},
		"a former incarnation": {"m", &peerv1.MemberRecord{Incarnation: 2}, &peerv1.MemberRecord{Incarnation: 1}, "count"},
		"of no kind":           {"mk", &peerv1.PositionRecord{}, nil, ""},
	} {
		d, m := disk{}, protocol.Mutation{Key: []byte(c.key)}
		if c.before != nil {
			d[c.key] = c.before
		}
		if c.then != nil {
			m.Value = encoded(t, c.then)
		}
		var r Run
		r.Persists(speaker(1), d.all(t), protocol.Batch{Mutations: []protocol.Mutation{m}})
		expect(t, name, &r, c.want)
	}
}

// expect holds the rule that was broken against a part of what people are told; empty: none was.
func expect(t *testing.T, name string, r *Run, want string) {
	t.Helper()
	switch {
	case want == "" && r.Broken != nil:
		t.Errorf("%s: %v", name, r.Broken)
	case want != "" && (r.Broken == nil || !strings.Contains(r.Broken.Error(), want)):
		t.Errorf("%s: got %v, want %q", name, r.Broken, want)
	}
}

func TestAnExecutedInstanceIsInItsKeysState(t *testing.T) {
	first := instanceKey([]byte("k"), &peerv1.InstanceID{Writer: 1, Number: 1})
	state := &peerv1.KeyState{Executed: []*peerv1.Executed{{Id: &peerv1.InstanceID{Writer: 1, Number: 1}}}}
	var r Run
	d := disk{string(first): instance(peerv1.Status_COMMITTED, 0)}
	r.Persists(speaker(1), d.all(t), protocol.Batch{Mutations: []protocol.Mutation{
		{Key: first}, {Key: []byte(ofKey(states)), Value: encoded(t, state)},
	}})
	r.Says(speaker(1), 2, &peerv1.Message{Kind: peerv1.Kind_EXECUTED, Key: []byte("k"), Instance: &peerv1.Instance{
		Id: &peerv1.InstanceID{Writer: 1, Number: 1}},
	}, disk{ofKey(states): state}.has(t))
	expect(t, "executed", &r, "")
}

func TestAMemberSaysWhatItHas(t *testing.T) {
	d := disk{
		ofKey(registers):               &peerv1.RegisterRecord{Timestamp: 4},
		ofKey(acceptors):               &peerv1.RMWPaxosRecord{Ack: round(4), Voted: round(3), VotedIn: 1},
		string([]byte{acceptors, 'l'}): &peerv1.RMWPaxosRecord{Ack: round(4), Voted: round(3)},
		ofKey(undecided): &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: []*peerv1.GusWrite{
			{Origin: 6, Writer: 1, PromisedRound: 2, VotedRound: 1, Voted: 6},
		}},
		string(instanceKey([]byte("k"), &peerv1.InstanceID{Writer: 1, Number: 1})): instance(peerv1.Status_PRE_ACCEPTED, 4),
	}
	about := func(kind peerv1.Kind, i *peerv1.Message) *peerv1.Message {
		i.Kind = kind
		return i
	}
	gus := func(kind peerv1.Kind, origin uint64, g *peerv1.Gus) *peerv1.Message {
		g.Origin = origin
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: origin, Writer: 1, Gus: g}
	}
	paxos := func(kind peerv1.Kind, round, voted *peerv1.RMWPaxosRound) *peerv1.Message {
		return &peerv1.Message{Kind: kind, Key: []byte("k"), RmwPaxos: &peerv1.RMWPaxos{Round: round, Voted: voted}}
	}
	copied := paxos(peerv1.Kind_PAXOS_VOTED, round(3), nil)
	copied.Key = []byte("l")
	register := func(kind peerv1.Kind, timestamp uint64) *peerv1.Message {
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: timestamp}
	}
	unknown, asked := about(peerv1.Kind_EXECUTED, instance(0, 0)), about(peerv1.Kind_EXECUTED, instance(0, 0))
	unknown.Key, asked.Op = []byte("l"), 3
	for name, c := range map[string]struct {
		says *peerv1.Message
		want string
	}{
		"what it has":              {register(peerv1.Kind_READ1_REPLY, 4), ""},
		"a larger carstamp":        {register(peerv1.Kind_READ1_REPLY, 5), "carstamp"},
		"what it need not have":    {register(peerv1.Kind_WRITE1_REPLY, 5), ""},
		"its promise":              {paxos(peerv1.Kind_PAXOS_ACK, round(4), round(3)), ""},
		"a promise":                {paxos(peerv1.Kind_PAXOS_NACK, round(5), nil), "promise"},
		"its vote":                 {paxos(peerv1.Kind_PAXOS_VOTED, round(3), nil), ""},
		"a vote":                   {paxos(peerv1.Kind_PAXOS_VOTED, round(4), nil), "vote"},
		"a state that it copied":   {copied, "from another disk"},
		"an instance's ballot":     {about(peerv1.Kind_PREPARE, instance(0, 4)), ""},
		"a ballot of its own":      {about(peerv1.Kind_PREPARE, instance(0, 5)), "promise"},
		"that it has voted":        {about(peerv1.Kind_PREPARE_OK, instance(peerv1.Status_ACCEPTED, 4)), "status"},
		"what it has voted for":    {about(peerv1.Kind_EXECUTED, instance(0, 0)), ""},
		"what it has not voted on": {unknown, "status"},
		"what it has not executed": {asked, "status"},
		"a final tag":              {gus(peerv1.Kind_GUS_READ, 4, &peerv1.Gus{Final: true, Held: true}), ""},
		"a final tag, not held":    {gus(peerv1.Kind_GUS_READ, 4, &peerv1.Gus{Final: true}), "not that it holds it"},
		"a final answer, not held": {gus(peerv1.Kind_GUS_READ_REPLY, 4, &peerv1.Gus{Final: true}), "not that it holds it"},
		"a final tag of others":    {gus(peerv1.Kind_GUS_READ, 5, &peerv1.Gus{Final: true, Held: true}), "carstamp"},
		"a tag that it voted for":  {gus(peerv1.Kind_GUS_READ, 6, &peerv1.Gus{Held: true}), ""},
		"a tag of others":          {gus(peerv1.Kind_GUS_READ, 7, &peerv1.Gus{Held: true}), "nothing of write"},
		"a promised round": {gus(peerv1.Kind_GUS_LOCK_REPLY, 6, &peerv1.Gus{Round: 2, Voted: 6, VotedRound: 1}),
			""},
		"another round": {gus(peerv1.Kind_GUS_LOCK_REPLY, 6, &peerv1.Gus{Round: 3, Voted: 6, VotedRound: 1}),
			"promise"},
		"another vote": {gus(peerv1.Kind_GUS_LOCK_REPLY, 6, &peerv1.Gus{Round: 2, Voted: 6}),
			"it tells of round 0"},
		"a vote in that round": {gus(peerv1.Kind_GUS_COMMIT, 6, &peerv1.Gus{Round: 2}), "vote"},
	} {
		var r Run
		r.Says(speaker(1), 2, c.says, d.has(t))
		expect(t, name, &r, c.want)
	}
}

// An answer that does not repeat the question claims what the question brought.
func TestAnAnswerSaysWhatWasAsked(t *testing.T) {
	write := &peerv1.Message{Kind: peerv1.Kind_WRITE2, Op: 7, Key: []byte("k"), Timestamp: 4, Present: true}
	reply := &peerv1.Message{Kind: peerv1.Kind_WRITE2_REPLY, Op: 7}
	for timestamp, want := range map[uint64]string{4: "", 3: "carstamp"} {
		var r Run
		r.Leaves(speaker(1), write, nobody)
		r.Says(speaker(2), 1, reply, disk{ofKey(registers): &peerv1.RegisterRecord{Timestamp: timestamp}}.has(t))
		expect(t, "WRITE2_REPLY", &r, want)
	}
}

func nobody(view.MemberID) Holder {
	return Holder{Has: func([]byte) ([]byte, bool) { return nil, false }}
}

func TestANameHasOneValue(t *testing.T) {
	brings := func(kind peerv1.Kind, timestamp uint64, value string) *peerv1.Message {
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: timestamp, Present: true, Value: []byte(value)}
	}
	state := func(n uint64, timestamp uint64, kind peerv1.Kind) *peerv1.Message {
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: timestamp, RmwPaxos: &peerv1.RMWPaxos{Voted: round(n)}}
	}
	elsewhere := brings(peerv1.Kind_WRITE2, 1, "b")
	elsewhere.Key = []byte("l")
	const write, reply = peerv1.Kind_WRITE2, peerv1.Kind_READ1_REPLY
	for name, c := range map[string]struct {
		first, second *peerv1.Message
		want          string
	}{
		"the same":        {brings(write, 1, "a"), brings(reply, 1, "a"), ""},
		"of another key":  {brings(write, 1, "a"), elsewhere, ""},
		"of another name": {brings(write, 1, "a"), brings(reply, 2, "b"), ""},
		"another value":   {brings(write, 1, "a"), brings(reply, 1, "b"), "something else"},
		"no carstamp":     {brings(write, 1, "a"), brings(write, 0, "b"), "no carstamp"},
		"one state":       {state(3, 1, peerv1.Kind_PAXOS_ACK), state(3, 1, peerv1.Kind_PAXOS_STATE), ""},
		"two states":      {state(3, 1, peerv1.Kind_PAXOS_ACK), state(3, 2, peerv1.Kind_PAXOS_STATE), "something else"},
	} {
		var r Run
		r.Leaves(speaker(1), c.first, nobody)
		r.Leaves(speaker(2), c.second, nobody)
		expect(t, name, &r, c.want)
	}
}

func TestAProposalRestsOnAQuorum(t *testing.T) {
	says := func(kind peerv1.Kind, n, timestamp uint64) *peerv1.Message {
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: timestamp, RmwPaxos: &peerv1.RMWPaxos{Round: round(n)}}
	}
	promised := func(n uint64) Disks {
		return func(view.MemberID) Holder {
			return Holder{Has: disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(n)}}.has(t)}
		}
	}
	const ack, vote, voted = peerv1.Kind_PAXOS_ACK, peerv1.Kind_PAXOS_VOTE, peerv1.Kind_PAXOS_VOTED

	var r Run
	r.Leaves(speaker(2), says(ack, 5, 0), nobody)
	r.Leaves(speaker(1), says(vote, 5, 8), promised(5))
	r.Leaves(speaker(2), says(voted, 5, 0), nobody)
	r.Leaves(speaker(1), says(vote, 6, 9), promised(6)) // who voted has granted the next ballot
	r.Leaves(speaker(2), says(voted, 6, 0), nobody)
	r.Leaves(speaker(3), says(voted, 6, 0), nobody)
	r.Leaves(speaker(1), says(vote, 7, 9), promised(7)) // that state again, which a quorum has
	expect(t, "in order", &r, "")
	r.Leaves(speaker(3), says(ack, 9, 0), nobody)
	r.Leaves(speaker(1), says(vote, 9, 8), promised(9))
	expect(t, "less than was chosen", &r, "was chosen")

	r = Run{}
	r.Leaves(speaker(2), says(ack, 5, 0), nobody)
	r.Leaves(speaker(1), says(vote, 5, 8), promised(4))
	expect(t, "without the proposer", &r, "promised")
}

// What follows a chosen state has no less of any member's batches.
func TestAProposalKeepsBatches(t *testing.T) {
	says := func(kind peerv1.Kind, n, batch uint64) *peerv1.Message {
		table := &peerv1.KeyState{Executed: []*peerv1.Executed{{Id: &peerv1.InstanceID{Writer: 7, Number: batch}}}}
		return &peerv1.Message{Kind: kind, Key: []byte("k"), Timestamp: n, RmwPaxos: &peerv1.RMWPaxos{
			Round: round(n), Table: encoded(t, table),
		}}
	}
	for batch, want := range map[uint64]string{3: "", 4: "", 2: "number 2 of", 0: "number 0 of"} {
		promised := disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(9)}}.all(t)
		var r Run
		r.Leaves(speaker(2), says(peerv1.Kind_PAXOS_ACK, 5, 0), nobody)
		r.Leaves(speaker(1), says(peerv1.Kind_PAXOS_VOTE, 5, 3), promised)
		r.Leaves(speaker(2), says(peerv1.Kind_PAXOS_VOTED, 5, 0), nobody)
		r.Leaves(speaker(3), says(peerv1.Kind_PAXOS_VOTED, 5, 0), nobody)
		r.Leaves(speaker(1), says(peerv1.Kind_PAXOS_VOTE, 6, batch), promised)
		expect(t, "the next state", &r, want)
	}
}

func TestAFinalTagRestsOnAQuorum(t *testing.T) {
	undecidedYet := []*peerv1.GusWrite{{Origin: 4, Writer: 1, Held: true}}
	for name, c := range map[string]struct {
		then   *peerv1.GusRecord
		others disk
		want   string
	}{
		"a tag that is not final": {&peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: undecidedYet}, disk{}, ""},
		"at a quorum": {&peerv1.GusRecord{Timestamp: 4, Writer: 1},
			disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: undecidedYet}}, ""},
		"at one member": {&peerv1.GusRecord{Timestamp: 4, Writer: 1}, disk{}, "members [2 3] have less"},
	} {
		own := disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: undecidedYet}}
		var r Run
		r.Persists(speaker(1), func(id view.MemberID) Holder {
			if id == 1 {
				return Holder{Has: own.has(t)}
			}
			return Holder{Has: c.others.has(t)}
		}, protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte(ofKey(undecided)), Value: encoded(t, c.then)}}})
		expect(t, name, &r, c.want)
	}
}

func TestAWriteIsAnsweredWithItsCarstamp(t *testing.T) {
	for name, c := range map[string]struct {
		carstamp register.Carstamp
		has      disk
		want     string
	}{
		"with it":             {register.Carstamp{Timestamp: 1}, disk{ofKey(registers): &peerv1.RegisterRecord{}}, ""},
		"without it":          {register.Carstamp{}, disk{ofKey(undecided): &peerv1.GusRecord{}}, "without a carstamp"},
		"where there is none": {register.Carstamp{}, disk{ofKey(states): &peerv1.KeyState{}}, ""},
	} {
		var r Run
		r.Answered(speaker(1), "k", c.carstamp, c.has.has(t))
		expect(t, name, &r, c.want)
	}
}

func TestAnAnswerRestsOnAQuorum(t *testing.T) {
	disks := func(timestamps ...uint64) Disks {
		return func(id view.MemberID) Holder {
			return Holder{Has: disk{ofKey(registers): &peerv1.RegisterRecord{Timestamp: timestamps[id-1]}}.has(t)}
		}
	}
	for name, c := range map[string]struct {
		disks Disks
		want  string
	}{
		"at a quorum": {disks(4, 5, 1), ""},
		"at a member": {disks(4, 1, 3), "members [2 3] have less"},
		"of no kind":  {nobody, ""},
		"a lost quorum": {func(id view.MemberID) Holder {
			h := disks(4, 1, 3)(id)
			h.Excused = id == 2
			return h
		}, ""},
	} {
		var r Run
		r.Answers(speaker(1), "k", register.Carstamp{Timestamp: 4}, c.disks)
		expect(t, name, &r, c.want)
	}
}

func TestADecisionRestsOnAQuorum(t *testing.T) {
	first := string(instanceKey([]byte("k"), &peerv1.InstanceID{Writer: 1, Number: 1}))
	commit := instance(peerv1.Status_COMMITTED, 0)
	commit.Kind = peerv1.Kind_COMMIT
	final := &peerv1.Message{Kind: peerv1.Kind_GUS_FINAL, Key: []byte("k"), Timestamp: 4, Writer: 1, Gus: &peerv1.Gus{Origin: 4}}
	for name, c := range map[string]struct {
		says        *peerv1.Message
		one, others disk
		want        string
	}{
		"committed": {commit, disk{first: instance(peerv1.Status_COMMITTED, 0)}, disk{first: instance(peerv1.Status_ACCEPTED, 0)}, ""},
		"without votes": {commit, disk{first: instance(peerv1.Status_COMMITTED, 0)},
			disk{first: instance(peerv1.Status_PRE_ACCEPTED, 0)}, "have not agreed"},
		"final":            {final, disk{ofKey(undecided): &peerv1.GusRecord{}}, disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 5}}, ""},
		"final with fewer": {final, disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 5}}, disk{}, "have less"},
	} {
		var r Run
		r.Leaves(speaker(1), c.says, func(id view.MemberID) Holder {
			if id == 1 {
				return Holder{Has: c.one.has(t)}
			}
			return Holder{Has: c.others.has(t)}
		})
		expect(t, name, &r, c.want)
	}
}

func TestAMemberHasWhatItTellsOfATransfer(t *testing.T) {
	d := disk{
		"m":              &peerv1.MemberRecord{Members: []uint32{1, 2, 3}, Known: []uint32{1, 2, 1}},
		ofKey(registers): &peerv1.RegisterRecord{Timestamp: 4},
		ofKey(undecided): &peerv1.GusRecord{Writes: []*peerv1.GusWrite{{Origin: 6, Writer: 1, PromisedRound: 2}}},
	}
	adopted := func(disk uint32) *peerv1.Message {
		return &peerv1.Message{Kind: peerv1.Kind_ADOPT_OK, Known: []uint32{1, disk, 1}}
	}
	page := func(key string, r record) *peerv1.Message {
		return &peerv1.Message{Kind: peerv1.Kind_TRANSFER_PAGE, Transfer: &peerv1.Transfer{
			Records: []*peerv1.Record{{Key: []byte(key), Value: encoded(t, r)}},
		}}
	}
	write := func(promised uint64) *peerv1.GusRecord {
		return &peerv1.GusRecord{Writes: []*peerv1.GusWrite{{Origin: 6, Writer: 1, PromisedRound: promised}}}
	}
	for name, c := range map[string]struct {
		says *peerv1.Message
		want string
	}{
		"a disk":                {adopted(2), ""},
		"a later disk":          {adopted(3), "adopted disk 3 of member 2, and has 2"},
		"a register":            {page(ofKey(registers), &peerv1.RegisterRecord{Timestamp: 4}), ""},
		"a later one":           {page(ofKey(registers), &peerv1.RegisterRecord{Timestamp: 5}), "carstamp"},
		"a promise":             {page(ofKey(undecided), write(2)), ""},
		"a later promise":       {page(ofKey(undecided), write(3)), "a promise of round 2"},
		"what there is none of": {page(string([]byte{registers, 'l'}), &peerv1.RegisterRecord{Timestamp: 5}), "carstamp"},
	} {
		var r Run
		r.Says(speaker(1), 2, c.says, d.has(t))
		expect(t, name, &r, c.want)
	}
}

func TestAnAnswerOfGusIsFinal(t *testing.T) {
	c := register.Carstamp{Timestamp: 6, Writer: 1}
	undecidedSince := func(epoch uint64) disk {
		return disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 6, Writer: 1, Writes: []*peerv1.GusWrite{
			{Origin: 6, Writer: 1, Born: epoch, Held: true},
		}}}
	}
	for name, b := range map[string]struct {
		disk  disk
		final bool // somebody has said so
		want  string
	}{
		"a vote of this view":       {undecidedSince(three.Epoch), false, ""},
		"of another view":           {undecidedSince(7), false, "nobody takes for final"},
		"of another view, and said": {undecidedSince(7), true, ""},
		"final here":                {disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 6, Writer: 1}}, false, ""},
	} {
		var r Run
		if b.final {
			r.noteFinal([]byte("k"), c)
		}
		r.Chosen(speaker(1), "k", c, b.disk.all(t), b.disk.has(t))
		expect(t, name, &r, b.want)
	}
}

func TestAFastCommitRestsOnAFastQuorum(t *testing.T) {
	id := &peerv1.InstanceID{Writer: uint64(register.NewWriter(1, 1, 0)), Number: 1}
	key := string(instanceKey([]byte("k"), id))
	five := three
	five.Members = append(five.Members[:3:3], view.Member{ID: 4}, view.Member{ID: 5})
	of := func(status peerv1.Status, agreed bool) *peerv1.Message {
		return &peerv1.Message{Key: []byte("k"), Epoch: 1, Instance: &peerv1.Instance{Id: id, Status: status, Agreed: agreed}}
	}
	for name, c := range map[string]struct {
		others int // of those that have agreed
		status peerv1.Status
		want   string
	}{
		"all but one have agreed": {3, peerv1.Status_PRE_ACCEPTED, ""},
		"a majority has":          {2, peerv1.Status_PRE_ACCEPTED, "on the fast path, and the disks of only 3"},
		"a majority has accepted": {2, peerv1.Status_ACCEPTED, ""},
	} {
		commit := of(peerv1.Status_COMMITTED, true)
		commit.Kind = peerv1.Kind_COMMIT
		var r Run
		r.Leaves(Speaker{ID: 1, View: &five}, commit, func(id view.MemberID) Holder {
			switch {
			case id == 1:
				return Holder{Has: disk{key: of(peerv1.Status_COMMITTED, true)}.has(t)}
			case int(id) <= 1+c.others:
				return Holder{Has: disk{key: of(c.status, true)}.has(t)}
			}
			return Holder{Has: disk{}.has(t)}
		})
		expect(t, name, &r, c.want)
	}
}

func TestADiskVotesUnderANumberOfItsOwn(t *testing.T) {
	for name, c := range map[string]struct {
		number uint32
		voter  bool
		want   string
	}{
		"another number":            {3, true, ""},
		"the same":                  {2, true, "as disk number 2, as it did on first"},
		"the same without its vote": {2, false, ""},
	} {
		var r Run
		for i, record := range []*peerv1.MemberRecord{{Incarnation: 2, Voter: true}, {Incarnation: c.number, Voter: c.voter}} {
			s := speaker(1)
			s.Disk = []string{"first", "second"}[i]
			r.Persists(s, disk{}.all(t), protocol.Batch{Mutations: []protocol.Mutation{{Key: []byte{own}, Value: encoded(t, record)}}})
		}
		expect(t, name, &r, c.want)
	}
}

func TestAPromiseTellsWhatIsHeld(t *testing.T) {
	d := disk{ofKey(undecided): &peerv1.GusRecord{Timestamp: 4, Writer: 1, Writes: []*peerv1.GusWrite{
		{Origin: 6, Writer: 1, Held: true, PromisedRound: 2},
	}}}
	for held, want := range map[bool]string{true: "", false: "of which it does not tell"} {
		var r Run
		r.Says(speaker(1), 2, &peerv1.Message{
			Kind: peerv1.Kind_GUS_LOCK_REPLY, Key: []byte("k"), Timestamp: 6, Writer: 1,
			Gus: &peerv1.Gus{Origin: 6, Round: 2, Held: held},
		}, d.has(t))
		expect(t, "a promise", &r, want)
	}
}
