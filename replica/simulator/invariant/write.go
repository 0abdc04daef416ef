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

// Asks notes that a client asks a member for a write, which comes after what its session depends on.
func (r *Run) Asks(key string, v register.Value, after []register.Dependency) {
	if r.requested == nil {
		r.requested, r.cameAfter = map[written]int{}, map[written][]register.Dependency{}
	}
	w := writtenTo(key, v)
	if r.requested[w]++; r.requested[w] == 1 {
		r.cameAfter[w] = after
		return
	}
	// Several may write the same, or nothing.
	r.cameAfter[w] = slices.DeleteFunc(slices.Clone(r.cameAfter[w]), func(d register.Dependency) bool {
		return !slices.ContainsFunc(after, func(o register.Dependency) bool {
			return o.Key == d.Key && !o.Carstamp.Less(d.Carstamp)
		})
	})
}

// CameAfter holds it that who answers an operation has what that comes after on its own disk: it counts as one of the
// quorum that holds it.
func (r *Run) CameAfter(s Speaker, d register.Dependency, has Records) {
	if r.Broken != nil {
		return
	}
	if why := lacksRegister(d, has); why != "" {
		r.broken(s.ID, "answers an operation that comes after %v of key %q, and has %s", d.Carstamp, d.Key, why)
	}
}

// comesAfter holds it that who has others hold a write of Gryff has what that comes after, for the same reason: whoever
// reads the write relies on it. A message that has others hold what an operation comes after brings nothing else along,
// and any other one names a key.
func (r *Run) comesAfter(s Speaker, m *peerv1.Message, has Records) {
	if m.Kind == peerv1.Kind_READ2 && len(m.After) > 0 && (len(m.Key) > 0 || m.Present) {
		r.broken(s.ID, "brings key %q along with what an operation comes after, and nobody looks at it", m.Key)
	}
	if len(m.Key) == 0 && len(m.After) == 0 && (m.Kind == peerv1.Kind_READ2 || m.Kind == peerv1.Kind_WRITE2) {
		r.broken(s.ID, "asks others with %v to hold nothing", m.Kind)
	}
	if m.Kind != peerv1.Kind_WRITE2 || len(m.After) > 0 || m.Rmws > 0 {
		return
	}
	for _, d := range r.cameAfter[writtenTo(string(m.Key), register.ValueOf(m.Present, m.Value))] {
		if why := lacksRegister(d, has); why != "" {
			r.broken(s.ID, "writes %.40q to key %q after %v of key %q, and has %s", m.Value, m.Key, d.Carstamp, d.Key,
				why)
		}
	}
}

// lacksRegister is what there is less of than a dependency says, or nothing.
func lacksRegister(d register.Dependency, has Records) string {
	record := recordKey(registers, []byte(d.Key))
	raw, _ := has(record)
	is, _, err := read(record, raw)
	if err != nil {
		return err.Error()
	}
	return is.lacks(fact{carstamp: d.Carstamp})
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
	if small, is := escaped(m.Value); is && r.requested[w] == 0 {
		w = writtenTo(string(m.Key), small)
	}
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
