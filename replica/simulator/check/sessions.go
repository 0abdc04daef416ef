package check

import (
	"cmp"
	"fmt"
	"slices"

	"google.golang.org/protobuf/proto"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/register"
)

// The first bytes of the keys of records that hold the state of a key, with what it remembers of sessions: of the
// protocols with instances, of Raft, and, beside what an acceptor has promised, of RMWPaxos and CASPaxos.
const (
	instanceState = 's'
	raftState     = 'k'
	paxosState    = 'p'
)

// Sessions holds the state of a key that a member stores against the one before it on its disk: it remembers no
// more sessions and answers than it may, nor longer ones, and those of the latest; of what it forgets, it knows that it
// may have been there; and what a request was answered stays the answer.
// Of a session it takes no request for over that came before what its client has acknowledged and what is too much.
func (q *Requests) Sessions(t *protocol.Tuning, key, before, after []byte) error {
	if len(key) == 0 || after == nil {
		return nil
	}
	old, state := &peerv1.KeyState{}, stateOf(key[0], after)
	if state == nil {
		return nil // it is of another protocol
	}
	if key[0] != paxosState && old.UnmarshalVT(before) != nil {
		return nil
	}
	if key[0] == paxosState {
		if err := keepsFew(t, state); err != nil {
			return fmt.Errorf("the state of key %q: %w", key[1:], err)
		}
	}
	if err := remembers(t, state); err != nil {
		return fmt.Errorf("the state of key %q: %w", key[1:], err)
	}
	if err := forgets(t, old, state); err != nil {
		return fmt.Errorf("the state of key %q: %w", key[1:], err)
	}
	for _, s := range state.Sessions {
		earlier := uint64(0)
		if i := slices.IndexFunc(old.Sessions, func(o *peerv1.Session) bool { return o.Session == s.Session }); i >= 0 {
			earlier = old.Sessions[i].FirstIncomplete
		}
		if err := q.over(s, earlier, string(key[1:])); err != nil {
			return fmt.Errorf("the state of key %q: %w", key[1:], err)
		}
		for _, d := range s.Done {
			if err := q.sees(s.Session, d.Number, s.SeenAt); err != nil {
				return fmt.Errorf("the state of key %q: %w", key[1:], err)
			}
		}
	}
	return nil
}

// stateOf reads the state of a key in a record, by the first byte of the record's key; nil: there is none.
func stateOf(kind byte, record []byte) *peerv1.KeyState {
	state := &peerv1.KeyState{}
	if kind == paxosState {
		var r peerv1.RMWPaxosRecord
		if r.UnmarshalVT(record) != nil {
			return nil
		}
		record = r.Table
	}
	if state.UnmarshalVT(record) != nil {
		return nil
	}
	return state
}

// Forgotten reports whether a disk has a state of a key that may have forgotten the answer to a request: it is over, or
// was too long to be kept, or its session may have been forgotten since.
func Forgotten(id register.ID, key string, has func(key []byte) ([]byte, bool)) bool {
	for _, kind := range []byte{instanceState, raftState, paxosState} {
		record, _ := has(append([]byte{kind}, key...))
		state := stateOf(kind, record)
		if state == nil {
			continue
		}
		horizon := seen{state.Horizon, state.HorizonSession}
		if state.Horizon != 0 && (seen{id.IssuedAt, id.Session}).compare(horizon) <= 0 {
			return true
		}
		for _, s := range state.Sessions {
			long := func(d *peerv1.Done) bool { return d.Number == id.Number && d.Answer.GetExpired() }
			if s.Session == id.Session && (id.Number < s.FirstIncomplete || slices.ContainsFunc(s.Done, long)) {
				return true
			}
		}
	}
	return false
}

// Requests are what clients have asked for and acknowledged.
type Requests struct {
	sessions map[uint64]*requests // never ranged over
}

// requests are those of a session.
type requests struct {
	acknowledged uint64              // all before that number
	asked        map[string][]uint64 // numbers, by key; never ranged over
	issuedAt     map[uint64]int64    // by number; never ranged over
}

// Asks notes a request of a client.
func (q *Requests) Asks(id register.ID, key string) {
	if id.Session == 0 {
		return
	}
	if q.sessions == nil {
		q.sessions = map[uint64]*requests{}
	}
	r := q.sessions[id.Session]
	if r == nil {
		r = &requests{asked: map[string][]uint64{}, issuedAt: map[uint64]int64{}}
		q.sessions[id.Session] = r
	}
	r.acknowledged = max(r.acknowledged, id.FirstIncomplete)
	r.issuedAt[id.Number] = id.IssuedAt
	if !slices.Contains(r.asked[key], id.Number) {
		r.asked[key] = append(r.asked[key], id.Number)
	}
}

// sees judges when a session was seen last that is known to have asked for a request.
func (q *Requests) sees(session, number uint64, at int64) error {
	r := q.sessions[session]
	if r == nil || at >= r.issuedAt[number] {
		return nil
	}
	return fmt.Errorf("it has executed request %d of session %d, which was asked at %d, and has seen it last at %d",
		number, session, r.issuedAt[number], at)
}

// over judges the number before which a key takes the requests of a session for over, which was an earlier one before:
// it is no higher than what its client has acknowledged, unless an answer there was one too many.
func (q *Requests) over(s *peerv1.Session, earlier uint64, key string) error {
	r := q.sessions[s.Session]
	if r == nil || s.FirstIncomplete <= max(r.acknowledged, earlier) ||
		slices.ContainsFunc(r.asked[key], func(n uint64) bool { return earlier <= n && n < s.FirstIncomplete }) {
		return nil
	}
	return fmt.Errorf("it takes the requests of session %d before %d for over, and its client has acknowledged those "+
		"before %d, and asked for none of the others here", s.Session, s.FirstIncomplete, r.acknowledged)
}

// seen is when a session was seen last: no two are the same.
type seen struct {
	at      int64
	session uint64
}

func (s seen) compare(o seen) int {
	return cmp.Or(cmp.Compare(s.at, o.at), cmp.Compare(s.session, o.session))
}

// remembers judges what a state remembers.
func remembers(t *protocol.Tuning, state *peerv1.KeyState) error {
	horizon := seen{state.Horizon, state.HorizonSession}
	if most := cmp.Or(t.Sessions, 1024); len(state.Sessions) > most {
		return fmt.Errorf("it remembers %d sessions, and may %d", len(state.Sessions), most)
	}
	latest, bytes := latestSeen(state), 0
	for _, s := range state.Sessions {
		for _, d := range s.Done {
			bytes += len(d.Answer.GetValue())
		}
	}
	if most := cmp.Or(t.AllAnswerBytes, 4<<20); len(state.Sessions) > 1 && bytes > most {
		return fmt.Errorf("it keeps %d bytes of answers of %d sessions, and may %d", bytes, len(state.Sessions), most)
	}
	for _, s := range state.Sessions {
		long := func(d *peerv1.Done) bool { return len(d.Answer.GetValue()) > cmp.Or(t.AnswerBytes, 16<<10) }
		switch {
		case s.SeenAt < latest-keptFor(t):
			return fmt.Errorf("it remembers session %d, last seen at %d, and one that was seen at %d", s.Session, s.SeenAt,
				latest)
		case slices.ContainsFunc(s.Done, long):
			return fmt.Errorf("it remembers an answer of session %d that is longer than may be", s.Session)
		case state.Horizon != 0 && (seen{s.SeenAt, s.Session}).compare(horizon) <= 0:
			return fmt.Errorf("it remembers session %d, last seen at %d, and has forgotten one that "+
				"was seen later, at %d", s.Session, s.SeenAt,
				horizon.at)
		case len(s.Done) > cmp.Or(t.Answers, 64):
			return fmt.Errorf("it remembers %d answers of session %d", len(s.Done), s.Session)
		case slices.ContainsFunc(s.Done, func(d *peerv1.Done) bool { return d.Number < s.FirstIncomplete }):
			return fmt.Errorf("it remembers an answer of session %d that its client has", s.Session)
		}
	}
	for _, e := range state.Executed {
		if id := e.GetId(); len(e.Answers) == 0 && e.Reads == 0 && id.GetNumber() == 0 {
			return fmt.Errorf("it remembers that something of writer %d was executed, and not what", id.GetWriter())
		}
	}
	return nil
}

// latestSeen is when a state has seen a session last, in milliseconds.
func latestSeen(state *peerv1.KeyState) (latest int64) {
	for _, s := range state.Sessions {
		latest = max(latest, s.SeenAt)
	}
	return latest
}

// keptFor is for how long a session is remembered after it was seen last, in milliseconds.
func keptFor(t *protocol.Tuning) int64 { return cmp.Or(t.SessionsFor.Milliseconds(), 10*60*1000) }

// keepsFew judges the answers that a state keeps of the last batch of each member: each vote carries them. A batch has
// no more operations than it may.
func keepsFew(t *protocol.Tuning, state *peerv1.KeyState) error {
	for _, e := range state.Executed {
		if most := cmp.Or(t.Batch, 64); len(e.Answers) > most {
			return fmt.Errorf("it has %d operations in a batch of writer %d, and may have %d", len(e.Answers),
				e.GetId().GetWriter(), most)
		}
		all := 0
		for _, a := range e.Answers {
			all += len(a.Value)
			if len(a.Value) > 16<<10 {
				return fmt.Errorf("it keeps an answer of %d bytes of a batch of writer %d", len(a.Value), e.GetId().GetWriter())
			}
		}
		if all > 64<<10 {
			return fmt.Errorf("it keeps %d bytes of answers of a batch of writer %d", all, e.GetId().GetWriter())
		}
	}
	return nil
}

// forgets judges what a state has forgotten of an earlier one.
func forgets(t *protocol.Tuning, before, after *peerv1.KeyState) error {
	latest := latestSeen(after)
	horizon := seen{after.Horizon, after.HorizonSession}
	if horizon.compare(seen{before.Horizon, before.HorizonSession}) < 0 {
		return fmt.Errorf("it had forgotten a session that was seen last at %d, and knows of %d only",
			before.Horizon, after.Horizon)
	}
	for _, s := range before.Sessions {
		i := slices.IndexFunc(after.Sessions, func(o *peerv1.Session) bool { return o.Session == s.Session })
		if i < 0 {
			// How many bytes there were is not known where several commands lie between the two.
			full := t.AllAnswerBytes != 0 || len(after.Sessions) >= cmp.Or(t.Sessions, 1024)
			late := s.SeenAt < latest-keptFor(t)
			if (seen{s.SeenAt, s.Session}).compare(horizon) > 0 || !full && !late {
				return fmt.Errorf("it forgets session %d, last seen at %d, of %d, and says to have "+
					"forgotten what was seen up to %d", s.Session, s.SeenAt,
					len(after.Sessions), horizon.at)
			}
			continue
		}
		now := after.Sessions[i]
		for _, d := range s.Done {
			same := func(o *peerv1.Done) bool { return o.Number == d.Number && proto.Equal(o.Answer, d.Answer) }
			// It may have been forgotten in between, and have come again since.
			forgotten := (seen{s.SeenAt, s.Session}).compare(horizon) <= 0
			if d.Number >= now.FirstIncomplete && !forgotten && !slices.ContainsFunc(now.Done, same) {
				return fmt.Errorf("the answer to request %d of session %d, %v, is another one, or gone: %v",
					d.Number, s.Session, d.Answer, now)
			}
		}
	}
	return nil
}
