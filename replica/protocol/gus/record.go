package gus

import (
	"cmp"
	"fmt"
	"slices"

	peerv1 "github.com/georegister/georegister/api/peer/v1"
	"github.com/georegister/georegister/replica/protocol/bounds"
	"github.com/georegister/georegister/replica/protocol/wire"
	"github.com/georegister/georegister/replica/register"
)

// recordPrefix begins the journal keys of registers; the register's key follows.
const recordPrefix = 'u'

// ballot orders those who try to decide on a write. The writer's own has round 1.
type ballot struct {
	round    uint64
	proposer register.Writer
}

func (b ballot) less(c ballot) bool {
	return cmp.Or(cmp.Compare(b.round, c.round), cmp.Compare(b.proposer, c.proposer)) < 0
}

// write is what a member knows of a write that it has not heard to be final.
type write struct {
	origin   register.Carstamp // the tag that it began with, which names it
	born     uint64            // the epoch in which it began, of a view where holding its tag is voting for it, or 0
	held     bool              // the register had the origin as its tag: it is in this member's view
	unsure   bool              // a lost disk of this member may have said something else about that
	promised ballot
	voted    uint64 // timestamp of the tag voted for; 0: none
	vote     ballot
	stored   bool // value is that of the write: the tag voted for was larger than the register's
	value    register.Value
	decided  uint64 // timestamp of the write's tag for good; 0: not known
}

// began is the tag that a write began with, and where (born). A tag that is of no undecided write stands for itself.
func (w *write) began(tag register.Carstamp) (origin register.Carstamp, born uint64) {
	if w == nil {
		return tag, 0
	}
	return w.origin, w.born
}

// tag is the write's tag with a timestamp.
func (w *write) tag(timestamp uint64) register.Carstamp {
	return register.Carstamp{Timestamp: timestamp, Writer: w.origin.Writer}
}

// record is a key's register with what is undecided about it. A register whose tag is that of no write in the list is
// final: so at rest a record has nothing but tag and value.
type record struct {
	register.Versioned
	writes    []write           // by origin
	forgotten register.Carstamp // writes with this origin or a smaller one may have been in the list
	asked     register.Carstamp // the write on which a ballot has just been asked for; it is not on disk
}

// find returns the write that began with a tag, or nil. It is valid until the list changes.
func (r *record) find(origin register.Carstamp) *write {
	i, ok := slices.BinarySearchFunc(r.writes, origin, func(w write, c register.Carstamp) int { return w.origin.Compare(c) })
	if !ok {
		return nil
	}
	return &r.writes[i]
}

func (r *record) add(w write) *write {
	i, ok := slices.BinarySearchFunc(r.writes, w.origin, func(w write, c register.Carstamp) int { return w.origin.Compare(c) })
	if !ok {
		r.writes = slices.Insert(r.writes, i, w)
	}
	return &r.writes[i]
}

func (r *record) remove(origin register.Carstamp) {
	r.writes = slices.DeleteFunc(r.writes, func(w write) bool { return w.origin == origin })
}

// about returns the undecided write that has, or may get, a tag.
func (r *record) about(tag register.Carstamp) *write {
	for i := range r.writes {
		w := &r.writes[i]
		if w.decided == 0 && w.origin.Writer == tag.Writer && (w.origin == tag || w.voted == tag.Timestamp) {
			return w
		}
	}
	return nil
}

// final reports whether the register has a tag, for good.
func (r *record) final(tag register.Carstamp) bool {
	return r.Carstamp == tag && r.about(tag) == nil
}

// newest returns the largest tag that a reader must not miss, with its value, and the undecided write that it is of, or
// nil if it is final.
func (r *record) newest() (register.Versioned, *write) {
	v, of := r.Versioned, r.about(r.Carstamp)
	for i := range r.writes {
		if w := &r.writes[i]; w.stored && w.decided == 0 && v.Carstamp.Less(w.tag(w.voted)) {
			v, of = register.Versioned{Carstamp: w.tag(w.voted), Value: w.value}, w
		}
	}
	return v, of
}

// has reports whether the member holds a tag as the algorithms mean it: it has had it as the register's, or voted for
// it.
func (r *record) has(tag register.Carstamp) bool {
	if r.Carstamp == tag {
		return true
	}
	w := r.about(tag)
	return w != nil && (w.origin == tag && w.held || w.voted == tag.Timestamp)
}

// mayHold reports whether this member has not said that it does not hold the first tag of a write.
func (r *record) mayHold(origin register.Carstamp) bool {
	w := r.find(origin)
	return w == nil || w.held
}

// mayChoose reports whether this member has not promised to vote in no ballot of a write's writer.
func (r *record) mayChoose(origin register.Carstamp) bool {
	w := r.find(origin)
	return w == nil && r.forgotten.Less(origin) || w != nil && w.decided == 0 && w.promised.round <= 1
}

// prune drops what nobody will ask for: a write that began where holding is no vote, and that this member has not voted
// on, is stale here once the register is past it, whether it was held or not. Nor does a vote need its value once the
// register is past it, if it is for the write's larger tag: the write ends with that one or with its first. And it
// keeps the list to most, as far as that goes; a write that is being decided is not the one that goes.
func (r *record) prune(most int) {
	for i := range r.writes {
		if w := &r.writes[i]; w.stored && w.voted != w.origin.Timestamp && !r.Carstamp.Less(w.tag(w.voted)) {
			w.stored, w.value = false, nil
		}
	}
	r.writes = slices.DeleteFunc(r.writes, func(w write) bool {
		return w.born == 0 && w.promised == ballot{} && w.voted == 0 && w.decided == 0 && w.origin.Less(r.Carstamp)
	})
	for i := 0; i < len(r.writes) && len(r.writes) > most; {
		w := &r.writes[i]
		if !w.origin.Less(r.Carstamp) || w.stored && r.Carstamp.Less(w.tag(w.voted)) || r.about(r.Carstamp) == w ||
			w.origin == r.asked {
			i++
			continue
		}
		if r.forgotten.Less(w.origin) {
			r.forgotten = w.origin
		}
		r.writes = slices.Delete(r.writes, i, i+1)
	}
}

// end drops writes that their writer has ended, if the register is past them: nobody asks whether they were held, and
// nobody can read them.
func (r *record) end(writer register.Writer, before uint64) {
	r.writes = slices.DeleteFunc(r.writes, func(w write) bool {
		return w.origin.Writer == writer && w.origin.Timestamp < before && w.decided == 0 &&
			w.promised.round <= 1 && w.vote.round <= 1 && !w.stored &&
			w.origin.Less(r.Carstamp) && w.tag(w.voted).Less(r.Carstamp)
	})
}

// Known implements layered.Inner: with what operations that run here have found.
func (p *Protocol) Known(key []byte) (values []register.Value, final bool) {
	r := p.load(key)
	values = append(values, r.Value)
	for i := range r.writes {
		if w := &r.writes[i]; w.stored {
			values = append(values, w.value)
		}
	}
	if k := p.active[string(key)]; k != nil {
		for _, o := range k.operations {
			values = append(values, o.value, o.asked.Value)
		}
		for _, v := range k.versions {
			values = append(values, v.value)
		}
	}
	return values, r.final(r.Carstamp)
}

// Registers implements layered.Inner.
func (p *Protocol) Registers(after []byte, visit func(key []byte, value register.Value, final bool) bool) {
	for record, encoded := range p.Journal.Kind(append([]byte{recordPrefix}, after...)) {
		r, err := decode(encoded) // who loads one that is damaged says so
		if err == nil && !visit(record[1:], r.Value, r.final(r.Carstamp)) {
			return
		}
	}
}

// load returns a key's record. One that can't be decoded stops the member: going on with an absent value would take
// back what it has acknowledged.
func (p *Protocol) load(key []byte) record {
	encoded, _ := p.Journal.Get(p.Keys.Lookup(recordPrefix, key)) // none is an empty one
	r, err := decode(encoded)
	if err != nil {
		p.Damaged(key, err)
	}
	return r
}

func (p *Protocol) store(key []byte, r record) {
	r.prune(cmp.Or(p.Config.Tuning.Writes, writesKept))
	if p.Err() == nil {
		encoded, err := encode(r)
		p.Put(p.Keys.Record(recordPrefix, key), key, encoded, err)
	}
}

// Adopt merges a record of another member's journal, during a state transfer. A tag that came meanwhile and is larger
// stays. Of what is undecided, this member takes over all that the other one has said: whoever counted that, or may
// count it, must find it here too.
func (p *Protocol) Adopt(key, value []byte) error {
	if len(key) == 0 || key[0] != recordPrefix {
		return fmt.Errorf("%q is no register; all members must run one protocol", key)
	}
	e := &peerv1.GusRecord{}
	if err := e.UnmarshalVTUnsafe(value); err != nil {
		return fmt.Errorf("decode a register record: %w", err)
	}
	if err := bounds.Told(e); err != nil {
		return err
	}
	theirs := recordOf(e)
	own := p.load(key[1:])
	if p.relaxed {
		own.doubt(&theirs)
	}
	own.merge(&theirs)
	p.store(key[1:], own)
	p.wake(key[1:])
	return nil
}

// doubt marks the undecided writes of a record that is about to be merged where it says something new of who holds
// them. Where holders are counted, that of another member counts for no one else. This member's lost disk may have held
// a tag that those it copies do not, or the other way round; and what it said then may have been counted, so now it
// says neither.
func (r *record) doubt(o *record) {
	for i := range o.writes {
		w := &o.writes[i]
		if own := r.find(w.origin); own == nil || own.held != w.held {
			w.unsure = true
		}
	}
}

// merge joins another member's record into this one. What one of them knows to be decided the other one's register takes
// first: only who has voted for the write, and has not heard what came of it, may have the value (settle).
func (r *record) merge(o *record) {
	if r.forgotten.Less(o.forgotten) {
		r.forgotten = o.forgotten
	}
	for _, w := range o.writes {
		r.decide(w)
	}
	for _, w := range r.writes {
		o.decide(w)
	}
	for _, w := range o.writes {
		if r.final(w.origin) || w.voted != 0 && r.final(w.tag(w.voted)) {
			continue // it is known to be final here
		}
		own := r.find(w.origin)
		if own == nil {
			r.add(w)
			continue
		}
		if own.decided != 0 {
			continue
		}
		own.held, own.unsure = own.held || w.held, own.unsure || w.unsure
		own.born = max(own.born, w.born)
		if own.promised.less(w.promised) {
			own.promised = w.promised
		}
		if own.vote.less(w.vote) {
			own.voted, own.vote = w.voted, w.vote
			own.stored, own.value = w.stored, w.value
		}
	}
	switch r.Carstamp.Compare(o.Carstamp) {
	case -1:
		if o.about(o.Carstamp) == nil { // final there
			if w := r.about(o.Carstamp); w != nil {
				r.remove(w.origin)
			}
		}
		r.Versioned = o.Versioned
	case 0:
		if w := r.about(r.Carstamp); w != nil && o.about(r.Carstamp) == nil && w.decided == 0 {
			r.remove(w.origin)
		}
	}
}

// decide takes over from another member's record what a write is decided for, if it is, where the write is known here.
func (r *record) decide(w write) {
	if w.decided != 0 && r.settle(w.origin, w.decided) {
		r.add(write{origin: w.origin, decided: w.decided})
	}
}

func encode(r record) ([]byte, error) {
	e := peerv1.GusRecord{
		Timestamp: r.Carstamp.Timestamp, Writer: uint64(r.Carstamp.Writer),
		Present: r.Value.Present(), Value: r.Value,
		Forgotten: r.forgotten.Timestamp, ForgottenWriter: uint64(r.forgotten.Writer),
	}
	for _, w := range r.writes {
		e.Writes = append(e.Writes, &peerv1.GusWrite{
			Origin: w.origin.Timestamp, Writer: uint64(w.origin.Writer), Born: w.born, Held: w.held,
			PromisedRound: w.promised.round, PromisedProposer: uint64(w.promised.proposer),
			Voted: w.voted, VotedRound: w.vote.round, VotedProposer: uint64(w.vote.proposer),
			Stored: w.stored, Present: w.value.Present(), Value: w.value, Decided: w.decided, Unsure: w.unsure,
		})
	}
	return e.MarshalVT()
}

// decode reads a record of this member's disk.
func decode(encoded []byte) (record, error) {
	var e peerv1.GusRecord
	if err := e.UnmarshalVTUnsafe(encoded); err != nil {
		return record{}, fmt.Errorf("decode a register record: %w", err)
	}
	if err := bounds.Record(&e); err != nil {
		return record{}, err
	}
	return recordOf(&e), nil
}

func recordOf(e *peerv1.GusRecord) record {
	r := record{
		Versioned: register.Versioned{Carstamp: tag(e.Timestamp, e.Writer), Value: register.ValueOf(e.Present, e.Value)},
		forgotten: tag(e.Forgotten, e.ForgottenWriter),
	}
	for _, w := range e.Writes {
		r.add(write{
			origin: tag(w.Origin, w.Writer), born: w.Born, held: w.Held,
			promised: ballot{w.PromisedRound, register.Writer(w.PromisedProposer)},
			voted:    w.Voted, vote: ballot{w.VotedRound, register.Writer(w.VotedProposer)},
			stored: w.Stored, value: register.ValueOf(w.Present, w.Value), decided: w.Decided, unsure: w.Unsure,
		})
	}
	return r
}

func tag(timestamp, writer uint64) register.Carstamp { return wire.Carstamp(timestamp, writer, 0) }

func tagOf(m *peerv1.Message) register.Carstamp    { return tag(m.Timestamp, m.Writer) }
func originOf(m *peerv1.Message) register.Carstamp { return tag(m.Gus.Origin, m.Writer) }
func valueOf(m *peerv1.Message) register.Value     { return register.ValueOf(m.Present, m.Value) }
func ballotOf(m *peerv1.Message) ballot {
	return ballot{m.Gus.Round, register.Writer(m.Gus.Proposer)}
}

func setValue(m *peerv1.Message, v register.Value) { m.Present, m.Value = v.Present(), v }

func setBallot(m *peerv1.Message, b ballot) {
	m.Gus.Round, m.Gus.Proposer = b.round, uint64(b.proposer)
}
