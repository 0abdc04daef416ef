package check

import (
	"testing"

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
}
