package invariant

import (
	"fmt"
	"hash/fnv"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// name is a carstamp of a register, whose number is its timestamp, or a ballot, or a fragment of a large value.
type name struct {
	key                    string
	ballot, fragment       bool
	number, writer, detail uint64 // detail: of a carstamp its rmws, of a ballot its proposer's attempt, of a fragment its index
}

// String is the name as people are told.
func (n name) String() string {
	if n.fragment {
		return fmt.Sprintf("fragment %d of %v", n.detail, value{n.key, register.Writer(n.writer), n.number})
	}
	if n.ballot {
		return fmt.Sprintf("ballot %d of %v (%d) of key %q", n.number, register.Writer(n.writer), n.detail, n.key)
	}
	return fmt.Sprintf("carstamp %v of key %q", wire.Carstamp(n.number, n.writer, n.detail), n.key)
}

// name holds what a message names against what was said under that name before, by whomever: a carstamp has one value,
// also that which a write of Gus began with, a ballot one state, and a fragment of a large value one content.
func (r *Run) name(s Speaker, m *peerv1.Message) {
	if read := m.Kind == peerv1.Kind_READ1 || m.Kind == peerv1.Kind_READ1_REPLY; read && m.Same && len(m.Value) > 0 {
		r.broken(s.ID, "says %v of key %q without its value, and brings %d bytes", m.Kind, m.Key, len(m.Value))
	}
	switch m.Kind {
	case peerv1.Kind_READ1: // ABD's brings no value along, nor does Gryff's if that is large
		if m.Present && !m.Same {
			r.stands(s, m, carstampOf(m))
		}
	case peerv1.Kind_READ2, peerv1.Kind_WRITE2:
		if len(m.After) == 0 {
			r.stands(s, m, carstampOf(m))
		}
	case peerv1.Kind_READ1_REPLY:
		if !m.Same {
			r.stands(s, m, carstampOf(m))
		}
	case peerv1.Kind_GUS_READ, peerv1.Kind_GUS_READ_REPLY:
		// The question brings a value if it says so, the answer if it is another one.
		if m.Kind == peerv1.Kind_GUS_READ == m.Same {
			r.stands(s, m, carstampOf(m))
			r.stands(s, m, originOf(m))
		}
	case peerv1.Kind_GUS_LOCK: // its tag is one that the write may get
		r.stands(s, m, originOf(m))
	case peerv1.Kind_GUS_WRITE, peerv1.Kind_GUS_COMMIT:
		r.stands(s, m, carstampOf(m))
		r.stands(s, m, originOf(m))
	case peerv1.Kind_FRAGMENT_STORE, peerv1.Kind_FRAGMENT_FETCHED:
		if f := m.Fragment; !f.GetAbsent() {
			r.stands(s, m, name{key: string(m.Key), fragment: true, number: f.GetNumber(), writer: f.GetWriter(), detail: uint64(f.GetIndex())})
		}
	case peerv1.Kind_PAXOS_VOTE:
		r.stands(s, m, ballotOf(m, m.GetRmwPaxos().GetRound()))
	case peerv1.Kind_PAXOS_ACK, peerv1.Kind_PAXOS_STATE:
		if voted := m.GetRmwPaxos().GetVoted(); voted != nil && !m.Same {
			r.stands(s, m, ballotOf(m, voted))
		}
	}
}

func carstampOf(m *peerv1.Message) name {
	return name{key: string(m.Key), number: m.Timestamp, writer: m.Writer, detail: m.Rmws}
}

func originOf(m *peerv1.Message) name {
	return name{key: string(m.Key), number: m.Gus.GetOrigin(), writer: m.Writer}
}

func ballotOf(m *peerv1.Message, b *peerv1.RMWPaxosRound) name {
	return name{key: string(m.Key), ballot: true, number: b.GetN(), writer: b.GetProposer(), detail: b.GetAttempt()}
}

// stands holds what a message tells of a register against what its name stood for before. Nothing is written without a
// carstamp.
func (r *Run) stands(s Speaker, m *peerv1.Message, n name) {
	if !n.ballot && !n.fragment && n.number == 0 && n.writer == 0 && n.detail == 0 {
		if m.Present {
			r.broken(s.ID, "says %v of key %q with a value and no carstamp", m.Kind, m.Key)
		}
		return
	}
	is := content{present: m.Present, value: hash(m.Value)}
	if n.fragment {
		is.value = hash(m.Fragment.GetData())
	}
	if n.ballot {
		is.timestamp, is.writer, is.table = m.Timestamp, m.Writer, hash(m.GetRmwPaxos().GetTable())
	}
	was, known := r.named[n]
	switch {
	case r.named == nil:
		r.named = map[name]content{n: is}
	case !known:
		r.named[n] = is
	case was != is:
		r.broken(s.ID, "says %v of %v with %.40q and carstamp %v, and before it stood for something else",
			m.Kind, n, m.Value, wire.Of(m).Carstamp)
	}
}

// Answered holds it that the answer of a write tells a carstamp, where registers have those of their writes.
func (r *Run) Answered(s Speaker, key string, c register.Carstamp, disk Records) {
	if r.Broken != nil || !c.IsZero() {
		return
	}
	_, plain := disk(recordKey(registers, []byte(key)))
	_, gus := disk(recordKey(undecided, []byte(key)))
	if plain || gus {
		r.broken(s.ID, "answers a write of key %q without a carstamp", key)
	}
}

// Executed holds it that a request with an id is answered once it was executed, where requests are instances: a state of
// its key has it.
func (r *Run) Executed(s Speaker, key string, id register.ID, all ...Records) {
	if r.Broken != nil || id.Session == 0 {
		return
	}
	record, any := recordKey(states, []byte(key)), false
	for _, has := range all {
		state, known := has(record)
		if any = any || known; known && remembers(state, id) {
			return
		}
	}
	if any {
		r.broken(s.ID, "answers request %d of session %d, which no state of key %q has", id.Number, id.Session, key)
	}
}

// content is what a name stands for: a value, or, for a ballot, a state.
type content struct {
	present                         bool
	value, timestamp, writer, table uint64
}

func hash(b []byte) uint64 {
	h := fnv.New64a()
	h.Write(b)
	return h.Sum64()
}
