package gryff

import (
	"cmp"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
)

// Bounds on what a key remembers of sessions. Every replica forgets at the same place of the same order, by
// the issue times that the commands carry, never by its own clock.
const (
	sessionsKept    = 256
	sessionKeptMsec = 10 * 60 * 1000
)

// recall returns the answer that a command already got, or nil if it is new. A command that may be a
// duplicate of something forgotten is not executed.
func recall(state *peerv1.KeyState, c *peerv1.Command) *peerv1.Answer {
	if c.Session == 0 {
		return nil
	}
	s := sessionOf(state, c.Session)
	if s == nil {
		if state.Horizon != 0 && c.IssuedAt <= state.Horizon {
			return &peerv1.Answer{Expired: true}
		}
		return nil
	}
	for _, d := range s.Done {
		if d.Number == c.Number {
			return d.Answer
		}
	}
	if c.Number < s.FirstIncomplete {
		return &peerv1.Answer{Expired: true}
	}
	return nil
}

func sessionOf(state *peerv1.KeyState, id uint64) *peerv1.Session {
	for _, s := range state.Sessions {
		if s.Session == id {
			return s
		}
	}
	return nil
}

// remember keeps the answer of a command, and forgets what its client has acknowledged and what is too old.
func remember(state *peerv1.KeyState, c *peerv1.Command, answer *peerv1.Answer) {
	if c.Session == 0 {
		return
	}
	at := slices.IndexFunc(state.Sessions, func(s *peerv1.Session) bool { return s.Session == c.Session })
	if at < 0 {
		at = len(state.Sessions)
		state.Sessions = append(state.Sessions, &peerv1.Session{Session: c.Session})
	}
	old := state.Sessions[at]
	s := &peerv1.Session{
		Session:         c.Session,
		FirstIncomplete: max(old.FirstIncomplete, c.FirstIncomplete),
		SeenAt:          max(old.SeenAt, c.IssuedAt),
		Done:            []*peerv1.Done{{Number: c.Number, Answer: answer}},
	}
	for _, d := range old.Done {
		if d.Number >= s.FirstIncomplete {
			s.Done = append(s.Done, d)
		}
	}
	state.Sessions[at] = s
	forgetSessions(state)
}

func forgetSessions(state *peerv1.KeyState) {
	latest := int64(0)
	for _, s := range state.Sessions {
		latest = max(latest, s.SeenAt)
	}
	old := max(state.Horizon, latest-sessionKeptMsec)
	if len(state.Sessions) > sessionsKept {
		oldest := slices.MinFunc(state.Sessions, func(a, b *peerv1.Session) int {
			return cmp.Or(cmp.Compare(a.SeenAt, b.SeenAt), cmp.Compare(a.Session, b.Session))
		})
		old = max(old, oldest.SeenAt)
	}
	state.Sessions = slices.DeleteFunc(state.Sessions, func(s *peerv1.Session) bool {
		if s.SeenAt > old {
			return false
		}
		state.Horizon = max(state.Horizon, s.SeenAt)
		return true
	})
}
