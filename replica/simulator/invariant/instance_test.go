package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// changing is a view in which members 4 and 5 take the place of 2 and 3.
var changing = view.View{Cluster: "test", Epoch: 2, Since: 1, Members: []view.Member{
	{ID: 1}, {ID: 2, Leaving: true}, {ID: 3, Leaving: true}, {ID: 4, Joining: true}, {ID: 5, Joining: true},
}}

// those is the disks of which some members have one, and the others another one.
func those(t *testing.T, d, other disk, ids ...view.MemberID) Disks {
	return func(id view.MemberID) Holder {
		for _, o := range ids {
			if o == id {
				return Holder{Has: d.has(t)}
			}
		}
		return Holder{Has: other.has(t)}
	}
}

func TestVotesForAnInstanceAreAskedForAfterAQuorum(t *testing.T) {
	id := &peerv1.InstanceID{Writer: uint64(register.NewWriter(1, 1, 0)), Number: 1}
	key := string(instanceKey([]byte("k"), id))
	of := func(status peerv1.Status, ballot uint64, agreed bool, deps ...*peerv1.InstanceID) *peerv1.Message {
		return &peerv1.Message{Key: []byte("k"), Epoch: 2, Instance: &peerv1.Instance{
			Id: id, Status: status, Ballot: ballot, AcceptedBallot: ballot, Agreed: agreed, Deps: deps, Commands: []*peerv1.Command{{}},
		}}
	}
	other := &peerv1.InstanceID{Writer: 9, Number: 3}
	const before, asked = peerv1.Status_PRE_ACCEPTED, peerv1.Status_ACCEPTED
	for name, c := range map[string]struct {
		has    *peerv1.Message
		those  []view.MemberID
		agreed []view.MemberID
		asks   *peerv1.Message
		want   string
	}{
		"both sides":                {of(before, 0, false), []view.MemberID{1, 2, 4}, nil, of(asked, 0, false), ""},
		"those before alone":        {of(before, 0, false), []view.MemberID{1, 2, 3}, nil, of(asked, 0, false), "members [4 5]"},
		"all that it depends on":    {of(before, 0, false, other), []view.MemberID{1, 2, 4}, nil, of(asked, 0, false, other), ""},
		"less":                      {of(before, 0, false, other), []view.MemberID{1, 2, 4}, nil, of(asked, 0, false), "know of more"},
		"a recovery of one side":    {of(before, 7, true), []view.MemberID{1, 2, 3}, []view.MemberID{3}, of(asked, 7, false), "members [4 5]"},
		"a recovery that nobody is": {of(before, 7, true), []view.MemberID{1, 2, 4}, nil, of(asked, 7, false), "only 0 members"},
		"a recovery":                {of(before, 7, true), []view.MemberID{1, 2, 4}, []view.MemberID{3}, of(asked, 7, false), ""},
	} {
		var r Run
		for _, member := range append([]view.MemberID{1}, c.agreed...) {
			r.noteInstance(Speaker{ID: member, View: &changing}, []byte(key), encoded(t, of(before, 0, true)))
		}
		c.asks.Kind = peerv1.Kind_ACCEPT
		r.Leaves(Speaker{ID: 2, View: &changing}, c.asks, those(t, disk{key: c.has}, disk{}, c.those...))
		expect(t, name, &r, c.want)
	}
}

func TestADiskDoesNotForgetThatItAgreed(t *testing.T) {
	first := instanceKey([]byte("k"), &peerv1.InstanceID{Writer: 1, Number: 1})
	of := func(agreed bool, since uint64) *peerv1.Message {
		m := instance(peerv1.Status_PRE_ACCEPTED, 0)
		m.Epoch, m.Instance.Agreed = since, agreed
		return m
	}
	for since, want := range map[uint64]string{3: "", 4: "no agreement", 5: "no agreement"} {
		v := three
		v.Since, v.Epoch = 4, 5
		var r Run
		r.Persists(Speaker{ID: 1, View: &v}, disk{string(first): of(true, since)}.all(t), protocol.Batch{
			Mutations: []protocol.Mutation{{Key: first, Value: encoded(t, of(false, since))}},
		})
		expect(t, "agreed", &r, want)
	}
}

// In a joint view what was voted for there is answered once both sides have it; what was before it, with one of them.
func TestAnAnswerInAJointViewRestsOnBothSides(t *testing.T) {
	c := register.Carstamp{Timestamp: 6, Writer: 1}
	has := disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(5), Voted: round(5), Timestamp: 6, Writer: 1}}
	another := disk{ofKey(acceptors): &peerv1.RMWPaxosRecord{Ack: round(5), Voted: round(4), Timestamp: 6, Writer: 2}}
	for name, b := range map[string]struct {
		those []view.MemberID
		epoch uint64 // in which it was voted for
		want  string
	}{
		"both sides":                             {[]view.MemberID{1, 2, 4}, 2, ""},
		"those before alone":                     {[]view.MemberID{1, 2, 3}, 2, "members [4 5]"},
		"those before, and it is of that view":   {[]view.MemberID{1, 2, 3}, 1, ""},
		"another state with as many changes too": {[]view.MemberID{1}, 1, "members [2 3]"},
	} {
		v := changing
		v.Epoch = b.epoch
		var r Run
		r.noteReached(Speaker{ID: 1, View: &v}, []byte(ofKey(acceptors)), encoded(t, has[ofKey(acceptors)]))
		r.Answers(Speaker{ID: 1, View: &changing}, "k", c, those(t, has, another, b.those...))
		expect(t, name, &r, b.want)
	}
}

// A state has at least the seq of what it is after, and what is told of an instance is what its member has.
func TestWhatIsToldOfAnInstance(t *testing.T) {
	id := &peerv1.InstanceID{Writer: uint64(register.NewWriter(1, 1, 0)), Number: 2}
	key := instanceKey([]byte("k"), id)
	record := func(seq uint64, answers ...*peerv1.Answer) []byte {
		raw, err := (&peerv1.KeyState{Seq: seq, Executed: []*peerv1.Executed{{Id: id, Answers: answers}}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var r Run
	r.noteSeq(key, &peerv1.Instance{Id: id, Seq: 4, Commands: []*peerv1.Command{{}}})
	if why := r.seqLacks(recordKey(states, []byte("k")), record(4)); why != "" {
		t.Errorf("the same seq: %s", why)
	}
	if r.seqLacks(recordKey(states, []byte("k")), record(3)) == "" {
		t.Error("nothing said of a lower seq")
	}
	promised, err := (&peerv1.Message{Instance: &peerv1.Instance{Id: id, Ballot: 3}}).MarshalVT()
	if err != nil {
		t.Fatal(err)
	}
	has := func(k []byte) ([]byte, bool) {
		if k[0] == states {
			return record(4, &peerv1.Answer{}), true
		}
		return promised, string(k) == string(key)
	}
	for name, c := range map[string]struct {
		kind   peerv1.Kind
		says   *peerv1.Instance
		breaks bool
	}{
		"refuses with the ballot": {peerv1.Kind_NACK, &peerv1.Instance{Id: id, Ballot: 3}, false},
		"refuses without it":      {peerv1.Kind_NACK, &peerv1.Instance{Id: id}, true},
		"executed, with the answer": {peerv1.Kind_EXECUTED, &peerv1.Instance{Id: id, Answers: []*peerv1.Answer{{}}},
			false},
		"executed, without an answer": {peerv1.Kind_EXECUTED, &peerv1.Instance{Id: id}, true},
	} {
		var r Run
		r.Tells(Speaker{ID: 1}, &peerv1.Message{Kind: c.kind, Key: []byte("k"), Instance: c.says}, has, has)
		if (r.Broken != nil) != c.breaks {
			t.Errorf("%s: %v", name, r.Broken)
		}
	}
}
