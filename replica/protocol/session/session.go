// Package session remembers, in the state of a key, which rmws of which client sessions were executed on it.
package session

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// Bounds on what a key remembers of sessions, unless the tuning of the members has others. Every replica forgets at the
// same place of the same order, by the issue times that the commands carry, never by its own clock.
const (
	sessionsKept     = 1024
	sessionsKeptFor  = 10 * 60 * 1000 // milliseconds
	answersKept      = 64             // of a session that has not acknowledged them
	answerBytes      = 16 << 10       // a larger answer is forgotten: its duplicate is recognised, not answered
	allAnswerBytes   = 4 << 20        // over all sessions of a key
	batchAnswerBytes = 1 << 20        // the same for all answers of an instance together
)

// Forgotten stands for an answer that is not kept.
var Forgotten = &peerv1.Answer{Expired: true}

// Recall returns the answer that a command already got, or nil if it is new. A command that may be a
// duplicate of something forgotten is not executed.
func Recall(state *peerv1.KeyState, c *peerv1.Command) *peerv1.Answer {
	if c.Session == 0 {
		return nil
	}
	if at := sessionAt(state, c.Session); at >= 0 {
		s := state.Sessions[at]
		for _, d := range s.Done {
			if d.Number == c.Number {
				return d.Answer
			}
		}
		if c.Number < s.FirstIncomplete {
			return Forgotten
		}
	}
	// A session that is known may have been forgotten before, with what it had done until then. Issue times are above
	// zero, and so after the horizon of a state that has forgotten none.
	if !after(c.IssuedAt, c.Session, state.Horizon, state.HorizonSession) {
		return Forgotten
	}
	return nil
}

func sessionAt(state *peerv1.KeyState, id uint64) int {
	return slices.IndexFunc(state.Sessions, func(s *peerv1.Session) bool { return s.Session == id })
}

// after orders sessions by when they were last seen; no two are the same.
func after(seenAt int64, session uint64, than int64, thanSession uint64) bool {
	return cmp.Or(cmp.Compare(seenAt, than), cmp.Compare(session, thanSession)) > 0
}

// Execute applies an rmw to a register, of which the next carstamp is given, and remembers its answer. It reports
// whether the value is another one then. The error is that the call can't be applied here, which the answer gives as a
// refusal.
func Execute(
	config *protocol.Config, state *peerv1.KeyState, c *peerv1.Command, v *register.Versioned,
	next register.Carstamp,
) (answer *peerv1.Answer, changed bool, err error) {
	out, err := config.Functions.Apply(v.Value, wire.Call(c))
	changed = out.Refused == "" && out.Changed
	if changed {
		v.Value = out.Next
	}
	v.Carstamp = next
	answer = wire.Answer(register.Versioned{Carstamp: next, Value: out.Reply})
	answer.Refused = out.Refused
	Remember(&config.Tuning, state, c, answer)
	return answer, changed, err
}

// Remember keeps the answer of a command, and forgets what its client has acknowledged and what is too much.
func Remember(t *protocol.Tuning, state *peerv1.KeyState, c *peerv1.Command, answer *peerv1.Answer) {
	if c.Session == 0 {
		return
	}
	old, at := &peerv1.Session{}, sessionAt(state, c.Session)
	if at >= 0 {
		old = state.Sessions[at]
	} else {
		at = len(state.Sessions)
		state.Sessions = append(state.Sessions, nil)
	}
	if len(answer.Value) > cmp.Or(t.AnswerBytes, answerBytes) {
		answer = Forgotten
	}
	s := &peerv1.Session{
		Session:         c.Session,
		FirstIncomplete: max(old.FirstIncomplete, c.FirstIncomplete),
		SeenAt:          max(old.SeenAt, c.IssuedAt),
	}
	done := append(slices.Clone(old.Done), &peerv1.Done{Number: c.Number, Answer: answer})
	slices.SortFunc(done, func(a, b *peerv1.Done) int { return cmp.Compare(a.Number, b.Number) })
	if excess := len(done) - cmp.Or(t.Answers, answersKept); excess > 0 {
		s.FirstIncomplete = max(s.FirstIncomplete, done[excess].Number)
	}
	s.Done = slices.DeleteFunc(done, func(d *peerv1.Done) bool { return d.Number < s.FirstIncomplete })
	state.Sessions[at] = s
	forgetSessions(t, state)
}

// forgetSessions forgets the sessions that were not seen for longest, one by one, until the rest is within
// bounds. What is before the horizon may have been forgotten.
func forgetSessions(t *protocol.Tuning, state *peerv1.KeyState) {
	most, keptFor := cmp.Or(t.Sessions, sessionsKept), cmp.Or(t.SessionsFor.Milliseconds(), sessionsKeptFor)
	mostBytes := cmp.Or(t.AllAnswerBytes, allAnswerBytes)
	latest, bytes := int64(0), 0
	for _, s := range state.Sessions {
		latest = max(latest, s.SeenAt)
		bytes += sizeOf(s)
	}
	for {
		s := slices.MinFunc(state.Sessions, func(a, b *peerv1.Session) int {
			return cmp.Or(cmp.Compare(a.SeenAt, b.SeenAt), cmp.Compare(a.Session, b.Session))
		})
		few := len(state.Sessions) <= most && bytes <= mostBytes
		if len(state.Sessions) == 1 || few && s.SeenAt >= latest-keptFor {
			return
		}
		if after(s.SeenAt, s.Session, state.Horizon, state.HorizonSession) {
			state.Horizon, state.HorizonSession = s.SeenAt, s.Session
		}
		bytes -= sizeOf(s)
		state.Sessions = slices.DeleteFunc(state.Sessions, func(o *peerv1.Session) bool { return o == s })
	}
}

func sizeOf(s *peerv1.Session) int {
	size := 0
	for _, d := range s.Done {
		size += len(d.Answer.GetValue())
	}
	return size
}

// Bounded is what others are told of an instance's answers: a coordinator that executes it knows them all.
func Bounded(answers []*peerv1.Answer) []*peerv1.Answer {
	size := 0
	for _, a := range answers {
		size += len(a.Value)
	}
	if size <= batchAnswerBytes {
		return answers
	}
	return slices.Repeat([]*peerv1.Answer{Forgotten}, len(answers))
}
