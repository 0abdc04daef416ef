package check

import (
	"testing"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// A key takes the requests of a session for over that its client has acknowledged, and those before an answer that was
// one too many.
func TestWhatASessionHasAskedForIsNotOver(t *testing.T) {
	state := func(first, done uint64) []byte {
		raw, err := (&peerv1.KeyState{Sessions: []*peerv1.Session{
			{Session: 7, FirstIncomplete: first, Done: []*peerv1.Done{{Number: done, Answer: &peerv1.Answer{}}}},
		}}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	var q Requests
	q.Asks(register.ID{Session: 7, Number: 4, FirstIncomplete: 4}, "another")
	q.Asks(register.ID{Session: 7, Number: 5, FirstIncomplete: 4}, "k")
	few := &protocol.Tuning{Answers: 1}
	if err := q.Sessions(few, []byte("kk"), nil, state(4, 5)); err != nil {
		t.Errorf("what is acknowledged: %v", err)
	}
	if err := q.Sessions(few, []byte("kk"), state(4, 5), state(5, 5)); err == nil {
		t.Error("a request for another key is over here before it was acknowledged, and nothing is said")
	}
	q.Asks(register.ID{Session: 7, Number: 6, FirstIncomplete: 4}, "k")
	if err := q.Sessions(few, []byte("kk"), state(4, 5), state(6, 6)); err != nil {
		t.Errorf("an answer that is one too many: %v", err)
	}
	q.Asks(register.ID{Session: 7, Number: 7, FirstIncomplete: 4, IssuedAt: 1}, "k")
	if err := q.Sessions(few, []byte("kk"), state(6, 6), state(7, 7)); err == nil {
		t.Error("the state does not know when a request was asked, and nothing is said")
	}
}

// Of the answers of a batch a state keeps few bytes, and sessions no longer than they may be.
func TestStatesAreBounded(t *testing.T) {
	record := func(state *peerv1.KeyState) []byte {
		table, err := state.MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		raw, err := (&peerv1.RMWPaxosRecord{Table: table}).MarshalVT()
		if err != nil {
			t.Fatal(err)
		}
		return raw
	}
	batch := func(sizes ...int) *peerv1.KeyState {
		e := &peerv1.Executed{Id: &peerv1.InstanceID{Writer: 1, Number: 1}}
		for _, n := range sizes {
			e.Answers = append(e.Answers, &peerv1.Answer{Value: make([]byte, n)})
		}
		return &peerv1.KeyState{Executed: []*peerv1.Executed{e}}
	}
	seen := func(first, second int64) *peerv1.KeyState {
		return &peerv1.KeyState{Sessions: []*peerv1.Session{{Session: 7, SeenAt: first}, {Session: 8, SeenAt: second}}}
	}
	answers := func(sizes ...int) *peerv1.KeyState {
		state := seen(1, 1)
		for i, n := range sizes {
			state.Sessions[i].Done = []*peerv1.Done{{Number: 1, Answer: &peerv1.Answer{Value: make([]byte, n)}}}
		}
		return state
	}
	const longest = 16 << 10
	for _, c := range []struct {
		name  string
		state *peerv1.KeyState
		right bool
	}{
		{"the longest answers", batch(longest, longest, longest, longest), true},
		{"a longer one", batch(longest + 1), false},
		{"too many", batch(longest, longest, longest, longest, 1), false},
		{"two sessions", seen(1, 11), true},
		{"one that is too old", seen(1, 12), false},
		{"as many bytes of all sessions as may be", answers(3, 5), true},
		{"more", answers(4, 5), false},
	} {
		var q Requests
		tuning := &protocol.Tuning{SessionsFor: 10 * time.Millisecond, AllAnswerBytes: 8}
		err := q.Sessions(tuning, []byte("pk"), nil, record(c.state))
		if (err == nil) != c.right {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}
