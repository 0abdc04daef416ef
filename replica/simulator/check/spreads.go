package check

import (
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Spreads is what a process of a member of Gryff-RSC writes back of what its regular reads have found. It tells no
// session to depend on what a quorum is known to hold, writes nothing back twice at a time, and has nobody carry what
// is held, or is being written back: that would be a round trip more, and its messages. The zero value is that of a
// process, or a view, that begins.
type Spreads struct {
	open  []*spread                    // as they began
	held  map[string]register.Carstamp // by key, what a quorum holds since an earlier turn; never ranged over
	asked map[uint64]bool              // numbers of questions that carry something; never ranged over
}

// spread is one write-back.
type spread struct {
	number   uint64
	key      string
	carstamp register.Carstamp
	lack     []view.MemberID  // who was asked and has not answered yet
	deadline protocol.Instant // of its read; 0: none
	heard    bool             // some have answered: it may be over
}

// over reports whether a write-back is given up.
func (s *spread) over(now protocol.Instant) bool { return s.deadline != 0 && now >= s.deadline }

// Found is the answer of a regular read that its session depends on.
type Found struct {
	Key      string
	Carstamp register.Carstamp
	Deadline protocol.Instant
	Others   bool // reads of the key that are not regular are under way, and write back, too
}

// Hears notes an answer.
func (all *Spreads) Hears(from view.MemberID, m *peerv1.Message) {
	if m.Kind != peerv1.Kind_READ2_REPLY {
		return
	}
	for _, s := range all.open {
		if s.number == m.Op {
			s.heard = true
			s.lack = slices.DeleteFunc(s.lack, func(id view.MemberID) bool { return id == from })
		}
	}
}

// Turns judges what the process does in a turn: what its reads have found, and what it sends.
func (all *Spreads) Turns(found []Found, now protocol.Instant, sent ...[]protocol.Envelope) error {
	var err error
	breach := func(format string, args ...any) {
		if err == nil {
			err = fmt.Errorf(format, args...)
		}
	}
	before := len(all.open)
	fresh := func(m *peerv1.Message) bool { return m.Kind == peerv1.Kind_READ2 && !all.asked[m.Op] }
	for _, f := range found {
		if all.holds(f.Key, f.Carstamp) {
			breach("has a session depend on %v of key %q, and knows that a quorum holds it", f.Carstamp, f.Key)
		}
		s := &spread{key: f.Key, carstamp: f.Carstamp, deadline: f.Deadline}
		for _, envelopes := range sent {
			for i := range envelopes {
				e := &envelopes[i]
				m := e.Message
				if !fresh(m) || len(m.After) > 0 || string(m.Key) != f.Key || wire.Of(m).Carstamp != f.Carstamp ||
					s.number != 0 && s.number != m.Op || all.known(m.Op, s) {
					continue
				}
				s.number, s.lack = m.Op, append(s.lack, e.To)
			}
		}
		other := under(all.open, f.Key, f.Carstamp)
		again := s.number != 0 && other != nil && all.surely(other, before, now)
		switch {
		case again && f.Others: // what is sent may be theirs
			continue
		case again:
			breach("writes %v of key %q back twice at a time", f.Carstamp, f.Key)
		case s.number == 0 && other == nil && len(all.open) < spreadsKept:
			breach("has a session depend on %v of key %q, and does not write it back", f.Carstamp, f.Key)
		}
		if s.number != 0 {
			all.open = append(all.open, s)
		}
	}
	for _, envelopes := range sent {
		for i := range envelopes {
			if m := envelopes[i].Message; fresh(m) && len(m.After) > 0 {
				if all.asked == nil {
					all.asked = map[uint64]bool{}
				}
				all.asked[m.Op] = true
				all.carries(m, before, now, breach)
			}
		}
	}
	all.end(now)
	return err
}

// spreadsKept is how many values a process writes back at a time at most.
const spreadsKept = 256

// known reports whether a number is that of another write-back.
func (all *Spreads) known(number uint64, than *spread) bool {
	return slices.ContainsFunc(all.open, func(s *spread) bool { return s != than && s.number == number })
}

// holds reports whether a quorum has held a version, or a newer one, since an earlier turn.
func (all *Spreads) holds(key string, c register.Carstamp) bool {
	known, ok := all.held[key]
	return ok && !known.Less(c)
}

// under is the last write-back of a version, or of a newer one, which may be under way, or nil.
func under(open []*spread, key string, c register.Carstamp) *spread {
	for _, s := range slices.Backward(open) {
		if s.key == key && !s.carstamp.Less(c) {
			return s
		}
	}
	return nil
}

// surely reports whether a write-back is under way since an earlier turn, of which there were so many.
func (all *Spreads) surely(s *spread, before int, now protocol.Instant) bool {
	return !s.heard && !s.over(now) && slices.Contains(all.open[:before], s)
}

// carries judges a question that carries what an operation comes after.
func (all *Spreads) carries(m *peerv1.Message, before int, now protocol.Instant, breach func(string, ...any)) {
	waits := true
	for _, d := range m.After {
		key, c := string(d.Key), wire.OfDependency(d).Carstamp
		if all.holds(key, c) {
			breach("carries %v of key %q, and knows that a quorum holds it", c, key)
		}
		s := under(all.open[:before], key, c)
		waits = waits && s != nil && all.surely(s, before, now)
	}
	if waits {
		breach("carries what its reads are writing back: %v", m.After)
	}
}

// end ends the turn: what all have answered who were asked, a quorum holds.
func (all *Spreads) end(now protocol.Instant) {
	all.open = slices.DeleteFunc(all.open, func(s *spread) bool {
		if len(s.lack) > 0 {
			return s.over(now)
		}
		if all.held == nil {
			all.held = map[string]register.Carstamp{}
		}
		if all.held[s.key].Less(s.carstamp) {
			all.held[s.key] = s.carstamp
		}
		return true
	})
}
