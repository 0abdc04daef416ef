package invariant

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// written is what writes have in common that write one value, or none, to a key.
type written struct {
	key string
	content
}

func writtenTo(key string, v register.Value) written {
	return written{key, content{present: v.Present(), value: hash(v)}}
}

// Asks notes that a client asks a member for a write.
func (r *Run) Asks(key string, v register.Value) {
	if r.requested == nil {
		r.requested = map[written]int{}
	}
	r.requested[writtenTo(key, v)]++
}

// give holds it that a write has one carstamp for good, with Gus the tag that it began with, also where it goes on in
// another view: a value is given no more of them than clients have asked for, and a value that nobody has asked for
// none. The metadata of a large value is written once.
func (r *Run) give(s Speaker, m *peerv1.Message) {
	c := wire.Of(m).Carstamp
	switch m.Kind {
	case peerv1.Kind_WRITE2:
		if len(m.After) > 0 || m.Rmws > 0 {
			return
		}
	case peerv1.Kind_GUS_WRITE, peerv1.Kind_GUS_LOCK, peerv1.Kind_GUS_COMMIT:
		c = wire.Carstamp(m.Gus.GetOrigin(), m.Writer, 0)
	default:
		return
	}
	w := writtenTo(string(m.Key), register.ValueOf(m.Present, m.Value))
	if r.requested == nil || slices.Contains(r.given[w], c) {
		return
	}
	if r.given == nil {
		r.given = map[written][]register.Carstamp{}
	}
	r.given[w] = append(r.given[w], c)
	most := r.requested[w]
	if _, large := referred(m.Key, m.Value); large {
		most = max(most, 1)
	}
	if given := r.given[w]; len(given) > most {
		r.broken(s.ID, "writes %.40q to key %q under carstamps %v, and clients have asked for that %d times", m.Value, m.Key,
			given, most)
	}
}

// tell holds it that a write of Gus has one tag for good.
func (r *Run) tell(s Speaker, m *peerv1.Message) {
	if m.Gus == nil {
		return
	}
	key, origin, c := string(m.Key), wire.Carstamp(m.Gus.Origin, m.Writer, 0), wire.Of(m).Carstamp
	switch m.Kind {
	case peerv1.Kind_GUS_COMMIT:
		if origin != c {
			if r.began == nil {
				r.began = map[tag]register.Carstamp{}
			}
			r.began[tag{key, c}] = origin
		}
	case peerv1.Kind_GUS_FINAL:
		r.ends(s, key, origin, c)
	}
}

// ends notes the tag that a write of Gus has for good, by the one that it began with.
func (r *Run) ends(s Speaker, key string, origin, c register.Carstamp) {
	w := tag{key, origin}
	was, known := r.ended[w]
	switch {
	case r.ended == nil:
		r.ended = map[tag]register.Carstamp{w: c}
	case !known:
		r.ended[w] = c
	case was != c:
		r.broken(s.ID, "has tag %v for that of write %v of key %q, and before it was %v", c, origin, key, was)
	}
}

// answeredWith notes the tag that is answered with as that of its write for good.
func (r *Run) answeredWith(s Speaker, key string, c register.Carstamp) {
	origin, later := r.began[tag{key, c}]
	if !later {
		origin = c
	}
	r.ends(s, key, origin, c)
}
