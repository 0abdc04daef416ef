package gryff

import (
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Bounds of what a coordinator remembers of what its regular reads found.
const (
	maxSpreading = 256  // values of up to register.MaxDependencyBytes that it writes back at one time
	maxRecent    = 4096 // keys of which it knows what a quorum holds, and of those where writes meet reads
)

// recentKeys are the keys of which something was noted last, maxRecent of them at most, and that.
type recentKeys[V any] struct {
	of   map[string]V
	keys []string // a ring, oldest at next once it is full
	next int
}

func (r *recentKeys[V]) note(key []byte, v V) {
	if _, known := r.of[string(key)]; !known {
		if r.of == nil {
			r.of = map[string]V{}
		}
		if len(r.keys) < maxRecent {
			r.keys = append(r.keys, string(key))
		} else {
			delete(r.of, r.keys[r.next])
			r.keys[r.next] = string(key)
			r.next = (r.next + 1) % maxRecent
		}
	}
	r.of[string(key)] = v
}

// learnHeld notes that a quorum holds a version of a key, or a newer one. So does one of every later view, but that
// begins with an empty memory, as a restart does.
func (p *Protocol) learnHeld(key []byte, c register.Carstamp) {
	if !p.has(key, c) {
		p.held.note(key, c)
	}
}

// has reports whether a quorum is known to hold a version of a key, or a newer one.
func (p *Protocol) has(key []byte, c register.Carstamp) bool {
	known, ok := p.held.of[string(key)]
	return ok && !known.Less(c)
}

// withoutHeld leaves out the dependencies that a quorum is known to hold.
func (p *Protocol) withoutHeld(after []*peerv1.Dependency) []*peerv1.Dependency {
	return slices.DeleteFunc(after, func(d *peerv1.Dependency) bool {
		return p.has(d.Key, wire.OfDependency(d).Carstamp)
	})
}

// answerRegular answers a read whose value no quorum is known to hold. The read goes on as one of Gryff does, and
// writes the value back, so that the session's next operation has less to wait for, or nothing. It is false if there is
// nothing to go on with.
func (p *Protocol) answerRegular(o *operation) (goesOn bool) {
	p.Took(pathReadRegular)
	r := o.result(1, true)
	if r.Depends = !p.has(o.Key, o.chosen.Carstamp); r.Depends {
		r.Holders = p.holders(o)
	}
	if !r.Depends || p.spreads(o.Key, o.chosen.Carstamp) != nil || p.background == maxSpreading {
		p.end(o, r)
		return false
	}
	p.answer(o, r)
	o.answered = true
	p.background++
	p.spreading[string(o.Key)] = append(p.spreading[string(o.Key)], o.Number)
	return true
}

// spreads is the first of the reads that write a version of a key back, or a newer one, or nil.
func (p *Protocol) spreads(key []byte, c register.Carstamp) *operation {
	for _, number := range p.spreading[string(key)] {
		if o := p.operations.Find(number); !o.chosen.Carstamp.Less(c) {
			return o
		}
	}
	return nil
}

// holds notes that another member has a version of a key, or a newer one, on its disk, as its message says: an answer
// to whatever question, or a question that carries what its coordinator holds.
func (p *Protocol) holds(from view.MemberID, key []byte, c register.Carstamp) {
	p.wroteBackTo(from, key, c)
	p.told(from, key, c)
}

// wroteBackTo has reads that write a version back, or an older one, not wait for the member's answer to themselves.
func (p *Protocol) wroteBackTo(from view.MemberID, key []byte, c register.Carstamp) {
	for _, number := range slices.Clone(p.spreading[string(key)]) {
		o := p.operations.Find(number)
		switch {
		case o == nil: // it ended with one before it
		case c.Less(o.chosen.Carstamp):
			return // the others are newer still
		default:
			o.asked.Answer(p.Incarnations, from)
			p.decide(o)
		}
	}
}

// await has an operation wait until what it carries is written back by reads of this coordinator, if all of that is
// under way.
func (p *Protocol) await(o *operation) bool {
	for _, d := range o.after {
		if p.spreads(d.Key, wire.OfDependency(d).Carstamp) == nil {
			return false
		}
	}
	p.Took(pathDependencyAwaited)
	o.awaits = true
	for _, d := range o.after {
		read := p.spreads(d.Key, wire.OfDependency(d).Carstamp)
		read.awaited = append(read.awaited, o.Number)
	}
	return true
}

// spreadEnded goes on with those that waited for a read to be written back: a quorum holds it now, or the read gave up.
func (p *Protocol) spreadEnded(o *operation, held bool) {
	p.operations.End(o)
	p.background--
	p.leave(p.spreading, o)
	if held {
		p.learnHeld(o.Key, o.chosen.Carstamp)
	}
	for _, op := range o.awaited {
		if waits := p.operations.Find(op); waits != nil && waits.awaits {
			waits.awaits = false
			waits.after = p.withoutHeld(waits.after)
			p.writeBack(waits)
		}
	}
}
