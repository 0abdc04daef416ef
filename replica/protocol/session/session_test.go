package session

import (
	"testing"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
)

// run executes a command on a state as execution does, and reports whether it was new.
func run(state *peerv1.KeyState, c *peerv1.Command, reply []byte) (answer *peerv1.Answer, fresh bool) {
	if a := Recall(state, c); a != nil {
		return a, false
	}
	a := &peerv1.Answer{Present: true, Value: reply}
	Remember(&protocol.Tuning{}, state, c, a)
	return a, true
}

// As many sessions as are kept may take turns on a key, even if all of them came in one millisecond.
func TestSessionsTakeTurns(t *testing.T) {
	state := &peerv1.KeyState{}
	for number := uint64(1); number <= 3; number++ {
		for session := uint64(1); session <= sessionsKept; session++ {
			c := &peerv1.Command{
				Session: session * 0x9e3779b97f4a7c15, Number: number, FirstIncomplete: number,
				IssuedAt: int64(1000 + number),
			}
			if _, fresh := run(state, c, []byte("1")); !fresh {
				t.Fatalf("rmw %d of session %d is taken for a duplicate", number, session)
			}
			if _, fresh := run(state, c, nil); fresh {
				t.Fatalf("the duplicate of rmw %d of session %d is executed", number, session)
			}
		}
	}
}

func TestForgottenSessionsAreNotExecutedAgain(t *testing.T) {
	state := &peerv1.KeyState{}
	command := func(session uint64, at int64) *peerv1.Command {
		return &peerv1.Command{Session: session, Number: 1, FirstIncomplete: 1, IssuedAt: at}
	}
	run(state, command(7, 1000), []byte("1"))
	run(state, command(8, 1000+sessionsKeptFor+1), []byte("2")) // ten minutes later
	if len(state.Sessions) != 1 {
		t.Fatalf("%d sessions are kept, want the later one", len(state.Sessions))
	}
	if a, fresh := run(state, command(7, 1000), nil); fresh || !a.Expired {
		t.Errorf("a forgotten rmw is answered %v, executed again: %v", a, fresh)
	}
	if _, fresh := run(state, command(9, 1000+sessionsKeptFor), nil); !fresh {
		t.Error("a session that is late, but not that late, is refused")
	}
}

// A session with several rmws in progress may be forgotten with one of them, and be known again by another one.
func TestASessionThatComesBackExecutesNothingAgain(t *testing.T) {
	state := &peerv1.KeyState{}
	command := func(session, number uint64, at int64) *peerv1.Command {
		return &peerv1.Command{Session: session, Number: number, FirstIncomplete: 1, IssuedAt: at}
	}
	run(state, command(7, 1, 1000), []byte("1"))
	run(state, command(8, 1, 1001+sessionsKeptFor), []byte("2")) // session 7 is forgotten
	if _, fresh := run(state, command(7, 2, 1002), nil); !fresh {
		t.Fatal("an rmw that was issued after what was forgotten is refused")
	}
	if a, fresh := run(state, command(7, 1, 1000), nil); fresh || !a.Expired {
		t.Errorf("a forgotten rmw of a session that came back is answered %v, executed again: %v", a, fresh)
	}
	if a, fresh := run(state, command(7, 2, 1002), nil); fresh || a.Expired {
		t.Errorf("the duplicate of an rmw that is remembered is answered %v, executed again: %v", a, fresh)
	}
}

func TestAnswersAreBounded(t *testing.T) {
	state := &peerv1.KeyState{}
	large := &peerv1.Command{Session: 7, Number: 1, FirstIncomplete: 1, IssuedAt: 1000}
	run(state, large, make([]byte, answerBytes+1))
	if a, fresh := run(state, large, nil); fresh || !a.Expired {
		t.Errorf("the duplicate of an rmw with a large answer gets %v, executed again: %v", a, fresh)
	}
	for number := uint64(2); number < 10*answersKept; number++ { // the first one is never acknowledged
		run(state, &peerv1.Command{Session: 7, Number: number, FirstIncomplete: 1, IssuedAt: 1000}, []byte("1"))
	}
	if n := len(state.Sessions[0].Done); n != answersKept {
		t.Errorf("a session holds %d answers, want %d", n, answersKept)
	}
	if a, fresh := run(state, large, nil); fresh || !a.Expired {
		t.Errorf("what is past the bound gets %v, executed again: %v", a, fresh)
	}
	for session := uint64(100); session < 1000; session++ {
		run(state, &peerv1.Command{Session: session, Number: 1, FirstIncomplete: 1, IssuedAt: 2000},
			make([]byte, answerBytes))
	}
	size := 0
	for _, s := range state.Sessions {
		size += sizeOf(s)
	}
	if size > allAnswerBytes {
		t.Errorf("sessions hold %d bytes of answers, want at most %d", size, allAnswerBytes)
	}
	many := []*peerv1.Answer{{Value: make([]byte, batchAnswerBytes)}, {Value: []byte("1")}}
	if told := Bounded(many); len(told) != 2 || !told[0].Expired || !told[1].Expired || many[1].Expired {
		t.Errorf("of answers that are too large together, others are told %d", len(told))
	}
}
