package invariant

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
)

// A proposer's new table remembers batches of members of its view alone, with whole carstamps; what others have shown
// before may be of an earlier view.
func TestATableIsOfTheView(t *testing.T) {
	made := func(member uint32, answer *peerv1.Answer) *peerv1.Message {
		author := uint64(register.NewWriter(member, 1, 1))
		table := &peerv1.KeyState{Executed: []*peerv1.Executed{{
			Id: &peerv1.InstanceID{Writer: author, Number: 1}, Answers: []*peerv1.Answer{answer},
		}}}
		return &peerv1.Message{Epoch: 1, Key: []byte("k"), RmwPaxos: &peerv1.RMWPaxos{Table: encoded(t, table)}}
	}
	whole := &peerv1.Answer{Timestamp: 4, Writer: 1}
	for name, c := range map[string]struct {
		m     *peerv1.Message
		known bool
		want  string
	}{
		"of a member":               {made(2, whole), false, ""},
		"of nobody in the view":     {made(9, whole), false, "which the view does not have"},
		"that was shown before":     {made(9, whole), true, ""},
		"an answer of no effect":    {made(2, &peerv1.Answer{Refused: "no"}), false, ""},
		"an answer without a count": {made(2, &peerv1.Answer{Writer: 1}), false, "timestamp 0"},
	} { // order is irrelevant: each is a test
		var r Run
		if c.known {
			r.shows(c.m.Key, c.m.RmwPaxos.Table)
		}
		r.makesTable(speaker(1), c.m)
		expect(t, name, &r, c.want)
	}
}

// A question that says that it brings no value brings none.
func TestWhatIsTheSameIsNotSent(t *testing.T) {
	for value, want := range map[string]string{"": "", "large": "without its value"} { // order is irrelevant
		var r Run
		r.name(speaker(1), &peerv1.Message{Kind: peerv1.Kind_READ1, Key: []byte("k"), Timestamp: 3, Writer: 1, Present: true,
			Same: true, Value: []byte(value)})
		expect(t, value, &r, want)
	}
}
