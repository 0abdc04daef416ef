package layered

import (
	"errors"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// maxAgain bounds how often a read begins anew because what it found was over by then. Each time another write has
// ended meanwhile, and fragments stay a while after their value is over, so that even once is rare.
const maxAgain = 16

// fetch collects fragments of a value, for a read, or for this member's own: to rebuild it on a disk that is new, or to
// repair it.
type fetch struct {
	base.Operation
	name     name
	read     *operation // nil: to rebuild, or to repair
	repair   bool
	value    metadata // of a read or a repair
	result   register.Result
	pieces   map[uint32][]byte
	answered quorum.Tally
	absent   quorum.Tally
}

func (p *Protocol) newFetch(key []byte, n name) *fetch {
	f := &fetch{Operation: base.Operation{Number: p.Op(), Key: key}, name: n, pieces: map[uint32][]byte{}}
	for _, piece := range p.pieces(key, n) {
		p.gather(f, piece.Index, piece.Data)
	}
	p.fetches.Begin(f)
	return f
}

// gather adds a fragment. One of a member that was to join, in a change that was taken back, may be beyond this view's
// code.
func (p *Protocol) gather(f *fetch, index uint32, data []byte) {
	if int(index) < p.code.n {
		f.pieces[index] = data
	}
}

// readMetadata handles the end of the inner protocol's read.
func (p *Protocol) readMetadata(o *operation, r register.Result) {
	r.RoundTrips += o.trips
	value, large := reference(r.Value)
	if r.Status != register.OK || !large {
		r.Value = unescape(r.Value)
		p.CompleteDurably(o.request.Handle, r)
		return
	}
	p.Took(pathRead)
	f := p.newFetch([]byte(o.request.Operation.Key), value.name)
	f.Request, f.read, f.value, f.result = o.request, o, value, r
	f.answered.Answer(p.Incarnations, p.Config.Self)
	if len(f.pieces) == 0 {
		f.absent.Answer(p.Incarnations, p.Config.Self)
	}
	switch {
	case p.enoughOf(f):
	case p.Config.View.Size() < p.code.k:
		p.fetches.End(f)
		p.CompleteDurably(o.request.Handle, register.Result{Status: register.Unavailable, RoundTrips: r.RoundTrips, Message: fmt.Sprintf(
			"%d members are left, and %d fragments restore the value; it is lost unless others come back, write the key anew", p.Config.View.Size(), p.code.k)})
	default:
		f.result.RoundTrips++
		p.ask(f, f.answered.Ask(&p.Config, p.Now, p.code.k-len(f.pieces)))
		f.answered.Answer(p.Incarnations, p.Config.Self)
	}
}

// lacks reports whether so many members have no fragment that the others have fewer than k.
func (p *Protocol) lacks(f *fetch) bool {
	return p.Config.View.Size()-f.absent.Count(p.Incarnations) < p.code.k
}

// doubtful reports whether so many members have no fragment that the value is over, unless more than f disks are lost:
// k + f had theirs. Others may keep theirs for good, not knowing, so to wait for those that are away could be in vain.
// If it is read again all the same, that is waited for.
func (p *Protocol) doubtful(f *fetch) bool {
	side := p.Config.View.Before() // who joins may have none yet
	return side.Size()-p.answered(&f.absent, side) < p.need(side)
}

func (p *Protocol) ask(f *fetch, to []view.MemberID) {
	m := p.message(peerv1.Kind_FRAGMENT_FETCH, f.Number, f.Key, f.name)
	m.Fragment.Rebuilding = f.read == nil && !f.repair
	p.SendAll(to, m)
}

// onFetch answers with this member's fragment. One that waits for its own has none: it votes, so no writer has counted
// it (docs/protocols.md, "Members that vote and wait"). To a member that rebuilds its own it is not said that there is
// none before its disk is known here for good: a fragment that is acknowledged after that tells the writer that an
// earlier disk is lost.
func (p *Protocol) onFetch(from view.MemberID, m *peerv1.Message) {
	n := nameOf(m)
	answer := p.message(peerv1.Kind_FRAGMENT_FETCHED, m.Op, m.Key, n)
	state, ok := p.known(m.Key, n)
	switch {
	case ok && state != peerv1.FragmentState_FRAGMENT_GONE && state != peerv1.FragmentState_FRAGMENT_WANTED:
		for _, piece := range p.pieces(m.Key, n) {
			answer.Fragment.Index, answer.Fragment.Data = piece.Index, piece.Data
		}
	default:
		answer.Fragment.Absent = true
	}
	if m.Fragment.Rebuilding {
		p.saveDisks()
		p.SendDurably(from, answer)
		return
	}
	p.Send(from, answer)
}

// onFetched counts an answer: its number is that of the fetch, which asks about one value.
func (p *Protocol) onFetched(from view.MemberID, m *peerv1.Message) {
	f := p.fetches.Find(m.Op)
	if f == nil {
		return
	}
	f.answered.Answer(p.Incarnations, from)
	if m.Fragment.Absent {
		f.absent.Answer(p.Incarnations, from)
	} else {
		p.gather(f, m.Fragment.Index, m.Fragment.Data)
	}
	switch {
	case p.enoughOf(f):
	case f.read == nil && !f.repair:
		p.abandon(f)
	case p.lacks(f) && f.repair: // it is over, which the register here has not heard of
		p.fetches.End(f)
	case p.lacks(f):
		p.again(f)
	case f.read != nil && f.read.doubted != f.name && p.doubtful(f):
		f.read.doubted = f.name
		p.again(f)
	case m.Fragment.Absent && !f.answered.Wide():
		p.wide(f)
	}
}

// enoughOf ends a fetch if it has k fragments, and reports whether it has.
func (p *Protocol) enoughOf(f *fetch) bool {
	if len(f.pieces) < p.code.k {
		return false
	}
	p.fetches.End(f)
	switch {
	case f.repair:
		p.repaired(f)
		return true
	case f.read == nil:
		p.rebuilt(f)
		return true
	}
	value, err := p.restored(f)
	r := f.result
	r.Value = value
	if err != nil {
		r = register.Result{Status: register.Unavailable, RoundTrips: r.RoundTrips, Message: fmt.Sprintf(
			"%d fragments of the value don't restore it: %v; a member's disk is damaged", p.code.k, err)}
	}
	p.CompleteDurably(f.read.request.Handle, r)
	return true
}

// restored returns the value that fragments make, if it is the one that was written.
func (p *Protocol) restored(f *fetch) ([]byte, error) {
	value, err := p.code.restore(f.pieces, f.value.length)
	if err == nil && sumOf(value) != f.value.sum {
		err = errors.New("they make another value than was written")
	}
	return value, err
}

// again reads anew: k + f members had fragments when the metadata was written, and so many have none now that the value
// is over. What is read then is newer.
func (p *Protocol) again(f *fetch) {
	p.fetches.End(f)
	o := f.read
	o.again++
	o.trips = f.result.RoundTrips
	if o.again > maxAgain {
		p.CompleteDurably(o.request.Handle, register.Result{Status: register.Unavailable, RoundTrips: o.trips, Message: fmt.Sprintf(
			"the value was replaced %d times while it was read; try again", maxAgain)})
		return
	}
	p.Took(pathAgain)
	p.inside[o.request.Handle] = o
	p.inner.Submit(o.request)
}

// wide asks those who were not asked yet; some of them may be asked twice.
func (p *Protocol) wide(f *fetch) {
	p.Took(pathWide)
	rest := slices.Clone(p.AskAll(&f.answered))
	p.ask(f, slices.DeleteFunc(rest, func(id view.MemberID) bool { return f.answered.Answered(p.Incarnations, id) }))
}

// expire gives up a read that is too late.
func (p *Protocol) expire(f *fetch) {
	p.fetches.End(f)
	p.Complete(f.Request.Handle, base.Untaken(register.Read, f.result.RoundTrips, fmt.Sprintf(
		"fewer than %d members answered with a fragment in time (erasureCoding)", p.code.k)))
}

// askAgain asks those that have not answered, if it is time.
func (p *Protocol) askAgain(f *fetch) {
	if again := p.Unanswered(&f.answered); len(again) > 0 {
		if f.read != nil {
			p.Took(pathWide)
		}
		p.ask(f, again)
	}
}
