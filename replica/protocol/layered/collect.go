package layered

import (
	"cmp"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

const (
	sweepRecords = 256 // how many records of fragments are looked at in Config.Suspect
	hurry        = 16  // how many times as many while most of them are of values that are over
)

// grace is how long a fragment stays here at least after its value was last found to be in use, so that reads that
// found it end.
func (p *Protocol) grace() time.Duration { return cmp.Or(p.Config.Tuning.Grace, 4*p.Config.Retry) }

// collect looks through some of the fragments, and asks their writers whether those can go that nothing here refers to.
func (p *Protocol) collect() {
	if p.Now < p.sweep || p.code == nil {
		return
	}
	p.sweep = p.Now.Add(p.Config.Suspect)
	most := cmp.Or(p.Config.Tuning.Looked, sweepRecords)
	left, after := most, p.cursor
	p.cursor = nil // from the beginning, unless there is more
	type found struct {
		key    []byte
		name   name
		record []byte
	}
	var unused []found
	p.visit(after, func(record, key []byte, n name, state peerv1.FragmentState) bool {
		if left--; left < 0 {
			return false
		}
		if left == 0 {
			p.cursor = record
		}
		switch state {
		case peerv1.FragmentState_FRAGMENT_GONE:
		case peerv1.FragmentState_FRAGMENT_WANTED: // a change of the view has ended without this member's
			p.note(record)
		default:
			unused = append(unused, found{key, n, record})
		}
		return true
	})
	idle := 0
	for _, u := range unused {
		values, _ := p.inner.Known(u.key)
		if refers(values, u.name) {
			delete(p.idle, string(u.record))
			p.noteWritten(u.key, u.name)
			continue
		}
		idle++
		since, ok := p.idle[string(u.record)]
		switch {
		case !ok:
			p.idle[string(u.record)] = p.Now
		case p.Now.Sub(since) < p.grace():
		case p.over(u.key, u.name):
			if p.gone(u.name) { // the others have nobody else to ask
				p.tell(p.Config.Nearest, peerv1.Kind_FRAGMENT_OVER, u.key, u.name)
			}
			p.drop(u.key, u.name)
		case p.gone(u.name):
			p.tell(p.Config.Nearest, peerv1.Kind_FRAGMENT_ASK, u.key, u.name)
		case u.name.member() != p.Config.Self:
			p.tell([]view.MemberID{u.name.member()}, peerv1.Kind_FRAGMENT_ASK, u.key, u.name)
		}
	}
	if p.cursor != nil && idle > most/2 { // they come faster than they would go
		p.sweep = p.Now.Add(p.Config.Suspect / hurry)
	}
}

// gone reports whether a value's writer is no member any more.
func (p *Protocol) gone(n name) bool { return p.Config.View.Index(n.member()) < 0 }

func (p *Protocol) tell(to []view.MemberID, kind peerv1.Kind, key []byte, n name) {
	p.SendAllDurably(to, p.message(kind, 0, key, n))
}

func refers(values []register.Value, n name) bool {
	for _, v := range values {
		if d, ok := reference(v); ok && d.name == n {
			return true
		}
	}
	return false
}

// noteWritten marks a value whose metadata is the register's, for good.
func (p *Protocol) noteWritten(key []byte, n name) {
	if values, final := p.inner.Known(key); final && refers(values[:1], n) {
		if state, ok := p.known(key, n); ok && state != peerv1.FragmentState_FRAGMENT_WRITTEN {
			p.mark(key, n, peerv1.FragmentState_FRAGMENT_WRITTEN)
		}
	}
}

// over reports whether this member knows that no read which begins from now on finds a value: its metadata was written,
// so that this member's register had it or something newer, and what the register has now is final and something else;
// or it is of this member's own, and its metadata was never written.
//
// Where it is not known what came of the metadata, as after a crash while it was written, the value is never over
// unless a register is seen to have it.
func (p *Protocol) over(key []byte, n name) bool {
	state, ok := p.known(key, n)
	switch {
	case p.writing(n):
		return false
	case ok && state == peerv1.FragmentState_FRAGMENT_GONE:
		return true
	case ok && state == peerv1.FragmentState_FRAGMENT_WRITTEN:
		values, final := p.inner.Known(key)
		return final && !refers(values, n)
	case !ok || state == peerv1.FragmentState_FRAGMENT_HELD:
		// This disk knows of each name that was submitted from it, in an earlier view too, until the value is over.
		return n.member() == p.Config.Self && n.writer.Incarnation() == uint32(p.Incarnations.Of(p.Config.Self))
	}
	return false
}

// writing reports whether a value is being written here.
func (p *Protocol) writing(n name) bool {
	w := p.writes.Find(n.number)
	return w != nil && w.value.name == n
}

// drop lets a fragment go, unless it turns out to be in use here, or a newcomer is about to have it.
func (p *Protocol) drop(key []byte, n name) {
	values, _ := p.inner.Known(key)
	if state, ok := p.known(key, n); !ok || state == peerv1.FragmentState_FRAGMENT_WANTED || refers(values, n) {
		return
	}
	p.Took(pathDropped)
	p.forget(key, n)
}

// forget deletes the records of a fragment. That a value of an earlier disk is over is remembered: for this disk alone
// does no record mean that.
func (p *Protocol) forget(key []byte, n name) {
	record, pieces := recordKey(recordPrefix, key, n), recordKey(piecesPrefix, key, n)
	delete(p.idle, string(record))
	if n.member() == p.Config.Self && n.writer.Incarnation() != uint32(p.Incarnations.Of(p.Config.Self)) {
		p.put(record, &peerv1.FragmentRecord{State: peerv1.FragmentState_FRAGMENT_GONE})
	} else {
		p.Journal.Delete(record)
	}
	if _, ok := p.Journal.Get(pieces); ok {
		p.Journal.Delete(pieces)
	}
}
