// Package layered stores large values as fragments beside a protocol that stores small ones: the layered design of
// section 5.1 of the Gus paper (Tseng et al., SPAA '23), with a Reed-Solomon code.
//
// A value above a threshold is encoded into a fragment for each member, any k of which restore it. The writer hands
// each member its fragment. Once k + f have it durably, so that k are left when f are lost, the inner protocol writes
// the value's metadata: its name, length and checksum. Who reads metadata fetches k fragments. The inner protocol alone
// orders reads and writes, so what it guarantees stays; a name is given to one value, for ever, so what is restored is
// what was written or nothing.
//
// docs/protocols.md, section "Large values as fragments", says what is durable when, what lost disks mean, and when
// fragments go.
package layered

import (
	"slices"
	"time"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol"
	"github.com/georegister/georegister/replica/protocol/base"
	"github.com/georegister/georegister/replica/protocol/member"
	"github.com/georegister/georegister/replica/protocol/quorum"
	"github.com/georegister/georegister/replica/register"
	"github.com/georegister/georegister/replica/view"
)

// Inner is a protocol that can keep the metadata of fragments.
type Inner interface {
	member.Inner
	// Known lists every value of a key that this member may come to tell others, the register's first, and reports whether
	// that one is final: no read that begins from now on returns an older one.
	Known(key []byte) (values []register.Value, final bool)
	// Registers visits the registers of this member behind a key (nil: all), in the order of their keys, until visit
	// returns false, and says of each whether its value is final. Keys and values are valid only during the visit.
	Registers(after []byte, visit func(key []byte, value register.Value, final bool) bool)
	// ResumeWritten is the Resume of a write that ended with this tag: submitted with it in a later view, the write keeps
	// its tag.
	ResumeWritten(tag register.Carstamp) protocol.Resume
}

// Factory makes an Inner over a journal.
type Factory func(protocol.Config, *protocol.Journal, *quorum.Incarnations) Inner

// Protocol is one member's part. It implements member.Inner.
type Protocol struct {
	disk
	inner Inner
	code  *code

	voting  bool   // the inner protocol has been told the time: this member answers
	names   uint64 // the number of the last name
	barrier uint64 // of the journal: what the inner protocol sends waits until this is durable
	scanned bool   // wanted has all that is on disk
	asked   []byte // the record up to which fragments were asked for

	writes  base.Operations[*write] // by the number of their names, until their metadata is written, or given up
	inside  map[uint64]*operation   // what the inner protocol does, by handle: reads, and writes of metadata
	fetches base.Operations[*fetch]
	wanted  map[string]*fetch // of fragments that are to be rebuilt, by the key of their record; nil: not begun

	sweep  protocol.Instant // when to look again for fragments that can go
	cursor []byte           // the record up to which was looked
	idle   map[string]protocol.Instant

	repairs  []*missed        // fragments that this member missed, as found
	survey   protocol.Instant // when to go on with them, and to look for more
	surveyed []byte           // the register up to which was looked
}

var _ member.Inner = (*Protocol)(nil)

// operation is what the inner protocol does for a request.
type operation struct {
	request  protocol.Request // as it was submitted here
	write    *write           // of metadata
	again    int              // a read: how often it began anew
	doubted  name             // a read: what it began anew for though k members may have fragments of it
	trips    int              // round trips of the fetches before that
	resumed  name             // of a write that goes on from another view
	resuming bool
}

// Wrap has large values stored as fragments where Config.Fragments asks for that, and else is the inner protocol.
func Wrap(inner Factory) member.Factory {
	return func(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations) member.Inner {
		if _, coded := journal.Get(codeKey); config.Fragments.Data == 0 && !coded {
			return inner(config, journal, known)
		}
		return New(config, journal, known, inner)
	}
}

// New returns a member's part, with the fragments and registers that its journal holds.
func New(config protocol.Config, journal *protocol.Journal, known *quorum.Incarnations, inner Factory) *Protocol {
	p := &Protocol{
		disk:   disk{base.New("layered", config, journal, known)},
		names:  config.Nonce,
		inside: map[uint64]*operation{},
		wanted: map[string]*fetch{}, idle: map[string]protocol.Instant{},
	}
	p.recallDisks()
	p.inner = inner(config, journal, known)
	err := agree(journal, config.Fragments.Data)
	if err == nil {
		p.code, err = newCode(config.Fragments.Data, config.View)
	}
	if err != nil {
		p.Fault("%w", err)
	}
	if config.View.Joint() {
		p.scan()
	}
	return p
}

// RecordsOf implements protocol.Keyed: what the inner protocol reads.
func (p *Protocol) RecordsOf(kind register.Kind) string {
	return protocol.KeyedOf(p.inner).RecordsOf(kind)
}

// RecordsFor implements protocol.Keyed.
func (p *Protocol) RecordsFor(m *peerv1.Message) string {
	if m.Fragment != nil {
		return ""
	}
	return protocol.KeyedOf(p.inner).RecordsFor(m)
}

// Submit implements protocol.Machine.
func (p *Protocol) Submit(r protocol.Request) {
	o := &operation{request: r}
	switch {
	case r.Operation.Kind == register.Read:
	case r.Operation.Kind != register.Write:
		p.inner.Submit(r)
		return
	case r.Resume != nil: // the value is as it was handed to the inner protocol of an earlier view
		if ref, ok := reference(r.Operation.Value); ok {
			o.resumed, o.resuming = ref.name, true
		}
	case len(r.Operation.Value) > p.Config.Fragments.Threshold:
		p.write(r)
		return
	default:
		r.Operation.Value = escape(r.Operation.Value)
	}
	p.inside[r.Handle] = o
	p.inner.Submit(r)
}

// Receive implements protocol.Machine.
func (p *Protocol) Receive(from view.MemberID, m *peerv1.Message) {
	if m.Fragment == nil {
		p.inner.Receive(from, m)
		return
	}
	if p.code == nil {
		return
	}
	switch m.Kind {
	case peerv1.Kind_FRAGMENT_STORED:
		p.onStored(from, m)
	case peerv1.Kind_FRAGMENT_FETCHED:
		p.onFetched(from, m)
	case peerv1.Kind_FRAGMENT_OVER:
		p.drop(m.Key, nameOf(m))
	default:
		if p.voting {
			p.serve(from, m)
		}
	}
}

// serve answers another member. What a member says that does not vote yet counts nowhere.
func (p *Protocol) serve(from view.MemberID, m *peerv1.Message) {
	switch m.Kind {
	case peerv1.Kind_FRAGMENT_STORE:
		p.onStore(from, m)
	case peerv1.Kind_FRAGMENT_FETCH:
		p.onFetch(from, m)
	case peerv1.Kind_FRAGMENT_ASK:
		if p.over(m.Key, nameOf(m)) {
			p.tell([]view.MemberID{from}, peerv1.Kind_FRAGMENT_OVER, m.Key, nameOf(m))
		}
	}
}

// Tick implements protocol.Machine.
func (p *Protocol) Tick(now protocol.Instant) {
	p.Now, p.voting = now, true
	p.inner.Tick(now)
	p.tickWrites()
	p.fetches.Tick(p.Base, now, p.expire, p.askAgain)
	p.rebuild()
	p.collect()
	p.repair()
}

// Ready implements protocol.Machine.
func (p *Protocol) Ready() protocol.Effects {
	if p.Err() != nil {
		return p.Outbox.Ready()
	}
	e := p.inner.Ready()
	if e.Fault != nil {
		return e
	}
	e.Complete = p.completed(e.Complete)
	e.CompleteAfterPersist = p.completed(e.CompleteAfterPersist)
	if !p.Journal.Survives(p.barrier) {
		// A name whose metadata may be somewhere is known as such to the writer's own disk, which has its own fragment too.
		e.SendAfterPersist = append(e.SendAfterPersist, e.Send...)
		e.CompleteAfterPersist = append(e.CompleteAfterPersist, e.Complete...)
		e.Send, e.Complete = nil, nil
	}
	own := p.Outbox.Ready()
	e.Add(&own)
	return e
}

// completed handles what the inner protocol completes, and returns what of that is complete here too.
func (p *Protocol) completed(all []protocol.Completion) []protocol.Completion {
	return slices.DeleteFunc(all, func(c protocol.Completion) bool {
		o := p.inside[c.Handle]
		if o == nil {
			return false
		}
		delete(p.inside, c.Handle)
		switch {
		case o.write != nil:
			p.metadataWritten(o.write, c.Result)
			return true
		case o.resuming && c.Result.Status == register.OK:
			p.mark([]byte(o.request.Operation.Key), o.resumed, peerv1.FragmentState_FRAGMENT_WRITTEN)
		case o.request.Operation.Kind == register.Read:
			p.readMetadata(o, c.Result)
			return true
		}
		return false
	})
}

// Settle implements member.Inner. A member whose disk was lost has to have its fragments before it votes: it counts as
// lost until then.
func (p *Protocol) Settle(now protocol.Instant) bool {
	if !p.scanned {
		p.scan()
	}
	p.fetches.Tick(p.Base, now, p.expire, p.askAgain)
	p.rebuild()
	return p.inner.Settle(now) && len(p.wanted) == 0
}

// Unsettled implements member.Inner.
func (p *Protocol) Unsettled() int { return p.inner.Unsettled() + len(p.wanted) }

// Unfinished implements protocol.Machine. A write whose metadata was not written begins again, under another name.
func (p *Protocol) Unfinished() []protocol.Request {
	unfinished := p.inner.Unfinished()
	for w := range p.writes.InProgress() {
		switch {
		case !w.submitted:
			unfinished = append(unfinished, w.Request)
		case w.result != nil: // the inner protocol finds that it was written
			r := w.Request
			r.Operation.Value = w.value.encode()
			r.Resume = p.inner.ResumeWritten(w.result.Carstamp)
			unfinished = append(unfinished, r)
		}
	}
	for f := range p.fetches.InProgress() {
		if f.read != nil {
			unfinished = append(unfinished, f.read.request)
		}
	}
	return unfinished
}

// Pace implements protocol.Machine.
func (p *Protocol) Pace(retry, suspect time.Duration) {
	p.Base.Pace(retry, suspect)
	p.inner.Pace(retry, suspect)
}

// Pending is how many operations wait for answers.
func (p *Protocol) Pending() int {
	return p.writes.Len() + p.fetches.Len() + p.inner.Pending()
}

// faults is f: how many members may be lost.
func (p *Protocol) faults(side view.View) int {
	return p.fragments().Tolerated(side)
}

func (p *Protocol) fragments() view.Fragments {
	return view.Fragments{Data: p.Config.Fragments.Data, Faults: p.Config.Faults}
}

// durable reports whether so many members have acknowledged, with the disks that they have now, that k are left when f
// are lost: k + f of those before a change and of those after it. A majority too, so that whoever copies the state of
// one hears of the name.
func (p *Protocol) durable(f *quorum.Tally) bool {
	for _, side := range p.Config.View.Sides() {
		if p.answered(f, side) < p.need(side) {
			return false
		}
	}
	return true
}

// answered is how many members of a side have answered, with the disks that they have now.
func (p *Protocol) answered(t *quorum.Tally, side view.View) int {
	n := 0
	for _, m := range side.Members {
		if t.Answered(p.Incarnations, m.ID) {
			n++
		}
	}
	return n
}

// need is how many members of a side must have acknowledged: more than a view that a recovery left has.
func (p *Protocol) need(side view.View) int {
	return p.fragments().Holders(side)
}

// message begins a message about a value of a key.
func (p *Protocol) message(kind peerv1.Kind, op uint64, key []byte, n name) *peerv1.Message {
	m := p.Message(kind, op, key)
	m.Fragment = &peerv1.Fragment{Writer: uint64(n.writer), Number: n.number}
	return m
}
