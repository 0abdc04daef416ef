package layered

import (
	"fmt"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// write is a large value's.
type write struct {
	base.Operation
	value     metadata
	fragments [][]byte
	stored    quorum.Tally // who has its fragment durably
	submitted bool         // the inner protocol writes the metadata
	result    *register.Result
}

// write begins with the fragments. The own one counts at once: what the inner protocol sends of the metadata waits for
// it.
func (p *Protocol) write(r protocol.Request) {
	if p.code == nil {
		return // the fault is told
	}
	p.Took(pathWrite)
	p.names++
	w := &write{Operation: base.Operation{Request: r, Key: []byte(r.Operation.Key), Number: p.names}}
	w.value = metadata{name{p.Writer(), p.names}, len(r.Operation.Value), sumOf(r.Operation.Value)}
	var err error
	if w.fragments, err = p.code.encode(r.Operation.Value); err != nil {
		p.Fault("encode a value of %d bytes: %w", len(r.Operation.Value), err)
		return
	}
	p.writes.Begin(w)
	own := index(p.Config.Self)
	p.keep(w.Key, w.value.name, peerv1.FragmentState_FRAGMENT_HELD, &peerv1.FragmentPiece{Index: own, Data: w.fragments[own]})
	p.store(w, p.AskAll(&w.stored))
	w.stored.Answer(p.Incarnations, p.Config.Self)
	p.advance(w)
}

// store hands members their fragments.
func (p *Protocol) store(w *write, to []view.MemberID) {
	for _, id := range to {
		m := p.message(peerv1.Kind_FRAGMENT_STORE, 0, w.Key, w.value.name)
		m.Fragment.Index, m.Fragment.Data = index(id), w.fragments[index(id)]
		p.Send(id, m)
	}
}

// onStore takes this member's fragment of another one's value.
func (p *Protocol) onStore(from view.MemberID, m *peerv1.Message) {
	n := nameOf(m)
	if m.Fragment.Index != index(p.Config.Self) || n.member() != from {
		return
	}
	if state, ok := p.known(m.Key, n); !ok || state == peerv1.FragmentState_FRAGMENT_WANTED {
		p.keep(m.Key, n, peerv1.FragmentState_FRAGMENT_HELD, &peerv1.FragmentPiece{Index: m.Fragment.Index, Data: m.Fragment.Data})
		p.unwant(m.Key, n)
	}
	answer := p.message(peerv1.Kind_FRAGMENT_STORED, 0, m.Key, n)
	p.SendDurably(from, answer)
}

// onStored counts an acknowledgement.
func (p *Protocol) onStored(from view.MemberID, m *peerv1.Message) {
	if w := p.writes.Find(m.Fragment.Number); w != nil && w.value.name == nameOf(m) {
		w.stored.Answer(p.Incarnations, from)
		p.advance(w)
	}
}

// advance has the metadata written once enough have their fragments, and completes the write when it is. A disk that
// was lost meanwhile does not count any more. If it had been counted before, whoever holds the metadata knows of that
// by now, so the writer does too; or the member that lost it finds the name with the others, and rebuilds its fragment.
func (p *Protocol) advance(w *write) {
	enough := p.durable(&w.stored)
	switch {
	case w.Over:
	case !w.submitted && enough:
		p.Took(pathWrittenOut)
		w.submitted = true
		p.mark(w.Key, w.value.name, peerv1.FragmentState_FRAGMENT_SUBMITTED)
		p.barrier = p.Journal.Mark()
		p.inside[w.Request.Handle] = &operation{request: w.Request, write: w}
		r := w.Request
		r.Operation.Value = w.value.encode()
		p.inner.Submit(r)
	case w.result != nil && enough:
		p.complete(w, *w.result)
	}
}

// metadataWritten is told what came of the metadata.
func (p *Protocol) metadataWritten(w *write, r register.Result) {
	r.RoundTrips++
	if r.Status != register.OK {
		p.complete(w, r)
		return
	}
	p.mark(w.Key, w.value.name, peerv1.FragmentState_FRAGMENT_WRITTEN)
	w.result = &r
	if p.advance(w); !w.Over {
		p.Took(pathHeldBack)
	}
}

func (p *Protocol) complete(w *write, r register.Result) {
	p.writes.End(w)
	p.CompleteDurably(w.Request.Handle, r)
}

// tickWrites gives up what is too late, and hands out fragments again.
func (p *Protocol) tickWrites() {
	p.writes.Sweep(nil)
	for w := range p.writes.InProgress() {
		switch {
		case p.Late(&w.Request) && !w.submitted:
			p.complete(w, base.Untaken(register.Write, 1, p.tooFewStored()))
		case p.Late(&w.Request) && w.result != nil:
			p.complete(w, base.MayTake(register.Write, w.result.RoundTrips, "disks were lost during the write, and "+p.tooFewStored()))
		default:
			p.store(w, p.Unanswered(&w.stored))
		}
	}
}

func (p *Protocol) tooFewStored() string {
	return fmt.Sprintf("fewer members than %d + %d stored a fragment in time (erasureCoding, faultTolerance)",
		p.Config.Fragments.Data, p.faults(p.Config.View.After()))
}
